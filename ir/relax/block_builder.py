"""BlockBuilder: build a graph function binding by binding, inferring struct info as it goes (as TVM's)."""
from __future__ import annotations

from contextlib import contextmanager

from .. import op as op_table
from ..expr import Call, PrimExpr, as_expr, free_vars
from ..module import SYMBOL, BaseFunc, GlobalVar, IRModule
from ..names import Names, unique_name
from ..node import Mutator, structural_equal
from ..op import REQUIRED, InferError
from ..upper import provides, upper
from .infos import call_info, derived_info, told_dims
from .lattice import erased
from .tensor_calls import TensorCall
from .expr import (BindingBlock, Constant, DataflowBlock, DataflowVar, ExternFunc, If, MatchCast, PrimValue, RelaxCall,
                   RelaxExpr, RelaxTuple, RelaxVar, SeqExpr, ShapeExpr, TupleGetItem, TupleStructInfo, VarBinding,
                   as_struct_info, call_tir, function_of_blocks, with_grad)


def call_op(name, *args, **attrs):
    """A RelaxCall of operator `name` with defaults filled in, attributes checked and struct info inferred.

    Arguments: graph expressions; Python lists/tuples of dims become ShapeExpr. Raises InferError.
    """
    spec = op_table.get(name)
    args = tuple(as_argument(a) for a in args)
    least, most = spec.arity
    if len(args) < least or (most is not None and len(args) > most):
        raise InferError(f"{name} takes {least} to {most or 'any number of'} arguments, got {len(args)}")
    unknown = set(attrs) - set(spec.attrs)
    if unknown:
        known = ", ".join(spec.attrs) or "none"
        raise InferError(f"{name} has no attribute {', '.join(sorted(unknown))}; it has {known}")
    full = {k: attrs.get(k, default) for k, default in spec.attrs.items()}
    missing = [k for k, v in full.items() if v is REQUIRED]
    if missing:
        raise InferError(f"{name} needs attribute {', '.join(missing)}")
    full = {k: tuple(v) if isinstance(v, list) else v for k, v in full.items()}
    call = RelaxCall(name, args, full, None)
    return call.replace(struct_info=spec.infer(call))


def as_argument(a):
    """A value as an argument of a call: lists of dimensions are shapes, of expressions tuples, numbers PrimValues."""
    if isinstance(a, (RelaxExpr, GlobalVar)):
        return a
    if isinstance(a, (list, tuple)):
        return RelaxTuple(tuple(map(as_argument, a))) if _has_values(a) else ShapeExpr(tuple(a))
    return PrimValue(a)


def _has_values(a):
    """Whether a list holds graph expressions, or lists of such, and so is a tuple and no shape."""
    return any(isinstance(v, RelaxExpr) or isinstance(v, (list, tuple)) and _has_values(v) for v in a)


class _Replaced(Mutator):
    """Variables in the place of others, {id of a variable: the one there}."""

    def __init__(self, variables):
        self.variables = variables

    def visit_DataflowVar(self, var):
        return self.variables.get(id(var), var)


class BuilderError(ValueError, RuntimeError):
    """A function that is built in an order that makes none."""


def _flat_args(call):
    """The arguments of a call, those of an operator of any number of tensors one by one, which TVM has in a tuple."""
    args, in_tuple = call.args, op_table.takes_tuple(call.op)
    return args[0].fields if in_tuple and len(args) == 1 and isinstance(args[0], RelaxTuple) else args


class BlockBuilder:
    """Usage:

        bb = BlockBuilder()
        x, w = Var("x", TensorStructInfo((1, 4), "float32")), Var("w", TensorStructInfo((4, 8), "float32"))
        with bb.function("main", [x, w]):
            with bb.dataflow():
                lv = bb.emit(relax.op.matmul(x, w))
                gv = bb.emit_output(relax.op.nn.relu(lv))
            bb.emit_func_output(gv)
        mod = bb.get()

    What is emitted inside `dataflow` is visible in that block alone, except by emit_output. Calls inside calls are
    bound to variables of their own first.
    """

    _OF_FUNCTION = ("_params", "_output", "_attrs", "_pure", "_names", "_blocks", "_bindings", "_bound", "_in_dataflow",
                    "placeholders", "current_func")  # what is of the function being built
    _current = []  # builders inside `with bb.function(...)`, innermost last

    def __init__(self, mod=None, separator="_"):
        """mod: the module to begin with. separator: between a name and its number, where the name is taken."""
        self._mod, self._separator = mod or IRModule(), separator
        self._names, self._params, self._output, self.current_func = Names(), None, None, None
        self.placeholders = Names()  # of variables that modules of a script make in the function being built
        self._blocks, self._bindings, self._in_dataflow = [], [], False
        self._attrs, self._pure = {}, True
        self._bound = {}  # variable -> its value
        self._outer = []  # blocks that are open around the current one: (bindings, whether a dataflow block)

    @staticmethod
    def current():
        """The builder whose function is being built, or None."""
        return BlockBuilder._current[-1] if BlockBuilder._current else None

    # ------------------------------------------------------------ functions and blocks

    @contextmanager
    def function(self, name, params=None, attrs=None, private=False, pure=True):
        """The function `name`; emit_func_output may give params instead. private: no attribute global_symbol. pure:
        whether it says that it has no side effects."""
        outer = {field: getattr(self, field) for field in self._OF_FUNCTION}  # it goes on when this one has ended
        self._params, self._output, self._in_dataflow = None, None, False
        self._attrs, self._pure = {**({} if private else {"global_symbol": name}), **(attrs or {})}, pure
        self._names, self._blocks, self._bindings, self.placeholders = Names(), [], [], Names()
        self._bound = {}
        if params is not None:
            self._set_params(params)
        self.current_func = name
        BlockBuilder._current.append(self)
        try:
            yield self
            if self._output is None:
                raise BuilderError(f"function {name} ended without emit_func_output")
        finally:
            for field, value in outer.items():
                setattr(self, field, value)
            BlockBuilder._current.pop()

    def _set_params(self, params):
        params = [params] if isinstance(params, RelaxVar) else list(params)
        for p in params:
            if not isinstance(p, RelaxVar) or p.struct_info is None:
                raise TypeError(f"a parameter must be a Var with struct info, not {p!r}")
            self._names.add(p.name)
        self._params = params

    @contextmanager
    def dataflow(self):
        if self._in_dataflow:
            raise BuilderError("a dataflow block inside another")
        self._close(BindingBlock)
        self._in_dataflow = True
        yield self
        self._close(DataflowBlock)
        self._in_dataflow = False

    def make_outputs(self, variables):
        """Make variables of the open dataflow block visible outside of it: the Vars that take their places."""
        if not self._in_dataflow:
            raise BuilderError("outputs are of a dataflow block: this stands outside of one")
        own = {id(b.var) for b in self._bindings}
        for v in variables:
            if id(v) not in own:
                raise BuilderError(f"{v.name} is no variable of this dataflow block")
        visible = {id(v): v if isinstance(v, RelaxVar) else RelaxVar(v.name, v.struct_info, v.origin) for v in variables}
        replace = _Replaced(visible)
        self._bindings = [replace.visit(b) for b in self._bindings]
        return [visible[id(v)] for v in variables]

    @contextmanager
    def branch(self):
        """What is emitted inside are the blocks of a branch: a list that holds them when it has ended."""
        outer, self._blocks, self._bindings = (self._blocks, self._bindings), [], []
        made = []
        try:
            yield made
            self._close(BindingBlock)
            made.extend(self._blocks)
        finally:
            self._blocks, self._bindings = outer

    @property
    def emitted(self):
        """The bindings of all blocks that have ended."""
        return [b for block in self._blocks for b in block.bindings]

    def _begin_binding_block(self):
        """Begin a block, also inside another; _end_block gives it."""
        self._outer.append((self._bindings, self._in_dataflow))
        self._bindings, self._in_dataflow = [], False

    def _begin_dataflow_block(self):
        self._begin_binding_block()
        self._in_dataflow = True

    def _end_block(self):
        """The block that was begun last, with what was emitted since."""
        if not self._outer:
            raise BuilderError("no block was begun")
        block = (DataflowBlock if self._in_dataflow else BindingBlock)(tuple(self._bindings))
        self._bindings, self._in_dataflow = self._outer.pop()
        return block

    @contextmanager
    def block(self, dataflow=None):
        """A block of its own inside the current one: a list that holds the block when it has ended. dataflow: whether
        it is a dataflow block; as the current one is where nothing is said."""
        (self._begin_dataflow_block if (self._in_dataflow if dataflow is None else dataflow)
         else self._begin_binding_block)()
        made = []
        try:
            yield made
        finally:
            made.append(self._end_block())

    def begin_names(self, variables):
        """Outside functions: what is emitted from here on has other names than these variables."""
        self.current_func = None
        self._names.clear()
        for v in variables:
            self._names.add(v.name)

    def begin_scope(self, params=None):
        """Begin a scope of variables: TVM's; here symbolic dimensions are known everywhere."""

    @contextmanager
    def testing_scope(self, def_vars):
        """A scope in which dimensions are known: here they are everywhere."""
        yield self

    def end_scope(self):
        """End the scope that begin_scope began."""

    def _close(self, kind):
        if self._bindings:
            self._blocks.append(kind(tuple(self._bindings)))
        self._bindings = []

    def emit_func_output(self, output, params=None):
        """Set the function's result, one value, or a list or tuple of them, which is the last that it does. The
        GlobalVar of the function, which others may call from here on."""
        if self._in_dataflow:
            raise BuilderError("emit_func_output inside a dataflow block: end the block first")
        if self._output is not None:
            raise BuilderError(f"emit_func_output is called twice in function {self.current_func}")
        if params is not None:
            if self._params is not None:
                raise BuilderError("params are given twice: to function() and to emit_func_output()")
            self._set_params(params)
        output = RelaxTuple(tuple(output)) if isinstance(output, (list, tuple)) else output
        if self._params is None:
            raise BuilderError(f"function {self.current_func} has no params: give them to function() or "
                               "emit_func_output()")
        self._output = self._leaf(output, "gv")
        self._close(BindingBlock)
        func = function_of_blocks(self._params, self._blocks, self._output, self._attrs, self._pure)
        return self._added(self._known_outside(func), self.current_func, self.current_func)

    def _known_outside(self, func):
        """The function, whose result has no dimensions that callers do not know."""
        infos = [p.struct_info for p in func.params]
        dims = list(told_dims(infos, infos))
        dims += free_vars([self._mod.attrs.get("dims", ()), func.attrs.get("dims", ())])
        if all(any(v is d for d in dims) for v in free_vars(func.ret_struct_info)):
            return func
        return func.replace(ret_struct_info=erased(func.ret_struct_info, {v: v for v in dims},
                                                   {p: p for p in func.params}))

    # ------------------------------------------------------------ bindings

    def unique_name(self, hint, separator=None):
        """`hint`, or hint_1, hint_2 ... when taken."""
        return unique_name(hint, self._names, self._separator if separator is None else separator)

    get_unique_name = unique_name

    def _bind(self, value, name_hint, origin, info=None, kind=VarBinding, output=False):
        hidden = self._in_dataflow and not output
        name = self.unique_name(name_hint) if name_hint else self.unique_name("lv" if hidden else "gv", "")
        var = (DataflowVar if hidden else RelaxVar)(name, info or value.struct_info, origin)
        return self.emit_normalized(kind(var, value))

    def emit(self, value, name_hint="", origin=None):
        """Bind `value` to a new variable and return it: a DataflowVar inside a dataflow block, else a Var."""
        value = self._flattened(value) if isinstance(value, SeqExpr) else value
        return self._bind(self.normalize(value), name_hint, origin)

    def emit_output(self, value, name_hint="", origin=None):
        """Bind `value` to a new Var, visible outside the dataflow block; outside one the same as emit."""
        return self._bind(self.normalize(value), name_hint, origin, output=True)

    def match_cast(self, value, struct_info, name_hint=""):
        """A variable for `value`, checked at run time to be as struct_info says, which may define new dimensions."""
        return self._bind(self._leaf(value), name_hint, None, as_struct_info(struct_info), MatchCast)

    def emit_normalized(self, binding):
        """Add a binding as it is; its variable."""
        if self._output is not None:
            raise BuilderError(f"{binding.var.name} is emitted after emit_func_output, which ends {self.current_func}")
        self._bindings.append(binding)
        self._bound[binding.var] = binding.value
        return binding.var

    def _flattened(self, seq):
        """The result of a SeqExpr, whose bindings are added to the current block. One of a function that is a dataflow
        block ends before those that lie in none, and another begins after them."""
        for block in seq.blocks:
            apart = self._in_dataflow and not isinstance(block, DataflowBlock) and not self._outer
            if apart:
                self._close(DataflowBlock)
            for b in block.bindings:
                self.emit_normalized(b)
            if apart:
                self._close(BindingBlock)
        return seq.body

    def normalize(self, value):
        """`value` as it may be bound: with struct info, and with variables in place of calls inside it."""
        if isinstance(value, (list, tuple)):
            value = RelaxTuple(tuple(value))
        if isinstance(value, (BaseFunc, GlobalVar)):
            return value
        if not isinstance(value, RelaxExpr):
            raise TypeError(f"expected a graph expression, not {value!r}; relax.const and relax.PrimValue make some")
        if isinstance(value, RelaxCall):
            value = value.replace(args=tuple(map(self._leaf, _flat_args(value))))
            return value if value.struct_info is not None else self._inferred(value)
        if isinstance(value, RelaxTuple):
            return value.replace(fields=tuple(map(self._leaf, value.fields)))
        if isinstance(value, TupleGetItem):
            return value.replace(tuple_value=self._leaf(value.tuple_value))
        return value

    def _leaf(self, value, name_hint=""):
        """`value` as an argument: a GlobalVar is the function itself."""
        if isinstance(value, GlobalVar):
            return value
        value = self.normalize(value)
        computed = isinstance(value, (RelaxCall, TupleGetItem, If))
        return self._bind(value, name_hint, None) if computed else value

    def _inferred(self, call):
        """A call that has no struct info with that of its result: of an operator or of a function of the module."""
        if not isinstance(call.op, str):
            return call.replace(struct_info=called_info(call, self))
        if call.op != "call":
            return call.replace(struct_info=upper("classic_call")(call).struct_info)
        func = self._mod[call.attrs["gv"]]
        known = GlobalVar(call.attrs["gv"].name, func.struct_info)
        return call.replace(attrs={**call.attrs, "gv": known}, struct_info=call_info(func, call.args))

    # ------------------------------------------------------------ functions of the module

    def add_func(self, func, func_name):
        """The GlobalVar of `func` in the module: under func_name, made unique; an equal PrimFunc is taken again."""
        if not isinstance(func, (BaseFunc, ExternFunc)):
            raise TypeError("add_func takes a PrimFunc, a graph function or an ExternFunc, not a "
                            f"{type(func).__name__}")
        return self._added(func, func_name)

    def _added(self, func, func_name, own=None):
        """The GlobalVar of a function of the module. own: the name of the function being built, if it is this one."""
        for name, known in self._mod.functions.items():
            if known is func or type(known) is type(func) and structural_equal(known, func):
                return GlobalVar(name, known.struct_info)
            symbol = func.attrs.get(SYMBOL) if own is not None else None
            if symbol is not None and symbol == getattr(known, "attrs", {}).get(SYMBOL):
                raise BuilderError(f"function {symbol} is in the module already: give the second another "
                                   "name, or private=True")
        name, n = func_name, 0
        while name in self._mod or own is None and name == self.current_func:
            n += 1
            name = f"{func_name}{n}"
        self._mod = self._mod.with_function(name, func)
        return GlobalVar(name, func.struct_info)

    def update_func(self, gv, updated_func):
        """Put another function in the place of `gv`, a GlobalVar or a name. A GlobalVar of another module, whose
        functions a mutator rewrites into this builder's, brings its function."""
        name = getattr(gv, "name_hint", gv)
        if name is gv and name not in self._mod:
            raise ValueError(f"update_func of {name}, which is no function of the module")
        self._mod = self._mod.with_function(name, updated_func)

    def call_te(self, func, *args, primfunc_name_hint=None, primfunc_attrs=None, **kwargs):
        """R.call_tir of the PrimFunc that func(*args, **kwargs) describes.

        Tensors among the arguments (also inside lists, tuples and dicts) become te.Tensors, shapes tuples of their
        dimensions and PrimValues expressions; func returns a te.Tensor, or a list or tuple of them.
        """
        def bound(a):
            return self._leaf(a) if isinstance(a, (RelaxCall, TupleGetItem)) else a

        made = TensorCall(func, args, kwargs, bound, primfunc_attrs)
        name = getattr(func, "name", None) or getattr(func, "__name__", "te_func")
        gv = self.add_func(made.func, primfunc_name_hint or name.rpartition(".")[2].replace("<lambda>", "te_func"))
        return call_tir(gv, made.args, made.info, made.dims)

    def emit_te(self, func, *args, name_hint="", **kwargs):
        """Bind call_te(func, *args, **kwargs)."""
        return self.emit(self.call_te(func, *args, **kwargs), name_hint)

    def call_te_with_grad(self, func, *args, te_grad_name, te_grad_kwargs=None, **kwargs):
        """As call_te; its gradient is the function registered as te_grad_name, called with te_grad_kwargs."""
        return with_grad(self.call_te(func, *args, **kwargs), te_grad_name, te_grad_kwargs)

    def emit_te_with_grad(self, func, *args, name_hint="", **kwargs):
        """Bind call_te_with_grad(func, *args, **kwargs)."""
        return self.emit(self.call_te_with_grad(func, *args, **kwargs), name_hint)

    # ------------------------------------------------------------ results

    def lookup_binding(self, var):
        """The value that a variable is bound to; None for a parameter."""
        return self._bound.get(var)

    def current_block_is_dataflow(self):
        """Whether what is emitted now lies in a dataflow block."""
        return self._in_dataflow

    def get(self):
        """The module with the functions built so far."""
        return self._mod

    def finalize(self):
        """The module, in which functions that others find have their names, and private ones of such names others."""
        return upper("normalize_global_var")(self._mod)


@provides("call_of_function")
def call_of_function(gv, args):
    """The call of a function by its GlobalVar: of a PrimFunc's, where there are numbers and expressions alone."""
    if args and all(isinstance(a, (int, float, PrimExpr)) for a in args):
        return Call("void", gv, tuple(map(as_expr, args)))
    args, known = tuple(map(as_argument, args)), gv.struct_info
    info = None if known is None or known.params is None else derived_info(known.params, known.ret, args)
    return RelaxCall("call", args, {"gv": gv}, info)


def called_info(call, builder=None):
    """Struct info of a call of a function that is a value; None where the function's is not known."""
    info = call.op.struct_info
    if info is None:
        return None
    if info.derive_func is not None and callable(info.derive_func):
        return info.derive_func(call, builder)
    if info.params is None:
        return info.ret
    if len(info.params) != len(call.args):
        raise InferError(f"the function takes {len(info.params)} arguments, got {len(call.args)}")
    return derived_info(info.params, info.ret, call.args)


__all__ = ["BlockBuilder", "BuilderError", "call_op", "Constant", "TupleGetItem", "TupleStructInfo"]
