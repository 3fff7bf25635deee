"""The rules every graph module keeps, from the importer to the list of kernel calls. Tests verify between passes."""
from __future__ import annotations

from .. import op as op_table
from ..expr import IntImm, Var, free_vars, substitute
from ..module import GlobalVar, IRModule
from ..node import collect
from ..op import InferError
from ..tir.function import PrimFunc
from ..tir.verifier import VerifyError as TIRVerifyError
from ..tir.verifier import verify as verify_prim_func
from ..upper import upper
from .control import dims_set_by, fields_of, is_control, problem
from .expr import (IMPURE, PACKED, Constant, DataflowBlock, DataflowVar, DataTypeImm, ExternFunc, FuncStructInfo, Function, If,
                   MatchCast, ObjectStructInfo, PrimStructInfo, PrimValue, RelaxCall, RelaxString, RelaxTuple, RelaxVar,
                    ShapeExpr, ShapeStructInfo, StructInfo, TensorStructInfo, TupleGetItem, TupleStructInfo)
from .inplace import IN_PLACE, inplace_problem
from .infos import call_dims, derived_info, is_row_call, new_dims, same_info
from .lattice import BaseCheckResult, base_check, common, is_base_of
from .memory import PlaceError, check_places
from .ops.common import product, same_dim, shape_text
from .partial import infer_partial, is_partial


class VerifyError(ValueError):
    """A module that breaks a rule; the message says which function and variable, and what was expected."""


def verify(mod, wider=False, alone=False):
    """Return `mod` if it is well formed; raise VerifyError otherwise.

    Ensures, for each graph function:
    - variables are defined once, under names of their own, before their use; a variable of a dataflow block is used in
      that block, or returned when the block is the last one;
    - symbolic dimensions are those of the parameters, of the module (attrs["dims"]) or of a MatchCast;
    - arguments of calls are variables, constants, shapes, numbers or tuples of those;
    - what a MatchCast declares does not contradict what is known; an `if` asks for a bool without dimensions, its
      branches give the same, and what they define stays inside them;
    - dataflow blocks hold neither `if` nor call_packed, which may have side effects;
    - what memory.join and its like put inside their results has memory of its own, and lies in one place;
    - struct info is what inference gives for these arguments; operators and their attributes are known ones;
    - "call" and "call_tir" name functions of the module, of that kind, and fit their parameters: count, dtypes, shapes;
      so do the bodies of control.py's calls, which may use symbolic dimensions of their attrs["dims"].
    PrimFuncs are verified by tir's verifier. Kernels (attrs["primitive"]) may use the dimensions of what calls them.

    wider: as TVM's rules are. What is declared may say less than what is inferred, variables may share names; functions
    that say that they are pure call nothing with side effects, unless attrs["relax.force_pure"] says so; functions share
    no symbolic dimensions; what stands in calls, conditions and results computes nothing; a tensor of call_tir fits a buffer
    whose dimensions it may have.
    alone: the functions may name others that the module lacks.
    """
    if not isinstance(mod, IRModule):
        raise VerifyError(f"verify takes an IRModule, not a {type(mod).__name__}")
    dims = list(mod.attrs.get("dims", ()))
    if isinstance(mod.functions.get("main"), Function):
        dims += _dims(p.struct_info for p in mod["main"].params)
    if wider:
        _verify_own_dims(mod)
    called, around = _around_kernels(mod) if any(map(_is_kernel, mod.functions.values())) else ((), ())
    for name, func in mod.functions.items():
        if isinstance(func, PrimFunc):
            try:
                verify_prim_func(func)
            except TIRVerifyError as error:
                raise VerifyError(f"function {name}: {error}") from error
        elif isinstance(func, Function):
            if _is_kernel(func) and name not in called:  # its caller is not here: see transform/bodies.py
                continue
            _Verifier(mod, name, func, (*dims, *around) if _is_kernel(func) else dims, wider, alone).run()
        elif not isinstance(func, ExternFunc):
            raise VerifyError(f"function {name} is a {type(func).__name__}")
    return mod


def _verify_own_dims(mod):
    """Parameters of two functions have no symbolic dimension in common, but for bodies of control flow and kernels
    (OpenKernels), which run inside others, and what the module declares for all."""
    functions = {n: f for n, f in mod.functions.items() if isinstance(f, Function) and not _is_kernel(f)}
    shared, told = {id(v) for v in free_vars(mod.attrs.get("dims", ()))}, {}
    if any(is_control(b.value) for f in functions.values() for b in f.bindings):
        return
    for name, func in functions.items():
        for v in _dims(p.struct_info for p in func.params):
            if told.setdefault(id(v), name) != name and id(v) not in shared:
                raise VerifyError(f"Symbolic Var {v.name} presents in different functions in the same Module: "
                                  f"{told[id(v)]} and {name}")


def _is_kernel(func):
    """Whether a function is a kernel of the function that calls it, whose symbolic dimensions it has."""
    return isinstance(func, Function) and bool(func.attrs.get("primitive"))


def _around_kernels(mod):
    """(names that graph functions other than kernels call, symbolic dimensions of these)"""
    functions = [f for f in mod.functions.values() if isinstance(f, Function) and not _is_kernel(f)]
    return ({gv.name for gv in collect(functions, GlobalVar)},
            _dims(v.struct_info for v in collect(functions, (RelaxVar, DataflowVar))))


def _dims(infos):
    """The symbolic dimensions in struct infos."""
    parts = [getattr(info, name, None) for info in infos for name in ("shape", "values", "value", "fields")]
    return free_vars([p for p in parts if p is not None])


def contradiction(info, target):
    """Why a value of struct info `info` can never have `target`; None when it may."""
    if isinstance(info, ObjectStructInfo) or isinstance(target, ObjectStructInfo):
        return None
    if type(info) is not type(target):
        return "they are of different kinds"
    if isinstance(info, TupleStructInfo):
        if len(info.fields) != len(target.fields):
            return f"{len(info.fields)} fields are not {len(target.fields)}"
        return next(filter(None, map(contradiction, info.fields, target.fields)), None)
    dtypes = {getattr(i, "dtype", "void") for i in (info, target)} - {"void"}
    if len(dtypes) > 1:
        return f"{info.dtype} is not {target.dtype}"
    if isinstance(info, PrimStructInfo):
        return None
    if info.ndim != target.ndim and min(info.ndim, target.ndim) >= 0:
        return f"{info.ndim} dimensions are not {target.ndim}"
    mine, theirs = (getattr(i, "shape" if isinstance(i, TensorStructInfo) else "values") for i in (info, target))
    for k, (a, b) in enumerate(zip(mine or (), theirs or ())):
        if isinstance(a, IntImm) and isinstance(b, IntImm) and a.value != b.value:
            return f"dimension {k} is {a.value}, not {b.value}"
    return None


class _Verifier:
    def __init__(self, mod, name, func, dims, wider=False, alone=False):
        self.mod, self.name, self.func, self.wider, self.alone = mod, name, func, wider, alone
        self.dataflow = False  # inside a dataflow block
        self.dims = {id(d) for d in [*dims, *func.attrs.get("dims", ()), *_dims(p.struct_info for p in func.params)]}
        self.scope, self.defined, self.names = set(), set(), set()
        self.place = "its parameters"

    def fail(self, message):
        raise VerifyError(f"function {self.name}, {self.place}: {message}")

    def _fits(self, info, declared):
        """Whether a value of struct info `info` may be declared so."""
        return same_info(info, declared) or self.wider and is_base_of(declared, info)

    def _may_give(self, info, declared):
        """Whether a call that is told to give `info` may be declared so; by TVM's rules unless it can be told that not."""
        return same_info(info, declared) or self.wider and base_check(declared, info) != BaseCheckResult.FAIL_L0

    def run(self):
        forced = bool(self.func.attrs.get("relax.force_pure", False))
        self.pure = self.wider and self.func.is_pure and not forced
        if self.wider and forced and not self.func.is_pure:
            self.fail("relax.force_pure is set, and the function says that it is not pure")
        for p in self.func.params:
            if not isinstance(p, RelaxVar):
                self.fail(f"a parameter is a {type(p).__name__}, it must be a RelaxVar")
            self._define(p)
        info = self._seq(self.func.body, "its result")
        try:
            check_places(self.func)
        except PlaceError as error:
            self.fail(str(error))
        declared = self.func.ret_struct_info
        if self.wider:
            unknown = [d.name for d in _dims([declared]) if id(d) not in self.dims]
            if unknown:
                self.fail(f"it is declared as {declared}, and nothing defines {', '.join(unknown)}")
        elif declared is not None and not is_base_of(declared, info) and not same_info(info, declared):
            self.fail(f"it is {info}, declared as {declared}")

    def _seq(self, seq, place):
        """The struct info of a SeqExpr, its bindings checked."""
        for n, block in enumerate(seq.blocks):
            for b in block.bindings:
                self._binding(b, isinstance(block, DataflowBlock))
            if n + 1 < len(seq.blocks):
                self.scope -= {id(b.var) for b in block.bindings if isinstance(b.var, DataflowVar)}
        self.place = place
        return self._atom(seq.body) if self.wider else self._info(seq.body)

    # ------------------------------------------------------------ variables

    def _define(self, var):
        if id(var) in self.defined:
            self.fail(f"variable {var.name} is defined twice")
        if var.name in self.names and not self.wider:
            self.fail(f"two variables are named {var.name}")
        unknown = [d.name for d in _dims([var.struct_info]) if id(d) not in self.dims]
        if unknown:
            self.fail(f"nothing defines the symbolic dimension {', '.join(unknown)} of {var.name}")
        self.defined.add(id(var))
        self.scope.add(id(var))
        self.names.add(var.name)

    def _binding(self, b, dataflow):
        self.place = f"binding of {getattr(b.var, 'name', b.var)}"
        if not isinstance(b.var, (RelaxVar, DataflowVar)):
            self.fail(f"it binds a {type(b.var).__name__}")
        if isinstance(b.var, DataflowVar) and not dataflow:
            self.fail("a DataflowVar outside a dataflow block")
        if dataflow and (isinstance(b.value, If) or getattr(b.value, "op", "") == "call_packed"):
            self.fail("a dataflow block has no control flow: put the `if` outside" if isinstance(b.value, If) else
                      "call_packed may have side effects, which a dataflow block has none of: put it outside, or use "
                      "call_pure_packed")
        self.dataflow = dataflow
        if isinstance(b.value, Function):
            self.scope.add(id(b.var))  # it may call itself
        info = self._info(b.value)
        if isinstance(b, MatchCast):
            problem = contradiction(info, b.var.struct_info)
            if problem:
                self.fail(f"the value is {info} and can never be {b.var.struct_info}: {problem}")
            self.dims.update(id(d) for d in new_dims(b.var.struct_info))
        elif not self._fits(info, b.var.struct_info):
            self.fail(f"the variable is declared as {b.var.struct_info}, the value is {info}")
        self._define(b.var)

    # ------------------------------------------------------------ values

    def _info(self, value):
        """The inferred struct info of a value."""
        if isinstance(value, RelaxCall):
            return self._call(value)
        if isinstance(value, Function):
            return self._local(value)
        return self._if(value) if isinstance(value, If) else self._atom(value)

    def _if(self, value):
        place, cond = self.place, self._atom(self._leaf(value.cond, "the condition of the `if`"))
        if not (isinstance(cond, TensorStructInfo) and cond.ndim == 0 or isinstance(cond, PrimStructInfo)) or (
                not cond.dtype.is_bool):
            self.fail(f"the condition of the `if` is {cond}, it must be a bool tensor without dimensions")
        infos, names = [], set()
        for branch, name in ((value.true_branch, "true"), (value.false_branch, "false")):
            kept = set(self.scope), set(self.dims), set(self.names)
            infos.append(self._seq(branch, f"{place}, the {name} branch"))
            names |= self.names
            self.scope, self.dims, self.names = kept
        self.place, self.names = place, names
        if same_info(*infos):
            return infos[0]
        if not self.wider:
            self.fail(f"the branches of the `if` give {infos[0]} and {infos[1]}")
        return common(*infos)

    def _local(self, func):
        """The struct info of a function that is a value, which may use what is in scope."""
        inside = _Verifier(self.mod, f"{self.name}, {self.place}", func, (), self.wider, self.alone)
        inside.dims |= self.dims
        inside.scope |= self.scope
        inside.run()
        return func.struct_info

    def _leaf(self, value, what):
        """`value`, which must be no tuple's item where TVM's rules hold."""
        if self.wider and isinstance(value, TupleGetItem):
            self.fail(f"{what} is a tuple's item; bind it to a variable")
        return value

    def _atom(self, value):
        """The struct info of a value that computes nothing."""
        if isinstance(value, (RelaxVar, DataflowVar)):
            if id(value) not in self.scope:
                problem = ("is a dataflow variable of an earlier block" if id(value) in self.defined else
                           "is used where nothing defines it")
                self.fail(f"variable {value.name} {problem}")
        elif isinstance(value, RelaxTuple):
            return TupleStructInfo(tuple(map(self._atom, value.fields)))
        elif isinstance(value, TupleGetItem):
            info = self._atom(self._leaf(value.tuple_value, "what an item is taken of"))
            if not isinstance(info, TupleStructInfo) or not 0 <= value.index < len(info.fields):
                self.fail(f"item {value.index} of {info}, which has no such item")
            return info.fields[value.index]
        elif isinstance(value, GlobalVar):  # a function as a value, of a closure
            if value not in self.mod:
                if self.alone:
                    return value.struct_info or FuncStructInfo.opaque_func()
                self.fail(f"{value.name} is no function of the module")
            return getattr(self.mod[value], "struct_info", None) or FuncStructInfo.opaque_func()
        elif not isinstance(value, (Constant, ShapeExpr, PrimValue, RelaxString, DataTypeImm, ExternFunc)):
            self.fail(f"a {type(value).__name__} stands where a variable or constant must; bind it to a variable")
        return value.struct_info

    def _call(self, call):
        for a in call.args:
            if isinstance(a, TupleGetItem):
                self.fail(f"an argument of {call.op} is a tuple's item; bind it to a variable")
        args = [self._atom(a) for a in call.args]
        if self.wider and self._is_impure(call):
            text = str(call)
            if self.dataflow:
                self.fail(f"Impure function call {text} occurs within a dataflow block")
            if self.pure:
                self.fail(f"the function is annotated as pure but contains an impure call: {text}; write pure=False, or set "
                          "relax.force_pure")
        if isinstance(call.op, (RelaxVar, DataflowVar)):
            self._call_value(call, args)
        elif call.op in ("call_tir", "call_tir_inplace", "call_tir_with_grad"):
            self._call_tir(call, args)
        elif call.op == "call":
            self._call_function(call, args)
        elif is_control(call):
            self._control(call, args)
        elif call.op in PACKED:
            self._foreign(call, args)
        else:
            self._operator(call)
        return call.struct_info

    def _is_impure(self, call):
        """Whether a call may have side effects by TVM's rules, which trust call_inplace_packed."""
        if call.op == "call":
            func = self.mod.functions.get(call.attrs["gv"].name)
            if isinstance(func, ExternFunc):
                return not func.struct_info.purity
            return isinstance(func, Function) and not func.is_pure
        info = getattr(call.op, "struct_info", None)
        return call.op in IMPURE - {"call_inplace_packed"} if info is None else not info.purity

    def _operator(self, call):
        spec = op_table.OPS.get(call.op)
        if call.op in upper("classic_names")() and not is_row_call(call, spec):
            return self._classic(call)
        if spec is None:
            self.fail(f"unknown operator {call.op!r}")
        if set(call.attrs) != set(spec.attrs):
            self.fail(f"{call.op} has attributes {sorted(call.attrs)}, it must have {sorted(spec.attrs)}")
        least, most = spec.arity
        if len(call.args) < least or (most is not None and len(call.args) > most):
            self.fail(f"{call.op} takes {least} to {most or 'any number of'} arguments, got {len(call.args)}")
        try:
            info = self._inferred(spec, call)
        except (InferError, TypeError) as error:
            if self.wider and call.op in upper("classic_names")():  # which tell what follows from what is known
                return self._classic(call)
            self.fail(str(error))
        if not self._may_give(info, call.struct_info):
            self.fail(f"the call of {call.op} is declared as {call.struct_info}, inference gives {info}")

    def _inferred(self, spec, call):
        """What inference gives for a call: where arguments need not be known in full, what follows from what is."""
        if not (self.wider and is_partial(call.args)):
            return spec.infer(call)

        def of(*args, **attrs):
            made = call.replace(args=args, attrs=attrs)
            return made.replace(struct_info=spec.infer(made))
        return infer_partial(of, call.args, dict(call.attrs))

    def _classic(self, call):
        """A call in classic form: of several operators, or of one whose arguments are not known in full."""
        try:
            info = upper("classic_call")(call).struct_info
        except (InferError, TypeError) as error:
            self.fail(str(error))
        if not self._may_give(info, call.struct_info):
            self.fail(f"the call of {call.op} is declared as {call.struct_info}, inference gives {info}")

    def _control(self, call, args):
        self.dims.update(map(id, dims_set_by(call)))
        wrong = problem(call, args, lambda key: self._callee(call, Function, call.attrs[key])[1])
        if wrong:
            self.fail(f"{call.op}: {wrong}")

    def _foreign(self, call, args):
        """A call of a function that no one here knows: its results are what the call declares."""
        func = call.attrs.get("func")
        if isinstance(func, (RelaxVar, DataflowVar)):
            self._atom(func)
        elif not isinstance(func, str):
            self.fail(f"{call.op} has attributes {sorted(call.attrs)}, it needs func, the name of the foreign function")
        if call.op != "call_dps_packed":
            return
        outs = call.struct_info.fields if isinstance(call.struct_info, TupleStructInfo) else (call.struct_info,)
        for info in outs:
            if not isinstance(info, TensorStructInfo) or info.shape is None:
                self.fail(f"call_dps_packed gives tensors of known shape; this is {info}")
        for info in args:
            if not isinstance(info, TensorStructInfo if not self.wider else StructInfo):
                self.fail(f"call_dps_packed passes tensors; this is {info}")

    def _callee(self, call, kind, gv=None):
        gv = gv or call.attrs.get("gv")
        if self.alone and isinstance(gv, GlobalVar) and gv not in self.mod:
            return gv.name, None
        if gv is None or gv not in self.mod:
            self.fail(f"{call.op} of {getattr(gv, 'name', gv)}, which is no function of the module")
        if not isinstance(self.mod[gv], kind):
            wanted = " or ".join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))
            self.fail(f"{call.op} of {gv.name}, which is a {type(self.mod[gv]).__name__} instead of a {wanted}")
        return gv.name, self.mod[gv]

    def _call_function(self, call, args):
        name, func = self._callee(call, (Function, PrimFunc, ExternFunc))
        if func is None:
            return
        if isinstance(func, ExternFunc):
            return self._call_of(name, func.struct_info, call, args)
        if len(args) != len(func.params):
            self.fail(f"{name} takes {len(func.params)} arguments, got {len(args)}")
        if isinstance(func, PrimFunc):
            return
        dims = call_dims(func, args)
        for p, info in zip(func.params, args):
            if not self._fits(info, substitute(p.struct_info, dims)):
                self.fail(f"parameter {p.name} of {name} is {p.struct_info}, the argument is {info}")
        returned = substitute(func.ret_struct_info, dims)
        if not self._may_give(returned, call.struct_info):
            self.fail(f"{name} returns {returned}, the call is declared as {call.struct_info}")

    def _call_value(self, call, args):
        """A call of a function that is a value."""
        self._call_of(call.op.name, self._atom(call.op), call, args)

    def _call_of(self, name, info, call, args):
        """A call of a function of which a FuncStructInfo says all that is known."""
        if getattr(info, "params", None) is None:
            return
        if len(args) != len(info.params):
            self.fail(f"{name} takes {len(info.params)} arguments, got {len(args)}")
        returned = derived_info(info.params, info.ret, call.args)
        if not same_info(returned, call.struct_info):
            self.fail(f"{name} returns {returned}, the call is declared as {call.struct_info}")

    def _call_tir(self, call, args):
        name, func = self._callee(call, PrimFunc)
        if func is None:
            return
        wrong = inplace_problem(call) if IN_PLACE in call.attrs else None
        if wrong:
            self.fail(wrong)
        over = call.attrs.get(IN_PLACE, (-1,) * len(fields_of(call.struct_info)))
        numbers = self._numbers(name, func, args) if self.wider else ()
        infos = [*(info for info in args if not (self.wider and isinstance(info, PrimStructInfo))),
                 *(info for info, k in zip(fields_of(call.struct_info), over) if k < 0)]
        buffers = func.buffers[:len(func.buffers) - func.attrs.get("num_workspace", 0)]
        scalars = [p for p in func.params if p not in func.buffer_map and id(p) not in map(id, numbers)]
        dims = call.attrs.get("sym_args", ())
        if len(infos) != len(buffers) or len(dims) != len(scalars):
            self.fail(f"{name} takes {len(buffers)} tensors (results included) and {len(scalars)} dimensions, got "
                      f"{len(infos)} and {len(dims)}")
        known = {p: d.astype(p.dtype) for p, d in zip(scalars, dims)}
        for info, buffer in zip(infos, buffers):  # a result may tell the dimensions that an operand's are made of
            if isinstance(getattr(info, "shape", None), tuple):
                _tell(info.shape, buffer.shape, known)
        for info, buffer in zip(infos, buffers):
            if not isinstance(info, TensorStructInfo) or info.dtype != buffer.dtype:
                self.fail(f"buffer {buffer.name} of {name} is {buffer.dtype}, the tensor is {info}")
            if self.wider and not isinstance(info.shape, tuple):
                continue
            flat = self.wider and len(info.shape) != len(buffer.shape)
            if flat or not (_may_fit if self.wider else _fits)(info.shape, buffer.shape, known):
                self.fail(f"buffer {buffer.name} of {name} has shape {shape_text(buffer.shape)}, the tensor "
                          f"{shape_text(info)}")

    def _numbers(self, name, func, args):
        """The parameters of a PrimFunc that take arguments which are numbers, R.Prim."""
        found = []
        for info, param in zip(args, func.params):
            if not isinstance(info, PrimStructInfo):
                continue
            if param in func.buffer_map or param.dtype != info.dtype:
                kind = "a buffer" if param in func.buffer_map else f"of {param.dtype}"
                self.fail(f"parameter {param.name} of {name} is {kind}, the argument is {info}")
            found.append(param)
        return found


def _tell(shape, buffer_shape, known):
    """Adds a buffer's own dimensions, which a tensor's shape tells, to `known`."""
    for dim, own in zip(shape, buffer_shape) if len(shape) == len(buffer_shape) else ():
        if isinstance(own, Var):
            known.setdefault(own, dim.astype(own.dtype))


def _fits(shape, buffer_shape, known):
    """Whether a tensor's shape is a buffer's under `known`, {Var: dimension}, which gains the buffer's own dimensions.
    A flat buffer must have as many elements."""
    _tell(shape, buffer_shape, known)
    if len(shape) == len(buffer_shape):
        return all(same_dim(a.astype(b.dtype), substitute(b, known)) for a, b in zip(shape, buffer_shape))
    return len(buffer_shape) == 1 and same_dim(product(shape), substitute(buffer_shape[0], known))


def _may_fit(shape, buffer_shape, known):
    """Whether a tensor's shape may be a buffer's of as many dimensions, for some values of the symbolic ones."""
    _tell(shape, buffer_shape, known)
    own = [substitute(b, known) for b in buffer_shape]
    return base_check(ShapeStructInfo(own), ShapeStructInfo([a.astype(b.dtype) for a, b in zip(shape, own)])) != (
        BaseCheckResult.FAIL_L0)


__all__ = ["VerifyError", "contradiction", "new_dims", "same_info", "verify"]
