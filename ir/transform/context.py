"""Passes as values: a function over programs with a name, run under a PassContext that watches and chooses.

A pass is a pure function. `Pass` gives it a name and a level; `PassContext` holds the level of optimization, which
passes are required or disabled, settings by name, and instruments that see the module before and after each pass.
"""
from __future__ import annotations

import inspect
import re
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module

from ..module import IRModule
from ..node import Mutator
from ..relax.expr import DataflowBlock, Function
from ..tir.function import PrimFunc
from .facts import check_order

METHODS = ("transform_function", "transform_module", "transform_dataflowblock")  # of classes that are passes
CONFIG = {}  # name of a setting -> function that checks a value and returns it; the pass table registers them
_CURRENT = ContextVar("ingot_pass_context", default=None)


class ConfigError(ValueError, AttributeError):
    """A setting of PassContext's that there is not, or a value that it cannot have; in TVM an AttributeError."""


class Settings(dict):
    """The settings of a pass, also as attributes; what is not set is as the function `of` the pass has it."""

    def __init__(self, values, of):
        super().__init__(values)
        self.__dict__["_of"] = of

    def __getattr__(self, name):
        if name in self:
            return self[name]
        known = inspect.signature(self.__dict__["_of"]).parameters
        if name not in known or known[name].default is inspect.Parameter.empty:
            raise AttributeError(f"there is no setting {name!r}; there is {', '.join(list(known)[1:])}")
        return known[name].default


@dataclass(frozen=True)
class PassInfo:
    """name; opt_level: the least level at which Sequential runs the pass; required: names of passes to run before;
    requires, ensures: facts (facts.py) of the programs that it takes and gives."""

    name: str
    opt_level: int = 0
    required: tuple = ()
    requires: tuple = ()
    ensures: tuple = ()

    def __str__(self):
        return self.name


class Pass:
    """A function IRModule -> IRModule with a PassInfo. run(module, context) returns a module."""

    def __init__(self, run, info):
        self.run, self.info = run, info

    @property
    def name(self):
        return self.info.name

    def __call__(self, mod):
        """The module after the pass, or the module itself where an instrument says not to run it."""
        if not isinstance(mod, IRModule):
            raise TypeError(f"pass {self.name} takes an IRModule, not a {type(mod).__name__}; "
                            "IRModule({'main': func}) holds one function")
        context = PassContext.current()
        if not context.before(mod, self.info):
            return mod
        out = self.run(mod, context)
        if not isinstance(out, IRModule):
            raise TypeError(f"pass {self.name} returned a {type(out).__name__} instead of an IRModule")
        context.after(out, self.info)
        return out

    def __repr__(self):
        return f"{self.name}(opt_level={self.info.opt_level})"


class ModulePass(Pass):
    """A Pass of a function over modules: what module_pass makes."""


class FunctionPass(Pass):
    """A Pass of a function over the module's relax Functions: what function_pass makes."""


class DataflowBlockPass(Pass):
    """A Pass of a function over the dataflow blocks of a module: what dataflowblock_pass makes."""


class PrimFuncPass(Pass):
    """A Pass of a function over the module's PrimFuncs: what prim_func_pass makes."""


def _own_passes(value):
    """The user's passes among those of tvm.lower: [(phase, pass)]."""
    rows = [tuple(row) for row in value]
    if not all(len(row) == 2 and row[0] in (0, 1, 2, 3) and isinstance(row[1], Pass) for row in rows):
        raise ValueError("config option 'tir.add_lower_pass' is a list of (phase, pass), phase 0, 1, 2 or 3, and "
                         "the pass made by tir.transform.prim_func_pass or module_pass")
    return rows


CONFIG["tir.add_lower_pass"] = _own_passes


class Sequential(Pass):
    """Passes one after the other, without those that the current context disables or whose level is above its own.

    given: facts (facts.py) that hold of the programs it takes; with them the order of the passes is checked, and
    PassOrderError raised.
    """

    def __init__(self, passes=(), opt_level=0, name="sequential", required=(), traceable=False, given=None):
        passes = passes or ()
        for p in passes:
            if not isinstance(p, Pass):
                raise TypeError(f"Sequential takes passes, such as tir.transform.Simplify(), not a {type(p).__name__}")
        self.passes = tuple(passes)
        if given is not None:
            check_order(self.passes, given)
        super().__init__(self._run, PassInfo(name, opt_level, tuple(required or ())))

    def _run(self, mod, context):
        for p in self.passes:
            if context.enabled(p.info):
                for name in p.info.required:
                    mod = context.lookup(name)(mod)
                mod = p(mod)
        return mod

    def __repr__(self):
        return f"Sequential([{', '.join(map(repr, self.passes))}])"


class PassContext:
    """`with PassContext(...)`: how passes run inside.

    opt_level: Sequential leaves out passes of a higher level. required_pass, disabled_pass: names; required ones run at
    any level, disabled ones in no Sequential. instruments: see instrument.py. config: {"tir.UnrollLoop": {...}}.
    trace_stack, make_traceable, num_evals, tuning_api_database: kept for scripts that hand them on, without effect.
    """

    known = {}  # name -> function that makes the pass, for `required`; the pass table fills it

    def __init__(self, opt_level=2, required_pass=None, disabled_pass=None, instruments=None, config=None,
                 trace_stack=None, make_traceable=None, num_evals=0, tuning_api_database=None):
        self.opt_level = opt_level
        self.trace_stack, self.make_traceable = list(trace_stack or ()), make_traceable
        self.num_evals, self._tuning_api_database = num_evals, tuning_api_database
        self.required_pass = _names("required_pass", required_pass)
        self.disabled_pass = _names("disabled_pass", disabled_pass)
        self.instruments = list(instruments or ())
        self.config = {}
        for key, value in dict(config or {}).items():
            if key not in CONFIG:
                _load_passes()
            if key not in CONFIG:
                raise ConfigError(f"unknown config option {key!r}; known: {', '.join(sorted(CONFIG))}")
            self.config[key] = CONFIG[key](value)
        self._entered = []

    @staticmethod
    def current():
        """The context of the innermost `with`, or one of defaults."""
        return _CURRENT.get() or PassContext()

    @property
    def is_default(self):
        """Whether passes run as they do without a context of one's own."""
        return not (self.instruments or self.config or self.required_pass or self.disabled_pass) and (
            self.opt_level == PassContext().opt_level)

    def get_tuning_api_database(self):
        return self._tuning_api_database

    @staticmethod
    def list_configs():
        """The settings that `config` may have."""
        _load_passes()
        return sorted(CONFIG)

    @staticmethod
    def lookup(name):
        """The pass registered under a name, with its defaults."""
        _load_passes()
        if name not in PassContext.known:
            raise ValueError(f"unknown pass {name!r}; known: {', '.join(sorted(PassContext.known))}")
        return PassContext.known[name]()

    def __enter__(self):
        self._entered.append(_CURRENT.set(self))
        self._start(self.instruments)
        return self

    def __exit__(self, *exc):
        try:
            _each(self.instruments, "exit_pass_ctx")
        finally:
            _CURRENT.reset(self._entered.pop())

    def _start(self, instruments):
        """Enter all instruments, or none: what was entered before a failure is left again."""
        done = []
        try:
            for i in instruments:
                i.enter_pass_ctx()
                done.append(i)
        except BaseException:
            _each(done, "exit_pass_ctx")
            if self._entered:
                _CURRENT.reset(self._entered.pop())
            raise

    def override_instruments(self, instruments):
        """Leave the instruments of this context and enter others (None: none)."""
        _each(self.instruments, "exit_pass_ctx")
        self.instruments = []
        new = list(instruments or ())
        for i in new:
            i.enter_pass_ctx()
        self.instruments = new

    def enabled(self, info):
        """Whether a Sequential runs the pass."""
        if info.name in self.disabled_pass:
            return False
        return info.name in self.required_pass or self.opt_level >= info.opt_level

    def before(self, mod, info):
        """Tell the instruments that a pass is about to run; False when one of them says that it should not."""
        if not all([i.should_run(mod, info) for i in self.instruments]):
            return False
        for i in self.instruments:
            i.run_before_pass(mod, info)
        return True

    def after(self, mod, info):
        for i in self.instruments:
            i.run_after_pass(mod, info)


def _load_passes():
    """Let the pass table register its passes and settings, which a script may ask for before it uses one."""
    import_module(f"{__package__}.classic")


def _names(what, names):
    names = tuple(names or ())
    wrong = [n for n in names if not isinstance(n, str)]
    if wrong:
        raise TypeError(f"{what} is a list of pass names, not of {type(wrong[0]).__name__}")
    return names


def _each(instruments, method):
    """Call a method of all instruments; the first error is raised when all have had their turn."""
    failed = None
    for i in instruments:
        try:
            getattr(i, method)()
        except Exception as error:  # every instrument is told, whatever another one does
            failed = failed or error
    if failed:
        raise failed


# ---------------------------------------------------------------- passes from functions

def over_prim_funcs(function):
    """run(module, context) of a function (PrimFunc, module, context) -> PrimFunc; None removes the function."""
    return _over(PrimFunc, function)


def _over(kind, function):
    def run(mod, context):
        functions, changed = {}, False
        for name, func in mod.functions.items():
            new = function(func, mod, context) if isinstance(func, kind) else func
            if new is not None and not isinstance(new, (PrimFunc, Function)):
                raise TypeError(f"a pass over functions returned a {type(new).__name__} for {name}")
            changed = changed or new is not func
            if new is not None:
                functions[name] = new
        return mod.with_functions(functions) if changed else mod
    return run


class _Blocks(Mutator):
    """Dataflow blocks replaced by what function(block) gives, in branches and functions inside, too."""

    def __init__(self, function):
        self.function = function

    def visit_Constant(self, constant):
        return constant

    def visit_DataflowBlock(self, block):
        new = self.function(self.generic_visit(block))
        if not isinstance(new, DataflowBlock):
            raise TypeError(f"a pass over dataflow blocks returned a {type(new).__name__}")
        return new


def _over_blocks(function):
    """run(module, context) of a function (DataflowBlock, module, context) -> DataflowBlock."""
    return _over(Function, lambda func, mod, context: _Blocks(lambda block: function(block, mod, context)).visit(func))


def _decorator(kind, wrap):
    def make(pass_func=None, opt_level=None, name=None, required=None, traceable=False):
        if opt_level is None:
            opt_level = 0
        required = tuple(required or ())

        def build(target):
            info = PassInfo(name or target.__name__, opt_level, required)
            return _pass_class(kind, wrap, target, info) if inspect.isclass(target) else kind(wrap(target), info)
        return build if pass_func is None else build(pass_func)
    return make


def _pass_class(kind, wrap, target, info):
    """The class of passes whose objects run a method of an object of `target`, and have its attributes."""
    def create(self, *args, **kwargs):
        made = target(*args, **kwargs)
        self.__dict__["_made"] = made
        method = next((getattr(made, name) for name in METHODS if hasattr(made, name)), None)
        if method is None:
            raise TypeError(f"class {target.__name__} has none of {', '.join(METHODS)}")
        kind.__init__(self, wrap(method), info)

    def attribute(self, name):
        if name == "_made":
            raise AttributeError(name)
        return getattr(self._made, name)

    return type(target.__name__, (kind,), {"__init__": create, "__getattr__": attribute, "__doc__": target.__doc__,
                                           "__module__": target.__module__})


module_pass = _decorator(ModulePass, lambda function: function)
prim_func_pass = _decorator(PrimFuncPass, lambda function: _over(PrimFunc, function))
dataflowblock_pass = _decorator(DataflowBlockPass, _over_blocks)
function_pass = _decorator(FunctionPass, lambda function: _over(Function, function))
module_pass.__doc__ = "A Pass of a function (module, context) -> module, or of a class with transform_module."
prim_func_pass.__doc__ = "A Pass of (PrimFunc, module, context) -> PrimFunc, or of a class with transform_function."
dataflowblock_pass.__doc__ = ("A Pass of (DataflowBlock, module, context) -> DataflowBlock, or of a class with "
                              "transform_dataflowblock.")
function_pass.__doc__ = "prim_func_pass over the module's relax Functions."


def apply_pass_to_function(transform, func_name_regex, error_if_no_function_matches_regex=False):
    """The pass that changes functions whose whole names a regular expression matches as `transform` does, and adds
    those that it makes of them; others stay as they are. All are as functions that others may call, so that no
    signature changes. ValueError where none matches, if that is asked for."""
    pattern = re.compile(func_name_regex)

    def run(mod, context):
        chosen = {str(n) for n in mod.functions if pattern.fullmatch(str(n))}
        if not chosen and error_if_no_function_matches_regex:
            raise ValueError(f"No function matched regex {func_name_regex!r}; there are {', '.join(mod.functions)}")
        private = {str(n) for n, f in mod.functions.items() if not (f.attrs or {}).get("global_symbol")}
        seen = mod.with_functions({n: f.with_attr("global_symbol", str(n)) if str(n) in private else f
                                   for n, f in mod.functions.items()})
        new = {n: f.without_attr("global_symbol") if str(n) in private else f
               for n, f in transform(seen).functions.items() if str(n) in chosen or n not in mod}
        kept = {n: f for n, f in mod.functions.items() if str(n) not in chosen}
        return mod.with_functions({n: {**kept, **new}[n] for n in (*mod.functions, *new) if n in kept or n in new})
    return module_pass(run, opt_level=0, name=f"ApplyPassTo{func_name_regex}")


def PrintIR(header="", show_meta_data=False):
    """The pass that prints `header` and the module's script, and leaves the module as it is."""
    def run(mod, context):
        print(f"PrintIR({header}):\n{mod.script(show_meta=show_meta_data)}")
        return mod
    return ModulePass(run, PassInfo("PrintIR"))
