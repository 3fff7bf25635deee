"""A reference interpreter for PrimFuncs: the function becomes Python source over numpy arrays, which is then run.

    run(func, *arrays)       buffers in parameter order (inputs, then outputs, written in place); scalar Vars take ints

Works on scheduled and lowered forms alike: blocks (init, predicates, match_buffers), every loop kind, DeclBuffer,
LetStmt, IfThenElse, vector loads and stores through Ramp, and every intrinsic of ir/tir/intrinsics.py. Symbolic
dimensions that are no parameters come from the arrays' shapes. A buffer of another rank than its array (flattened),
with strides or with an offset sees the array's elements in row-major order.

It is stricter than C, so that mistakes show: fresh allocations hold NaN (integers: a large odd number), an index that
may be negative is checked, both sides of a Select are evaluated, and parallel loops run backwards.
`source(func)` is the Python text; `build(func)` the Python function.
"""
from __future__ import annotations

import ml_dtypes
import numpy as np

from .. import expr as E
from ..arith import Analyzer
from ..module import GlobalVar
from ..node import collect
from . import stmt as S
from .buffer import row_major_strides
from .intrinsics import ALL_INTRINSICS
from .tiles import TILES

_INFIX = {E.Add: "+", E.Sub: "-", E.Mul: "*", E.FloorDiv: "//", E.FloorMod: "%", E.EQ: "==", E.NE: "!=", E.LT: "<",
          E.LE: "<=", E.GT: ">", E.GE: ">="}
# Statements that change nothing where one thread runs and copies are done at once
NOTHING = ("tir.assume", "tir.prefetch", "tir.tvm_storage_sync", "tir.ptx_commit_group", "tir.ptx_wait_group")
_CALLED = {E.Min: "minimum", E.Max: "maximum", E.And: "logical_and", E.Or: "logical_or", E.Div: "trunc_div",
           E.Mod: "trunc_mod"}


def run(func, *arrays):
    """Run `func` on arrays and scalars in parameter order; outputs are written in place. Returns None.

    Workspace (attrs["num_workspace"]) that is not given is made here, full of NaN.
    """
    arrays = with_workspace(func, arrays)
    with np.errstate(all="ignore"):
        build(func)(*arrays)


def with_workspace(func, arrays):
    """Arrays and scalars in parameter order, the workspace full of NaN where it is not among them."""
    count = func.attrs.get("num_workspace", 0)
    if count and len(arrays) == len(func.params) - count:
        end = len(func.buffers) - count
        scalars = dict(zip((p for p in func.params if p not in func.buffer_map), arrays[end:]))
        arrays = (*arrays[:end], *(_workspace(b, scalars) for b in func.buffers[end:]), *arrays[end:])
    if len(arrays) != len(func.params):
        raise TypeError(f"the function has {len(func.params)} parameters, {len(arrays)} were given")
    return arrays


def _workspace(buffer, scalars):
    """An array for a flat buffer whose size may depend on scalars {variable: number}."""
    size = Analyzer().simplify(E.substitute(buffer.shape[0], {v: E.const(int(n), v.dtype) for v, n in scalars.items()}))
    with np.errstate(invalid="ignore"):  # integers have no NaN: what it is cast to is as good as any
        return np.full(size.value, np.nan).astype(buffer.dtype.numpy)


def build(func):
    """The Python function of a PrimFunc."""
    scope = dict(RUNTIME)
    exec(compile(source(func), "<interpreted PrimFunc>", "exec"), scope)
    return scope["kernel"]


def source(func):
    """The Python text of a PrimFunc."""
    return Compiler().function(func)


# ---------------------------------------------------------------- run-time helpers of the generated text

def _checked(index):
    if index < 0 if type(index) is int else np.any(np.asarray(index) < 0):
        raise IndexError(f"negative index {index}")
    return index


def _fresh(shape, dtype):
    """An allocation full of values that spoil any result which reads them."""
    dtype = np.dtype(dtype)
    if "float" in dtype.name:
        return np.full(shape, np.nan, dtype)
    return np.full(shape, 1 if dtype.kind == "b" else int(ml_dtypes.iinfo(dtype).max) // 3 | 1, dtype)


def _convert(value, dtype):
    return np.asarray(value).astype(dtype)[()]


def _trunc_div(a, b):
    if any("float" in np.asarray(x).dtype.name for x in (a, b)):
        return a / b
    floor = a // b  # 0 of numbers by 0
    return floor + ((b != 0) & (floor * b != a) & ((a < 0) != (b < 0)))


def _trunc_mod(a, b):
    return (b != 0) * (a - b * _trunc_div(a, b))


def _select(condition, true_value, false_value):
    if isinstance(condition, np.ndarray):
        return np.where(condition, true_value, false_value)
    return true_value if condition else false_value


def _view(array, flat):
    """The array as the buffer sees it; a view, so that stores reach the caller."""
    if not flat:
        return array
    view = array.reshape(-1)
    if array.size and not np.shares_memory(view, array):
        raise ValueError("a flattened or strided buffer needs a contiguous array")
    return view


def _reread(array, dtype, shape):
    """The memory of an array as another buffer sees it: its first elements, in `shape`, or all of it in one row."""
    flat = _view(array, True).view(dtype)
    return flat if shape is None else flat[:int(np.prod(shape))].reshape(shape)


def _check_shape(name, array, shape):
    if tuple(array.shape) != tuple(shape):
        raise ValueError(f"buffer {name} has shape {tuple(shape)}, the array {array.shape}")


def _no_extern(name, *_):
    raise NotImplementedError(f"call of the C function {name}")


def _padded(values, lanes):
    return np.concatenate([values, np.zeros(lanes - len(values), values.dtype)])


def _struct_get(of, index, field):
    """A field, by TVM's number, of a packed function's arguments, which are a list here, or of a tensor, an array on
    the CPU."""
    if field == 12:
        return of[index]
    code = {"f": 2, "u": 1, "b": 1}.get(of.dtype.kind, 0)
    return {1: of, 2: np.array(of.shape, "int64"), 3: np.array(of.strides, "int64") // of.itemsize, 4: of.ndim, 5: code,
            6: of.itemsize * 8, 7: 1, 8: 0, 9: 0, 10: 1}[field]


RUNTIME = {"np": np, "tvm_struct_get": _struct_get, "isnullptr": lambda pointer: pointer is None,
            "checked": _checked, "fresh": _fresh, "convert": _convert, "trunc_div": _trunc_div,
            "trunc_mod": _trunc_mod, "select": _select, "view": _view, "reread": _reread, "check_shape": _check_shape,
            "no_extern": _no_extern, "minimum": min, "maximum": max, "v_minimum": np.minimum, "v_maximum": np.maximum,
            "v_logical_and": np.logical_and, "v_logical_or": np.logical_or,
            "padded": _padded, **TILES, **{"f_" + name: row.numpy for name, row in ALL_INTRINSICS.items()}}


# ---------------------------------------------------------------- the compiler

class Compiler:
    def __init__(self):
        self.lines, self.depth = [], 1
        self.names, self.used = {}, set()
        self.nonneg = set()    # ids of variables that cannot be negative
        self.immediates = {}   # text of a constant -> its name, defined once at the top
        self.keep = []         # holds variables so that ids stay unique
        self.over = {}         # id of a data pointer -> the buffers over it that nothing else defines
        self.views = set()     # ids of matched buffers: numpy views, whatever strides and offset they declare

    def emit(self, text):
        self.lines.append("    " * self.depth + text)

    def name(self, binder):
        """A Python name for a Var or Buffer, one per object."""
        if id(binder) not in self.names:
            stem = "".join(c if c.isalnum() and c.isascii() else "_" for c in binder.name) or "v"
            self.names[id(binder)] = f"{stem}_{len(self.names)}"
            self.keep.append(binder)
        return self.names[id(binder)]

    def known(self, var):
        return id(var) in self.names

    def function(self, func):
        params = [self.name(p) for p in func.params]
        self.over = func.views()
        for p in func.params:
            if p in func.buffer_map:
                self.bind_buffer(func.buffer_map[p], self.name(p))
            elif id(p) in self.over:
                self.declare_views(p, self.name(p))
            else:
                name = self.name(p)
                value = f"convert({name}, '{p.dtype.numpy.name}')" if p.dtype.is_float else f"int({name})"
                if p.dtype != "handle":  # a pointer is what the caller gives
                    self.emit(f"{name} = {value}")
        for p in func.params:
            if p in func.buffer_map and not _is_flat(func.buffer_map[p]) and func.buffer_map[p].dtype.lanes == 1:
                self.check_shape(func.buffer_map[p], self.name(p))
        self.stmt(func.body)
        head = [f"{name} = {text}" for text, name in self.immediates.items()]
        return "\n".join(head + [f"def kernel({', '.join(params)}):"] + self.lines) + "\n"

    def bind_buffer(self, buffer, array):
        """Name the array of a parameter buffer; its shape defines symbolic dimensions not seen before."""
        for k, extent in enumerate(buffer.shape):
            if isinstance(extent, E.Var) and not self.known(extent):
                self.emit(f"{self.name(extent)} = {array}.shape[{k}]")
                self.nonneg.add(id(extent))
        flat = f"{_is_flat(buffer)} or {array}.ndim != {len(buffer.shape)}"
        of_vectors = buffer.dtype.lanes > 1
        self.emit(f"{self.name(buffer)} = " + (
            f"{array}.reshape({self.shape(buffer)})" if of_vectors else f"view({array}, {flat})"))
        self.declare_views(buffer.data, array)

    def declare_views(self, pointer, array):
        """Name the buffers that lie over the memory of an array."""
        for b in self.over.get(id(pointer), ()):
            shape = "None" if _is_flat(b) and b.dtype.lanes == 1 else self.shape(b)
            self.emit(f"{self.name(b)} = None if {array} is None else reread({array}, '{b.dtype.numpy.name}', {shape})")

    def shape(self, buffer):
        """The dimensions of an array that is a buffer: vectors are one of their own."""
        lanes = [str(buffer.dtype.lanes)] if buffer.dtype.lanes > 1 else []
        return f"[{', '.join([*map(self.expr, buffer.shape), *lanes])}]"

    def check_shape(self, buffer, array):
        shape = ", ".join(self.expr(s) for s in buffer.shape)
        self.emit(f"if {array}.ndim == {len(buffer.shape)}: check_shape('{buffer.name}', {array}, [{shape}])")

    # ------------------------------------------------ statements

    def stmt(self, s):
        getattr(self, "stmt_" + type(s).__name__)(s)

    def nested(self, head, *body):
        self.emit(head)
        self.depth += 1
        for s in body:
            self.stmt(s)
        self.depth -= 1

    def stmt_SeqStmt(self, s):
        for part in s.seq:
            self.stmt(part)

    def stmt_For(self, s):
        low, extent, var = self.expr(s.min), self.expr(s.extent), self.name(s.loop_var)
        if self.is_nonneg(s.min):
            self.nonneg.add(id(s.loop_var))
        loop = f"range({low}, {low} + {extent})" if low != "0" else f"range({extent})"
        if s.kind == "parallel":
            loop = f"reversed({loop})"
        self.nested(f"for {var} in {loop}:", s.body)

    def stmt_While(self, s):
        self.nested(f"while {self.expr(s.condition)}:", s.body)

    def stmt_BlockRealize(self, s):
        block = s.block
        for iv, value in zip(block.iter_vars, s.iter_values):
            self.emit(f"{self.name(iv.var)} = {self.expr(value)}")
            if self.is_nonneg(value):
                self.nonneg.add(id(iv.var))
        depth = self.depth
        if not E.is_const_int(s.predicate, 1):
            self.emit(f"if {self.expr(s.predicate)}:")
            self.depth += 1
        for buffer in block.alloc_buffers:
            self.allocate(buffer)
        for match in block.match_buffers:
            self.match(match)
        if block.init is not None:
            first = [f"{self.name(iv.var)} == {self.expr(iv.dom.min)}" for iv in block.iter_vars
                     if iv.iter_type == "reduce"]
            self.nested(f"if {' and '.join(first) or 'True'}:", block.init)
        self.stmt(block.body)
        self.depth = depth

    def pointer(self, e):
        """A data pointer or an address as (array of one dimension, index)."""
        if isinstance(e, E.Var):
            return f"({self.name(e)}.reshape(-1), 0)"
        load = e.args[0]
        return f"({self.name(load.buffer)}, {self.indices(load.buffer, load.indices)})"

    def allocate(self, buffer):
        extents = buffer.shape
        if buffer.strides:  # all elements from the first to the last
            extents = (sum(((s - 1) * stride for s, stride in zip(extents, buffer.strides)), E.const(1)),)
        lanes = [str(buffer.dtype.lanes)] if buffer.dtype.lanes > 1 else []  # vectors are a dimension of their own
        shape = ", ".join([self.expr(s) for s in extents] + lanes)
        self.emit(f"{self.name(buffer)} = fresh([{shape}], '{buffer.dtype.numpy.name}')")
        if buffer.data is not None:
            self.names[id(buffer.data)] = self.name(buffer)
            self.keep.append(buffer.data)
        self.declare_views(buffer.data, self.name(buffer))

    def match(self, match):
        region = ", ".join(f"{self.expr(r.min)}:{self.expr(r.min + r.extent)}" for r in match.source.region)
        for k, extent in enumerate(match.buffer.shape):
            if isinstance(extent, E.Var) and not self.known(extent):
                self.emit(f"{self.name(extent)} = {self.expr(match.source.region[k].extent)}")
        source, drop = self.name(match.source.buffer), len(match.source.region) - len(match.buffer.shape)
        first = f"[{', '.join([*['0'] * drop, '...'])}]" if drop else ""  # leading axes of extent 1 that the buffer leaves out
        self.emit(f"{self.name(match.buffer)} = {source}[{region}]{first}")
        self.views.add(id(match.buffer))

    def stmt_BufferStore(self, s):
        count = _count(s.indices)
        first = "" if count is None else f"[:{self.expr(count)}]"
        self.emit(f"{self.name(s.buffer)}[{self.indices(s.buffer, s.indices)}] = {self.expr(s.value)}{first}")

    def stmt_IfThenElse(self, s):
        self.nested(f"if {self.expr(s.condition)}:", s.then_case)
        if s.else_case is not None:
            self.nested("else:", s.else_case)

    def stmt_LetStmt(self, s):
        self.emit(f"{self.name(s.var)} = {self.expr(s.value)}")
        if self.is_nonneg(s.value):
            self.nonneg.add(id(s.var))
        self.declare_views(s.var, self.name(s.var))
        self.stmt(s.body)

    def stmt_AssertStmt(self, s):
        self.emit(f"assert {self.expr(s.condition)}, {self.expr(s.message)}")
        self.stmt(s.body)

    def stmt_AttrStmt(self, s):
        if isinstance(s.target, E.IterVar) and s.attr_key in ("thread_extent", "virtual_thread"):  # one after the other
            self.nonneg.add(id(s.target.var))
            self.nested(f"for {self.name(s.target.var)} in range({self.expr(s.value)}):", s.body)
        else:
            self.stmt(s.body)

    def stmt_DeclBuffer(self, s):
        self.allocate(s.buffer)
        self.stmt(s.body)

    def stmt_Evaluate(self, s):
        returns = isinstance(s.value, E.Call) and s.value.op == "tir.ret"
        self.emit(f"return {self.expr(s.value.args[0])}" if returns else self.expr(s.value))

    # ------------------------------------------------ expressions

    def indices(self, buffer, indices):
        if _is_flat(buffer) and id(buffer) not in self.views:
            strides = buffer.strides or row_major_strides(buffer.shape)
            flat = buffer.elem_offset
            for i, stride in zip(indices, strides):
                flat = flat + i * stride
            indices = (flat,)
        return ", ".join(self.index(i) for i in indices) or "()"

    def index(self, i):
        text = self.expr(i)
        return text if self.is_nonneg(i) else f"checked({text})"

    def is_nonneg(self, e):
        """True when `e` is plainly not negative."""
        if isinstance(e, E.IntImm):
            return e.value >= 0
        if isinstance(e, E.Var):
            return id(e) in self.nonneg
        if isinstance(e, E.Ramp):
            return self.is_nonneg(e.base) and self.is_nonneg(e.stride)
        if isinstance(e, (E.Add, E.Mul, E.FloorDiv, E.Min)):
            return self.is_nonneg(e.a) and self.is_nonneg(e.b)
        if isinstance(e, E.FloorMod):
            return self.is_nonneg(e.b)
        return isinstance(e, (E.Cast, E.Broadcast)) and self.is_nonneg(e.value)

    def expr(self, e):
        kind = type(e)
        if kind in _INFIX:
            return f"({self.expr(e.a)} {_INFIX[kind]} {self.expr(e.b)})"
        if kind in _CALLED:
            vector = "v_" if e.a.dtype.lanes > 1 and "trunc" not in _CALLED[kind] else ""
            if kind in (E.And, E.Or) and not vector:
                return f"({self.expr(e.a)} {'and' if kind is E.And else 'or'} {self.expr(e.b)})"
            return f"{vector}{_CALLED[kind]}({self.expr(e.a)}, {self.expr(e.b)})"
        method = getattr(self, "expr_" + kind.__name__, None)
        if method is None:
            raise NotImplementedError(f"the interpreter has no rule for {kind.__name__}")
        return method(e)

    def expr_Var(self, e):
        if not self.known(e):
            raise ValueError(f"variable {e.name} is used but not defined")
        return self.name(e)

    def expr_IntImm(self, e):
        return ("True" if e.value else "False") if e.dtype.is_bool else str(e.value)

    def expr_FloatImm(self, e):
        return self.immediate(f"np.dtype('{e.dtype.numpy.name}').type(float('{e.value!r}'))")

    def immediate(self, text):
        """The name of a constant."""
        return self.immediates.setdefault(text, f"c{len(self.immediates)}")

    def expr_ConstantArray(self, e):
        data = e.known()
        return self.immediate(f"np.frombuffer({data.tobytes()!r}, np.dtype('{e.elements.numpy.name}')).reshape({data.shape})")

    def expr_StringImm(self, e):
        return repr(e.value)

    def expr_Not(self, e):
        return f"(np.logical_not({self.expr(e.a)}))" if e.dtype.lanes > 1 else f"(not {self.expr(e.a)})"

    def expr_Select(self, e):
        return f"select({self.expr(e.condition)}, {self.expr(e.true_value)}, {self.expr(e.false_value)})"

    def expr_Cast(self, e):
        value = self.expr(e.value)
        # widened index arithmetic stays in Python's integers
        widens = e.dtype.code == e.value.dtype.code == "int" and e.dtype.bits >= e.value.dtype.bits
        if widens and not collect(e.value, S.BufferLoad):
            return value
        exact = e.dtype.lanes == 1 and _exact_by(e.value.dtype, e.dtype)
        return f"np.{e.dtype.numpy.name}({exact}({value}))" if exact else f"convert({value}, {self.dtype(e.dtype)})"

    def dtype(self, dtype):
        return self.immediate(f"np.dtype('{dtype.element.numpy.name}')")

    def expr_Ramp(self, e):
        if e.count is None and isinstance(e.stride, E.IntImm):
            return f"({self.expr(e.base)} + {self.immediate(f'{e.stride.value} * np.arange({e.lanes})')})"
        lanes = e.lanes if e.count is None else self.expr(e.count)
        return f"({self.expr(e.base)} + {self.expr(e.stride)} * np.arange({lanes}))"

    def expr_Broadcast(self, e):
        text = f"np.repeat({self.expr(e.value)}, {e.lanes})"
        return self.immediate(text) if isinstance(e.value, E.FloatImm) else text

    def expr_Shuffle(self, e):
        lanes = f"np.concatenate([{', '.join(f'np.atleast_1d({self.expr(v)})' for v in e.vectors)}])"
        indices = [i.value for i in e.indices]
        return f"{lanes}[{indices[0] if len(indices) == 1 else indices}]"

    def expr_Let(self, e):
        return f"({self.name(e.var)} := {self.expr(e.value)}, {self.expr(e.body)})[1]"

    def expr_BufferLoad(self, e):
        if not self.known(e.buffer):
            raise ValueError(f"buffer {e.buffer.name} is read but neither a parameter nor allocated")
        text = f"{self.name(e.buffer)}[{self.indices(e.buffer, e.indices)}]"
        return text if _count(e.indices) is None else f"padded({text}, {e.dtype.lanes})"

    def expr_Call(self, e):
        if e.op in NOTHING:
            return "0"
        if isinstance(e.op, GlobalVar):
            raise ValueError(f"a call of {e.op.name}, another function of the module: run "
                             "tir.transform.InlinePrivateFunctions first")
        if e.op.removeprefix("tir.") in TILES:
            args = (self.pointer(a) if a.dtype == "handle" and not isinstance(a, E.StringImm) else self.expr(a)
                    for a in e.args)
            return f"{e.op.removeprefix('tir.')}({', '.join(args)})"
        args = [self.expr(a) for a in e.args]
        op = e.op.rpartition(".")[2]
        if op in ("likely", "ignore_loop_partition"):
            return args[0]
        if op == "if_then_else":
            if e.args[0].dtype.lanes > 1:
                return f"select({', '.join(args)})"
            return f"({args[1]} if {args[0]} else {args[2]})"
        if op in ("popcount", "clz"):  # which look at the bits of the dtype
            args = [f"convert({args[0]}, {self.dtype(e.args[0].dtype)})"]
        if op in ALL_INTRINSICS:
            return f"f_{op}({', '.join(args)})"
        if op == "reinterpret":
            source, target = e.args[0].dtype.numpy.name, e.dtype.numpy.name
            return f"np.asarray({args[0]}, '{source}').view('{target}')[()]"
        if op in ("isnullptr", "tvm_struct_get"):
            return f"{op}({', '.join(args)})"
        if op == "call_extern":
            return f"no_extern({', '.join(args)})"
        raise NotImplementedError(f"the interpreter has no rule for the intrinsic {e.op}")


def _count(indices):
    """How many lanes of a vector an access by `indices` is limited to; None for all."""
    return getattr(indices[-1], "count", None) if indices else None


def _exact_by(source, target):
    """The type of Python's numbers by which a number reaches `target` rounded once, sooner than as an array: "int",
    "float", or "" where there is none."""
    if target.code == "float":
        single = source.bits <= 32 <= target.bits
        return ("float" if source.is_float else "int" if source.is_int else "") if single else ""
    whole = source.is_int and target.is_int and target.bits >= 8
    gains = source.code == target.code or source.code == "uint" and source.bits < target.bits
    return "int" if whole and gains and source.bits <= target.bits else ""


def _is_flat(buffer):
    return bool(buffer.strides) or not (buffer.elem_offset is None or E.is_const_int(buffer.elem_offset, 0))
