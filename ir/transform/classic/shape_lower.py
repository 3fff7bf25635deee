"""VMShapeLower: symbolic shapes as places of a heap, which a run fills, checks and reads by functions vm.builtin.*."""
from __future__ import annotations

from ...expr import FloatImm, IntImm, Var, const, free_vars, substitute
from ...module import GlobalVar
from ...names import Names, unique_name
from ...node import collect, structural_equal, structural_hash
from ...relax.expr import (PACKED, BindingBlock, DataflowVar, DataTypeImm, Function, FuncStructInfo, MatchCast,
                           ObjectStructInfo, PrimStructInfo, PrimValue, RelaxCall, RelaxString, RelaxTuple, RelaxVar,
                           SeqExpr, ShapeExpr, ShapeStructInfo, TensorStructInfo, TupleGetItem, TupleStructInfo,
                           VarBinding, call_builtin_with_ctx)
from ...relax.lattice import is_base_of
from ...relax.op import call as operator
from ...tir.buffer import decl_buffer
from ...tir.function import PrimFunc
from ...tir.stmt import BufferLoad, BufferStore, seq
from ..graph import ReplaceVars

# What match_shape does with a dimension, and where make_shape takes one from (runtime/vm_functions.py).
_EQUAL_TO_IMM, _STORE, _NO_OP, _EQUAL_TO_LOAD = range(4)
_USE_IMM, _LOAD = range(2)
_LIBRARY, _VOID, _INT64 = "vm.builtin.", TupleStructInfo(()), "int64"


def lower_shapes(mod, emit_err_ctx=True):
    """A module whose graph functions have a heap of int64: parameters, R.match_cast and results are checked by calls
    that put dimensions there, private PrimFuncs shape_func compute what follows from them, and symbolic shapes and
    numbers are read from it. emit_err_ctx: whether a check says in an error what it is of.

    Requires no functions inside others (LambdaLift) and no dataflow blocks (ToNonDataflow). ValueError for these, and
    for a dimension that nothing defines.
    """
    functions, taken = dict(mod.functions), Names(mod.functions)
    for name, func in mod.functions.items():
        if isinstance(func, Function):
            lower = _Lower(name, func, emit_err_ctx, taken)
            functions[name] = lower.function()
            functions.update(lower.made)
    return mod.with_functions(functions)


# ---------------------------------------------------------------- places

class _Heap:
    """The dimensions of a function that are no numbers, each in a place of its own, in the order of their use."""

    def __init__(self, func):
        self.dims, self.place, self.known = [], {}, set()
        for p in func.params:
            self._of_info(p.struct_info)
        self._of(func.body)
        self._of_info(func.ret_struct_info)
        self.open = {n: {id(v) for v in free_vars(d)} for n, d in enumerate(self.dims) if not isinstance(d, Var)}

    def _of(self, value):
        if isinstance(value, SeqExpr):
            for b in (b for block in value.blocks for b in block.bindings):
                self._of_info(b.var.struct_info) if isinstance(b, MatchCast) else self._of(b.value)
            self._of(value.body)
        elif isinstance(value, (ShapeExpr, PrimValue)):
            self._add(getattr(value, "values", None) or (value.value,))
        elif isinstance(value, RelaxTuple):
            for field in value.fields:
                self._of(field)
        elif isinstance(value, RelaxCall):
            for a in value.args:
                self._of(a)
            if value.op in (*PACKED, "invoke_closure"):
                self._of_info(value.struct_info)
        elif hasattr(value, "true_branch"):
            self._of(value.true_branch)
            self._of(value.false_branch)

    def _of_info(self, info):
        if isinstance(info, TupleStructInfo):
            for field in info.fields:
                self._of_info(field)
        self._add(_pattern(info) or ())

    def _add(self, dims):
        for d in dims:
            if not isinstance(d, (IntImm, FloatImm)) and self.of(d) is None:
                self.place.setdefault(structural_hash(d), []).append(len(self.dims))
                self.dims.append(d)

    def of(self, dim):
        """The place of a dimension, None where it has none."""
        return next((n for n in self.place.get(structural_hash(dim), ()) if structural_equal(self.dims[n], dim)), None)

    def follow(self, variables):
        """The places of what can be computed once `variables`, places too, are known."""
        order = {id(self.dims[v]): k for k, v in enumerate(variables)}
        known = {id(self.dims[n]) for n in self.known}
        found = [n for n, needed in self.open.items() if needed & order.keys() and needed <= known]
        return sorted(found, key=lambda n: max(order[v] for v in self.open[n] & order.keys()))


def _pattern(info):
    """The dimensions that struct info names; None where it names none."""
    if isinstance(info, TensorStructInfo):
        return info.shape if isinstance(info.shape, tuple) else None
    if isinstance(info, ShapeStructInfo):
        return info.values
    return (info.value,) if isinstance(info, PrimStructInfo) and info.value is not None else None


# ---------------------------------------------------------------- functions

class _Lower(ReplaceVars):
    """Lowers one function; `made` are the functions that compute dimensions."""

    def __init__(self, name, func, emit_err_ctx, taken):
        if collect(func.body, Function):
            raise ValueError(f"VMShapeLower: {name} has a function inside; apply LambdaLift before")
        self.name, self.func, self.says, self.taken, self.made = name, func, emit_err_ctx, taken, {}
        self.heap, self.names = _Heap(func), Names(v.name for v in collect(func, (RelaxVar, DataflowVar)))
        super().__init__()
        self.bindings, self.atoms, self.fresh = [], {}, []

    def function(self):
        func = self.func
        size = len(self.heap.dims)
        given = operator("null_value") if not size else call_builtin_with_ctx(
            f"{_LIBRARY}alloc_shape_heap", (PrimValue(size),), sinfo_args=TensorStructInfo(None, _INT64, 1))
        self.storage = self._bound(given, "shape_heap")
        count, todo = int(func.attrs.get("num_input", len(func.params))), []
        for n, p in enumerate(func.params):
            words = f"loc=param[{n}], param={p.name}, annotation={p.struct_info}"
            self._check(p.struct_info, p, True, n >= count, f"ErrorContext(fn={self.name}, {words}) ", todo)
        self._match_all(todo)
        before = BindingBlock(tuple(self.bindings))
        body = self.visit(func.body)
        self.bindings, todo = [], []
        words = f"ErrorContext(fn={self.name}, loc=return, annotation={func.ret_struct_info}) "
        self._check(func.ret_struct_info, body.body, False, False, words, todo)
        self._match(todo, True)
        after = BindingBlock(tuple(self.bindings))
        bindings = tuple(b for block in (before, *body.blocks, after) for b in block.bindings)
        return func.replace(body=SeqExpr((BindingBlock(bindings),), body.body))

    # ------------------------------------------------------------ bodies

    def visit_DataflowVar(self, var):
        raise ValueError(f"VMShapeLower: {self.name} has a dataflow block; apply ToNonDataflow before")

    def visit_SeqExpr(self, value):
        outer, blocks = self.bindings, []
        for block in value.blocks:
            self.bindings = []
            for b in block.bindings:
                self._binding(b)
            blocks.append(block.replace(bindings=tuple(self.bindings)))
        self.bindings = []
        body = self._atom(self.visit(value.body))
        blocks += [BindingBlock(tuple(self.bindings))] if self.bindings else []
        self.bindings = outer
        return SeqExpr(tuple(blocks), body)

    def visit_If(self, value):
        """What one branch defines is not there in the other, nor behind both where that does not define it, too."""
        cond, before, atoms = self._atom(self.visit(value.cond)), set(self.heap.known), dict(self.atoms)
        true_branch, after = self.visit(value.true_branch), self.heap.known
        self.heap.known, self.atoms = before, dict(atoms)
        false_branch = self.visit(value.false_branch)
        self.heap.known, self.atoms = self.heap.known & after, atoms
        return value.replace(cond=cond, true_branch=true_branch, false_branch=false_branch)

    def _binding(self, b):
        value = self._whole(b.value)
        if isinstance(b, MatchCast):
            todo = []
            self._check(b.var.struct_info, self._atom(value), False, False,
                        f"ErrorContext(match_cast, struct_info={b.var.struct_info}) ", todo)
            self._match_all(todo)
        elif value is not b.value and value.struct_info != b.var.struct_info and value.struct_info is not None:
            self.env[id(b.var)] = b.var.replace(struct_info=value.struct_info)
        self.bindings.append(b.replace(var=self._variable(b.var), value=value))

    def _whole(self, value):
        """A value that a variable is bound to; the calls that read shapes inside it are bound before."""
        if isinstance(value, RelaxCall):
            args = tuple(self._atom(self.visit(a)) for a in value.args)
            same = all(a is b for a, b in zip(args, value.args))
            return value if same else value.replace(args=args)
        return self.visit(value)

    def visit_RelaxTuple(self, value):
        fields = tuple(self._atom(self.visit(f)) for f in value.fields)
        return value if all(a is b for a, b in zip(fields, value.fields)) else RelaxTuple(fields)

    def visit_ShapeExpr(self, shape):
        if all(isinstance(d, IntImm) for d in shape.values):
            return shape
        codes = [c for d in shape.values for c in self._read(d)]
        return _packed("make_shape", self.storage, PrimValue(len(shape.values)), *codes,
                       info=ShapeStructInfo(None, len(shape.values)))

    def visit_PrimValue(self, value):
        if isinstance(value.value, (IntImm, FloatImm)) or not hasattr(value.value, "dtype"):
            return value
        return _packed("make_prim_value", self.storage, *self._read(value.value), info=value.struct_info)

    def _read(self, dim):
        """The (code, value) by which make_shape finds a dimension."""
        if isinstance(dim, IntImm):
            return PrimValue(_USE_IMM), PrimValue(dim.value)
        n = self.heap.of(dim)
        if n not in self.heap.known:
            raise ValueError(f"VMShapeLower: {dim} in {self.name} is used before its variables are defined")
        return PrimValue(_LOAD), PrimValue(n)

    # ------------------------------------------------------------ bindings

    def _bound(self, value, hint):
        var = RelaxVar(unique_name(hint, self.names, ""), value.struct_info)
        self.bindings.append(VarBinding(var, value))
        return var

    def _atom(self, value):
        """A value as an argument: calls and items are bound to a variable, once."""
        if not isinstance(value, (RelaxCall, TupleGetItem)):
            return value
        if id(value) not in self.atoms:
            whole = value
            if isinstance(value, TupleGetItem):
                whole = value.replace(tuple_value=self._atom(value.tuple_value))
            elif value.op == "call_packed":
                whole = value.replace(args=tuple(map(self._atom, value.args)))
            self.atoms[id(value)] = self._bound(whole, "gv"), value  # kept, so that no other has its id
        return self.atoms[id(value)][0]

    def _call(self, name, value, *args, context):
        self._bound(_packed(name, self._atom(value), *args, RelaxString(context if self.says else ""), info=_VOID), "_")

    # ------------------------------------------------------------ checks

    def _check(self, info, value, always, dynamic_only, context, todo):
        """Check by calls what kind of value it is, unless that is known; its dimensions are added to `todo`."""
        if not always and is_base_of(info, value.struct_info) or isinstance(info, ObjectStructInfo):
            return
        if isinstance(info, TupleStructInfo):
            self._check_tuple(info, value, always, dynamic_only, context, todo)
            return
        dims = _pattern(info)
        static = dims is not None and all(isinstance(d, IntImm) for d in dims)
        if isinstance(info, TensorStructInfo) and dynamic_only and static:
            return
        if isinstance(info, TensorStructInfo) and info.shape is not None and dims is None:
            raise ValueError(f"VMShapeLower: the shape of {context or info} is a variable; give its dimensions names")
        name, least, args = _KINDS[type(info)](info)
        if always or least is None or not is_base_of(least, value.struct_info):
            self._call(f"check_{name}_info", value, *args, context=context)
        if dims is not None:
            todo.append((value, dims, context))

    def _check_tuple(self, info, value, always, dynamic_only, context, todo):
        known = value.struct_info if isinstance(value.struct_info, TupleStructInfo) else None
        if known is not None and len(known.fields) != len(info.fields):
            raise ValueError(f"VMShapeLower: {context}: a tuple of {len(known.fields)} is cast to one of "
                             f"{len(info.fields)}")
        if always or known is None:
            self._call("check_tuple_info", value, PrimValue(len(info.fields)), context=context)
        for n, field in enumerate(info.fields):
            if isinstance(value, RelaxTuple):
                item = value.fields[n]
            elif known is not None:
                item = TupleGetItem(value, n)
            else:
                item = _packed("tuple_getitem", value, PrimValue(n), info=ObjectStructInfo())
            self._check(field, item, always, dynamic_only, context, todo)

    # ------------------------------------------------------------ dimensions

    def _match_all(self, todo):
        """Match what is to be matched, compute what follows, and match what that was needed for."""
        todo = self._match(todo, False)
        self._compute()
        self._match(todo, True)

    def _match(self, todo, all_known):
        """Calls that hold values to dimensions that are known, and put variables that are not in the heap; what has
        others is given back. ValueError for these where all must be known."""
        later = []
        for value, dims, context in todo:
            codes = [self._code(d, all_known) for d in dims]
            later += [(value, dims, context)] if any(code == _NO_OP for code, _ in codes) else []
            if codes and all(code == _NO_OP for code, _ in codes):
                continue
            pairs = [PrimValue(n) for pair in codes for n in pair]
            if isinstance(value.struct_info, PrimStructInfo):
                self._call("match_prim_value", value, self.storage, *pairs, context=context)
            else:
                self._call("match_shape", value, self.storage, PrimValue(len(dims)), *pairs, context=context)
        return later

    def _code(self, dim, all_known):
        if isinstance(dim, IntImm):
            return _EQUAL_TO_IMM, dim.value
        n = self.heap.of(dim)
        if n in self.heap.known:
            return _EQUAL_TO_LOAD, n
        if all_known:
            raise ValueError(f"VMShapeLower: {dim} in {self.name} is used before its variables are defined")
        if not isinstance(dim, Var):
            return _NO_OP, 0
        self.heap.known.add(n)
        self.fresh.append(n)
        return _STORE, n

    def _compute(self):
        """A call of a function that computes what follows from the variables that are new."""
        found, self.fresh = self.heap.follow(self.fresh), []
        if not found:
            return
        handle = Var("heap", "handle")
        buffer = decl_buffer((const(len(self.heap.dims), _INT64),), _INT64, "H")
        loads = {d: BufferLoad(buffer, (const(n, _INT64),)) for n, d in enumerate(self.heap.dims) if isinstance(d, Var)}
        stores = [BufferStore(buffer, substitute(self.heap.dims[n], loads), (const(n, _INT64),)) for n in found]
        self.heap.known.update(found)
        name = unique_name("shape_func", self.taken, "")
        self.made[name] = PrimFunc((handle,), {handle: buffer}, seq(*stores), {"tir.is_host_func": 1})
        self._bound(RelaxCall("call", (self.storage,), {"gv": GlobalVar(name)}, _VOID), "_")


def _packed(name, *args, info):
    return RelaxCall("call_packed", args, {"func": _LIBRARY + name}, info)


# struct info -> (the name of its check, what makes it needless where that is known, the check's arguments)
_KINDS = {
    TensorStructInfo: lambda i: ("tensor", TensorStructInfo(None, i.dtype, i.ndim),
                                 (PrimValue(i.ndim), DataTypeImm("" if i.dtype == "void" else i.dtype))),
    ShapeStructInfo: lambda i: ("shape", ShapeStructInfo(None, i.ndim), (PrimValue(i.ndim),)),
    PrimStructInfo: lambda i: ("prim_value", PrimStructInfo(i.dtype), (DataTypeImm(i.dtype),)),
    FuncStructInfo: lambda i: ("func", FuncStructInfo.opaque_func(), ()),
}
__all__ = ["lower_shapes"]
