"""MakePackedAPI and MakeUnpackedAPI as scripts know them: functions that hosts call, in TIR that checks and unpacks what
they get. Pipelines print such an entry from the function's signature (codegen/entry.py)."""
from __future__ import annotations

from math import prod

from ...dtype import DataType
from ...expr import Call, Cast, Not, StringImm, Var, as_expr, cast, const, free_vars, logical_and, logical_or
from ...module import SYMBOL, GlobalVar
from ...node import Mutator, collect
from ...target import Target
from ...tir.buffer import decl_buffer
from ...tir.function import PrimFunc
from ...tir.intrin import ret
from ...tir.stmt import AssertStmt, AttrStmt, BufferLoad, BufferStore, Evaluate, IfThenElse, LetStmt, seq

TARGET, CALLING = "target", "calling_conv"
PACKED = 1  # TVM's number of the calling convention of packed functions
CONTEXT = "device_api_context"  # a parameter that comes as the resource handle
# TVM's numbers of the fields of a tensor, of an argument, of the types of these
DATA, SHAPE, STRIDES, NDIM, CODE, BITS, LANES, OFFSET, DEVICE, KIND, CONTENT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12
INT, FLOAT, POINTER, NULL, TENSOR, ARRAY, BOOL = 0, 2, 3, 4, 7, 13, 15
_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 1}
_DEVICES = {"cuda": 2, "opencl": 4}  # others are CPUs
# what a parameter is: (its name in errors, the codes of arguments that may be it, the type in an argument)
_KINDS = {"handle": ("pointer", (POINTER, ARRAY, TENSOR, NULL), "handle"), "bool": ("boolean", (BOOL, INT), "int64"),
          "int": ("int", (INT, BOOL), "int64"), "float": ("float", (FLOAT,), "float64")}


def make_packed_api(mod):
    """Ensures of each PrimFunc with a global_symbol and a target with a host that its parameters are those of a packed
    function: args, arg_type_ids, num_args, out_ret_value, out_ret_tcode and resource_handle. It asserts the number and
    the types of its arguments, that tensors have the dtypes, dimensions, strides and devices of the buffers, sets the
    variables in these, and returns 0; what it returned goes to out_ret_value. Its target is the host. Calls of such a
    function are tvm_call_cpacked. Raises ValueError for one with a global_symbol and no target."""
    return _rewritten("MakePackedAPI", mod, _packed, lambda symbol, call: Call(
        call.dtype, "tir.tvm_call_cpacked", (StringImm(symbol), *call.args, const(0, "handle"))))


def make_unpacked_api(mod):
    """Ensures of each PrimFunc with a global_symbol and a target with a host that its parameters are the data pointers
    of its buffers, and its numbers, that it returns 0, and that its target is the host. Calls of such a function are
    call_extern. Raises ValueError for one with a global_symbol and no target."""
    return _rewritten("MakeUnpackedAPI", mod, _unpacked, lambda symbol, call: Call(
        call.dtype, "tir.call_extern", (StringImm(symbol), *call.args)))


def _rewritten(title, mod, rewrite, called):
    symbols = {n: f.attrs[SYMBOL] for n, f in mod.functions.items()
               if isinstance(f, PrimFunc) and f.attrs.get(SYMBOL) and not f.attrs.get(CALLING)}
    hosts = {n: _host(title, n, mod[n]) for n in symbols}

    def function(name, func):
        if not isinstance(func, PrimFunc):
            return func
        func = func.replace(body=_Calls(symbols, called).visit(func.body))
        return rewrite(symbols[name], func, hosts[name]) if hosts.get(name) else func
    return mod.with_functions({n: function(n, f) for n, f in mod.functions.items()})


def _host(title, name, func):
    """The host of a function's target, None where it has none; ValueError without a target."""
    target = func.attrs.get(TARGET)
    if target is None:
        raise ValueError(f"{title} required the function to be annotated with tvm::attr::kTarget (target), and {name} is "
                         "not: run tir.transform.BindTarget first")
    return Target.get(target).host


class _Calls(Mutator):
    def __init__(self, symbols, called):
        self.symbols, self.called = symbols, called

    def visit_Call(self, call):
        call = self.generic_visit(call)
        name = call.op.name if isinstance(call.op, GlobalVar) else None
        return self.called(self.symbols[name], call) if name in self.symbols else call


# ---------------------------------------------------------------- unpacked

def _unpacked(symbol, func, host):
    body = seq(func.body, Evaluate(ret(0)))
    if func.buffer_map:
        for key, value in (("device_type", _device(func)), ("device_id", 0)):
            body = AttrStmt("default", key, const(value), body)
    params = tuple(func.buffer_map[p].data if p in func.buffer_map else p for p in func.params)
    return func.replace(params=params, buffer_map={}, body=body).with_attr(TARGET, Target.get(host))


def _device(func):
    return device_of(Target.get(func.attrs[TARGET]))


def device_of(target):
    """TVM's number of the kind of device that a target is."""
    return _DEVICES.get(target.kind, 1)


def code_of(dtype):
    """TVM's number of the kind of numbers that a dtype is, or of pointers."""
    return BOOL if dtype.is_bool else POINTER if dtype == "handle" else _CODES.get(str(dtype.code), 0)


# ---------------------------------------------------------------- packed

def _packed(symbol, func, host):
    args, codes, count = Var("args", "handle"), Var("arg_type_ids", "handle"), Var("num_args")
    value, code, resource = (Var(name, "handle") for name in ("out_ret_value", "out_ret_tcode", "resource_handle"))
    resource = next((p for p in func.params if p.name == CONTEXT), resource)
    entry = _Entry(symbol, _device(func))
    given = [p for p in func.params if p is not resource]
    entry.check(_equal(count, len(given)), f"{symbol}: num_args should be {len(given)}")
    if given:
        entry.check(_not_null(args), f"{symbol}: TVMValue* arg pointer was NULL")
        entry.check(_not_null(codes), f"{symbol}: int* type_codes was NULL")
    types = decl_buffer((len(func.params),), "int32", "arg_type_ids", data=codes)
    values = [entry.argument(n, p, args, types) for n, p in enumerate(func.params) if p is not resource]
    for p, of in zip(given, values):
        entry.let(p, of)
    for p in given:
        if p in func.buffer_map:
            entry.tensor(p, func.buffer_map[p])
    body = AttrStmt(0, "compute_scope", StringImm(f"{symbol}_compute_"), _Returned(value, code).visit(func.body))
    body = entry.around(seq(body, Evaluate(ret(0))))
    return func.replace(params=(args, codes, count, value, code, resource), buffer_map={}, body=body).with_attr(
        {CALLING: PACKED, TARGET: Target.get(host)})


def _equal(a, b):
    return as_expr(a) == b


def _not_null(pointer):
    return Not(_is_null(pointer))


def _is_null(pointer):
    return Call("bool", "tir.isnullptr", (pointer,))


def _get(dtype, struct, field, index=0):
    return Call(dtype, "tir.tvm_struct_get", (struct, const(index), const(field)))


class _Entry:
    """What stands around the body of a packed function: first what is asserted and set in order, then what may be
    asserted only when all is set."""

    def __init__(self, symbol, device):
        self.symbol, self.device = symbol, device
        self.first, self.then, self.known = [], [], {}  # functions of the statement inside; variable -> its value
        self.device_id = Var("dev_id")

    def check(self, condition, message, then=False):
        (self.then if then else self.first).append(lambda body: AssertStmt(condition, StringImm(message), body))

    def let(self, var, value):
        self.known[var] = var
        self.first.append(lambda body: LetStmt(var, value, body))

    def bind(self, e, value, name):
        """A dimension, stride or offset: a variable not seen before is set, anything else is asserted."""
        if isinstance(e, Var) and e not in self.known:
            self.let(e, value)
        else:
            self.check(_equal(e, value), f"Argument {self.symbol}.{name} has an unsatisfied constraint: {e} == {value}",
                       then=True)

    def argument(self, n, param, args, types):
        """The value of an argument, whose type is checked."""
        kind = "bool" if param.dtype.is_bool else "handle" if param.dtype == "handle" else (
            "float" if param.dtype.is_float else "int")
        word, codes, held = _KINDS[kind]
        code = Var(f"{param.name}.code", "int32")
        self.let(code, BufferLoad(types, (const(n),)))
        allowed = _equal(code, codes[0])
        for other in codes[1:]:
            allowed = logical_or(allowed, _equal(code, other))
        self.check(allowed, f"{self.symbol}: Expect arg[{n}] to be {word}")
        value = _get(held, args, CONTENT, n)
        return value if value.dtype == param.dtype else Cast(param.dtype, value)

    def tensor(self, handle, buffer):
        """A buffer that the tensor behind a handle is."""
        name = f"{self.symbol}.{handle.name}"
        self.check(_not_null(handle), f"{name} is expected to have non-NULL DLTensor* pointer")
        self.check(_equal(len(buffer.shape), _get("int32", handle, NDIM)),
                   f"{name}.ndim is expected to equal {len(buffer.shape)}")
        dtype = buffer.dtype
        fields = ((CODE, "uint8", _CODES.get(str(dtype.code), 0)), (BITS, "uint8", dtype.bits),
                  (LANES, "uint16", dtype.lanes))
        same = [_equal(_get(of, handle, field), const(number, of)) for field, of, number in fields]
        self.check(logical_and(logical_and(*same[:2]), same[2]), f"{name}.dtype is expected to be {dtype}", then=True)
        shape, strides = (Var(f"{name}.{part}", "handle") for part in ("shape", "strides"))
        self.let(shape, _get("handle", handle, SHAPE))
        extents = decl_buffer((len(buffer.shape),), "int64", shape.name, data=shape)
        for k, extent in enumerate(buffer.shape):
            self.bind(extent, cast(extents[k], extent.dtype), f"{handle.name}.shape[{k}]")
        self.let(strides, _get("handle", handle, STRIDES))
        self._strides(name, handle, buffer, decl_buffer((len(buffer.shape),), "int64", strides.name, data=strides))
        each = max(dtype.bits * dtype.lanes // 8, 1)
        offset = _get("uint64", handle, OFFSET)
        if free_vars(buffer.elem_offset):
            self.bind(buffer.elem_offset, Cast(buffer.elem_offset.dtype, offset // const(each, "uint64")),
                      f"{handle.name}.elem_offset")
        else:
            self.bind(const(buffer.elem_offset.value * each, "uint64"), offset, f"{handle.name}.byte_offset")
        self.bind(const(self.device), _get("int32", handle, KIND), f"{handle.name}.device_type")
        self.bind(self.device_id, _get("int32", handle, DEVICE), f"{handle.name}.device_id")
        self.let(buffer.data, _get("handle", handle, DATA))
        empty = _equal(prod(buffer.shape, start=const(1, "int64")), const(0, "int64"))
        self.check(logical_or(empty, _not_null(buffer.data)), f"{name} is expected to have non-NULL data pointer",
                   then=True)
        self.first.append(lambda body: AttrStmt(buffer.data, "storage_alignment", const(buffer.data_alignment), body))

    def _strides(self, name, handle, buffer, given):
        if buffer.strides:
            compact = const(1, "int64")
            for k in reversed(range(len(buffer.strides))):
                stride = buffer.strides[k]
                value = Call("int64", "tir.if_then_else", (_is_null(given.data), compact, given[k]))
                self.bind(stride, cast(value, stride.dtype), f"{handle.name}.strides[{k}]")
                compact = compact * cast(buffer.shape[k], "int64")
            return
        compact, step = as_expr(True), const(1, "int64")
        for k in reversed(range(len(buffer.shape))):
            extent = cast(buffer.shape[k], "int64")
            compact = logical_and(compact, logical_or(_equal(extent, const(1, "int64")), _equal(step, given[k])))
            step = step * extent
        if buffer.shape:
            check = IfThenElse(_not_null(given.data), AssertStmt(
                compact, StringImm(f"{name}.strides: expected to be compact array"), Evaluate(const(0))))
            self.then.append(lambda body: seq(check, body))

    def around(self, body):
        if self.device_id in self.known:
            for key, value in (("device_type", const(self.device)), ("device_id", self.device_id)):
                body = AttrStmt("default", key, value, body)
        for wrap in reversed([*self.first, *self.then]):
            body = wrap(body)
        return body


class _Returned(Mutator):
    """Stores what the function returns, and its type, where the caller wants it."""

    def __init__(self, value, code):
        self.value, self.buffers = value, {}
        self.code = decl_buffer((1,), "int32", code.name, strides=(1,), data=code)

    def visit_For(self, loop):
        if loop.kind == "parallel" and any(c.op == "tir.ret" for c in collect(loop.body, Call)):
            raise ValueError(f"MakePackedAPI: loop {loop.loop_var.name} is parallel and returns a value: no turn of it "
                             "may end the function")
        return self.generic_visit(loop)

    def visit_SeqStmt(self, s):
        return seq(*map(self.visit, s.seq))

    def visit_Evaluate(self, stmt):
        if not (isinstance(stmt.value, Call) and stmt.value.op == "tir.ret"):
            return stmt
        result, = stmt.value.args
        wide, code = ("float64", FLOAT) if result.dtype.is_float else ("int64", BOOL if result.dtype.is_bool else INT)
        if wide not in self.buffers:
            self.buffers[wide] = decl_buffer((1,), wide, self.value.name, strides=(1,), data=self.value)
        return seq(BufferStore(self.buffers[wide], Cast(DataType(wide), result), (const(0),)),
                   BufferStore(self.code, const(code), (const(0),)), Evaluate(ret(0)))


__all__ = ["code_of", "device_of", "make_packed_api", "make_unpacked_api"]
