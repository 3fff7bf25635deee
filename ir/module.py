"""IRModule: the functions of a program by name. Passes make new ones, `with_function`; scripts may change theirs."""
from __future__ import annotations

from .node import Mutator, Node, node, node_field
from .upper import upper


SYMBOL = "global_symbol"  # the attribute of a function that others find, which says by what name


class CallingConv:
    """How a function is called, by TVM's numbers: what the attribute "calling_conv" says."""

    DEFAULT, C_PACKED_FUNC, DEVICE_KERNEL_LAUNCH = range(3)


class BaseFunc(Node):
    """Base of PrimFunc and relax.Function."""

    __slots__ = ()

    def with_attr(self, key, value=None):
        """The function with an attribute more, or with all of a dict of them."""
        return with_attr(self, key, value)

    def with_attrs(self, attrs):
        """The function with all attributes of a dict more."""
        return with_attr(self, dict(attrs), None)

    def without_attr(self, key):
        """The function without an attribute; itself when it has none of that name."""
        return without_attr(self, key)


@node
class GlobalVar(Node):
    """The name of a function in its module, used as a call's operator."""

    name: str
    struct_info: object = node_field(ignore=True, default=None)  # of the function, where it is known

    def __post_init__(self):
        object.__setattr__(self, "name", str(self.name))  # not a FunctionName

    def __repr__(self):
        return f'I.GlobalVar("{self.name}")'

    def __eq__(self, other):
        return self.name == (other.name if isinstance(other, GlobalVar) else other)

    def __hash__(self):
        return hash(self.name)

    def __call__(self, *args):
        """A call of the function: in a graph of graph values, in TensorIR of numbers and expressions."""
        return upper("call_of_function")(self, args)

    @property
    def name_hint(self):
        return self.name


class FunctionName(str):
    """A key of IRModule.functions: a string that scripts also take for the function's GlobalVar."""

    __slots__ = ()

    @property
    def name_hint(self):
        return str(self)


@node
class IRModule(Node):
    """`functions`: {name: function}; `attrs`: facts about the whole module (model name, dimension names ...);
    `global_infos`: {kind: what functions speak of by number}, the devices of "vdevice"."""

    functions: dict = node_field(default_factory=dict)
    attrs: dict = node_field(default_factory=dict)
    global_infos: dict = node_field(default_factory=dict)

    def __post_init__(self):
        for field in ("functions", "attrs", "global_infos"):
            if getattr(self, field) is None:  # as TVM's scripts say that there are none
                object.__setattr__(self, field, {})
        known = set(map(type, self.functions)) <= {FunctionName}  # of most modules, which passes make of others
        object.__setattr__(self, "functions", dict(self.functions) if known else {
            n if type(n) is FunctionName else FunctionName(_name(n)): f for n, f in self.functions.items()})

    @staticmethod
    def from_expr(func):
        """The module of one function, under its "global_symbol" or, without one, "main"."""
        if isinstance(func, IRModule):
            return func
        return IRModule({func.attrs.get("global_symbol", "main"): func})

    def __getitem__(self, name):
        name = _name(name)
        if name not in self.functions:
            raise KeyError(f"no function {name!r} in the module; it has {', '.join(self.functions) or 'none'}")
        return self.functions[name]

    def __contains__(self, name):
        return _name(name) in self.functions

    def __setitem__(self, name, function):
        """Put a function into this module, in the place of one of that name.
        What was made of it before keeps the old."""
        self.functions[FunctionName(_name(name))] = function

    update_func = __setitem__

    def __delitem__(self, name):
        """Leave a function out of this module; KeyError when there is none."""
        self[name]  # raises, and says which there are
        del self.functions[FunctionName(_name(name))]

    def update(self, other):
        """Put the functions of another module, or of a dict, into this one."""
        for name, function in getattr(other, "functions", other).items():
            self[name] = function

    def clone(self):
        """A module of the same functions, which may be changed without this one."""
        return IRModule(dict(self.functions), dict(self.attrs), dict(self.global_infos))

    def update_global_info(self, name, global_info):
        """Put the list of global infos of a kind into this module."""
        self.global_infos[name] = tuple(global_info)

    def functions_items(self):
        """[(GlobalVar, function)] in order of their names."""
        return [(GlobalVar(name), self.functions[name]) for name in sorted(self.functions)]

    def get_global_var(self, name):
        """The GlobalVar of a function; KeyError when there is none."""
        return GlobalVar(_name(name), getattr(self[name], "struct_info", None))

    def get_global_vars(self):
        return [GlobalVar(name) for name in self.functions]

    def get_attr(self, key):
        """An attribute, None when there is none."""
        return self.attrs.get(key)

    def with_function(self, name, function):
        """A module in which `name` is `function` (added at the end when new)."""
        return self.replace(functions={**self.functions, FunctionName(_name(name)): function})

    def with_functions(self, functions):
        return self.replace(functions=dict(functions))

    def replace_global_vars(self, replacements):
        """The module with functions by other names, in calls, too: {old: new}, strings or GlobalVars. What others find
        by the old name they find by the new one. ValueError where two functions would have one name."""
        new = {_name(old): _name(name) for old, name in replacements.items() if _name(old) != _name(name)}
        for old in new:
            self[old]  # raises KeyError
        names = [new.get(n, str(n)) for n in self.functions]
        twice = [n for n in names if names.count(n) > 1]
        if twice:
            raise ValueError(f"replace_global_vars: two functions would be {twice[0]!r}")
        rewrite = _Renamed(new)
        return self.replace(functions={FunctionName(name): rewrite.function(n, f) for name, (n, f) in zip(
            names, self.functions.items())}) if new else self

    def with_attr(self, key, value=None):
        """The module with an attribute more, or with all of a dict of them. An int32 immediate is a number of Python's."""
        given = key if isinstance(key, dict) else {key: value}
        return with_attr(self, {k: v.value if _is_int(v) else v for k, v in given.items()}, None)

    with_attrs = with_attr

    def without_attr(self, key):
        return without_attr(self, key)

    def script(self, *, show_meta=False, **options):
        """The module in script syntax; show_meta: with its constants, so that from_source reads the text alone.

        options: see script.script.
        """
        return upper("script")(self, show_meta=show_meta, **options)

    def __str__(self):
        return self.script()

    def show(self, style=None, black_format=None, **options):
        """Print the module's script, coloured on a terminal."""
        upper("show")(self.script(**options), style=style)


class _Renamed(Mutator):
    """Calls of functions by other names."""

    def __init__(self, names):
        self.names = names

    def visit_GlobalVar(self, v):
        return v.replace(name=self.names[v.name]) if v.name in self.names else v

    def function(self, name, func):
        """The function that was called `name`; where that was its symbol, its new name is."""
        func = self.visit(func)
        renamed = name in self.names and (func.attrs or {}).get(SYMBOL) == name
        return with_attr(func, SYMBOL, self.names[name]) if renamed else func


def _is_int(value):
    return type(value).__name__ == "IntImm" and value.dtype == "int32"


def _name(name):
    return name.name if isinstance(name, GlobalVar) else name


def with_attr(value, key, attr):
    """A function or module with an attribute more, or with all of a dict of them."""
    return value.replace(attrs={**value.attrs, **(key if isinstance(key, dict) else {key: attr})})


def linked(func, name, private=False):
    """A function that others find by its "global_symbol": that which it has, or `name`; private ones have none."""
    return func if private or SYMBOL in func.attrs else func.with_attr(SYMBOL, name)


def linkage(func, name):
    """(whether a function called `name` is private, its attributes but for the symbol that its name says)."""
    attrs = func.attrs or {}
    return SYMBOL not in attrs, attrs if attrs.get(SYMBOL) != name else {k: v for k, v in attrs.items() if k != SYMBOL}


def without_attr(value, key):
    """A function or module without an attribute; itself when it has none of that name."""
    if key not in value.attrs:
        return value
    return value.replace(attrs={k: v for k, v in value.attrs.items() if k != key})
