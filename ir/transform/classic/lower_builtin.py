"""LowerTVMBuiltin: calls of packed functions as hosts make them, from arrays on the stack that hold arguments, and
memory of devices from the runtime."""
from __future__ import annotations

from ...dtype import DataType
from ...expr import Call, Cast, StringImm, Var, cast, const, is_const_int
from ...node import Mutator
from ...target import Target
from ...tir.buffer import decl_buffer
from ...tir.intrin import address_of
from ...tir.runtime_ops import BUILDERS
from ...tir.stmt import (AttrStmt, BufferLoad, BufferStore, Evaluate, IfThenElse, LetStmt, Stmt, While, seq)
from .contexts import is_host
from .host_api import (BITS, CODE, CONTENT, DATA, DEVICE, KIND, LANES, NDIM, NULL, OFFSET, POINTER, SHAPE, STRIDES,
                       TARGET, TENSOR, code_of, device_of)

ADDRESS, STRING = 0, 11  # TVM's numbers of the field that is a tensor itself, and of the type of strings
CPU, STACK_BYTES, ALIGN = 1, 1024, 64  # of allocations that stay on the stack, and of those from the runtime
_CALLS = {"tir.tvm_call_packed": "tvm_call_packed_lowered", "tir.tvm_call_cpacked": "tvm_call_cpacked_lowered"}
_DMA = {f"tir.{name}": f"{name}" for name in ("dma_copy", "dma_wait", "dma_start_group", "dma_end_group")}
_NAMES = {1: "cpu", 2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 14: "hexagon"}  # of devices


def lower_tvm_builtin(func):
    """Ensures, in functions of hosts, that packed functions are called with arrays of values and types that
    tvm_stack_alloca gives, around the body or that of each parallel loop, and statements before a call fill; that
    allocations for devices, and those for CPUs of 1024 bytes or more, are TVMBackendAllocWorkspace and ...Free; and that
    `dma_...` are packed functions of the device.

    Raises ValueError where a device is not known that an allocation, a tensor or a copy asks for, and for packed
    functions in the condition of a while loop."""
    if not is_host(func):
        return func
    target = func.attrs.get(TARGET)
    device = None if target is None else const(device_of(Target.get(target)))
    return func.replace(body=_Lower(func, device).root(func.body))


class _Stack:
    """The arrays that one body's calls use, and how much of them a statement does so far."""

    def __init__(self):
        self.values, self.arrays = Var("stack_value", "handle"), Var("stack_array", "handle")
        self.types, self.shape = Var("stack_tcode", "handle"), Var("stack_shape", "handle")
        self.codes, self.extents = (decl_buffer((1,), dtype, var.name, data=var) for dtype, var in (
            ("int32", self.types), ("int64", self.shape)))
        self.most, self.used = {}, {}

    def take(self, what, count):
        """The first of `count` more places in one of the arrays."""
        first = self.used.get(what, 0)
        self.used[what] = first + count
        self.most[what] = max(self.most.get(what, 0), first + count)
        return first

    def around(self, body):
        """The body within the arrays that it uses."""
        for what, var in (("shape", self.shape), ("array", self.arrays), ("arg_value", self.values),
                          ("arg_tcode", self.types)):
            if what in self.most:
                body = LetStmt(var, BUILDERS["tvm_stack_alloca"](StringImm(what), const(self.most[what])), body)
        return body


class _Lower(Mutator):
    def __init__(self, func, device):
        self.func, self.device, self.device_id = func, device, None
        self.stack, self.before = None, None  # and the statements that go before the one at hand

    def fail(self, what):
        raise ValueError(f"LowerTVMBuiltin: {self.func.title}: {what}")

    def root(self, body):
        around, self.stack = self.stack, _Stack()
        body = self.visit(body)
        body, self.stack = self.stack.around(body), around
        return body

    def visit(self, value):
        if not isinstance(value, Stmt):
            return super().visit(value)
        around, self.before = self.before, []
        used, self.stack.used = self.stack.used, {}
        stmt = super().visit(value)
        stmt, self.before = seq(*self.before, stmt) if self.before else stmt, around
        self.stack.used = used
        return stmt

    def known(self, what):
        """The number of the device, which `what` asks for."""
        if self.device is None:
            self.fail(f"{what} asks for the device, of which neither an attribute device_type nor a target tells")
        return cast(self.device, "int32")

    # ------------------------------------------------------------ statements

    def visit_AttrStmt(self, stmt):
        field = {"device_type": "device", "device_id": "device_id"}.get(stmt.attr_key)
        if field is None:
            return self.generic_visit(stmt)
        around = getattr(self, field)
        setattr(self, field, stmt.value)
        body = self.visit(stmt.body)
        setattr(self, field, around)
        return body

    def visit_For(self, loop):
        loop = loop.replace(min=self.visit(loop.min), extent=self.visit(loop.extent))
        return loop.replace(body=(self.root if loop.kind == "parallel" else self.visit)(loop.body))

    def visit_While(self, loop):
        condition = self.visit(loop.condition)
        if self.before:
            self.fail("a packed function is called in the condition of a while loop: call it in the loop")
        return While(condition, self.visit(loop.body))

    def visit_DeclBuffer(self, decl):
        decl, buffer = decl.replace(body=self.visit(decl.body)), decl.buffer
        each = (buffer.dtype.bits * buffer.dtype.lanes + 7) // 8
        count = const(1, "uint64")
        for extent in buffer.shape:
            count = count * cast(extent, "uint64")
        if self.device is not None and is_const_int(self.device, CPU) and buffer.scope == "global" and is_const_int(
                count) and count.value * each < STACK_BYTES:
            return decl
        where = self.known(f"buffer {buffer.name}"), cast(self.identifier(f"buffer {buffer.name}"), "int32")
        fails = Evaluate(Call("int32", "tir.tvm_throw_last_error", ()))
        dtype = const(code_of(buffer.dtype)), const(buffer.dtype.bits)
        memory = BUILDERS["TVMBackendAllocWorkspace"](*where, const(each, "uint64") * count, *dtype)
        free = BUILDERS["TVMBackendFreeWorkspace"](*where, buffer.data)
        body = seq(IfThenElse(BUILDERS["isnullptr"](buffer.data), fails), decl.body,
                   IfThenElse(free != const(0), fails))
        return LetStmt(buffer.data, memory, AttrStmt(buffer.data, "storage_alignment", const(ALIGN), body))

    def identifier(self, what):
        if self.device_id is None:
            self.fail(f"{what} asks for the device's number, of which no attribute device_id says anything")
        return self.device_id

    # ------------------------------------------------------------ calls

    def visit_Call(self, call):
        if call.op in _CALLS:
            return self.packed(call)
        if call.op == "tir.tvm_stack_make_shape":
            return self.made_shape(call)
        if call.op == "tir.tvm_stack_make_array":
            return self.made_array(call)
        if call.op == "tir.tvm_context_id":
            return const(0, call.dtype)
        if call.op in _DMA:
            if not is_const_int(self.known(call.op)):
                self.fail(f"{call.op} asks for a device that is a number, not {self.device}")
            device = _NAMES.get(self.device.value, f"unknown type {self.device.value}")
            name = StringImm(f"device_api.{device}.{_DMA[call.op]}")
            return self.packed(Call("int32", "tir.tvm_call_packed", (name, *call.args)))
        return self.generic_visit(call)

    def packed(self, call):
        """The call with its arguments on the stack. Each call of a statement has places of its own."""
        by_name = call.op == "tir.tvm_call_packed"
        name, *args = call.args
        args, rest = (args, ()) if by_name else (args[:-1], args[-1:])
        first = self.stack.take("arg_value", len(args) + 1)
        self.stack.take("arg_tcode", len(args) + 1)
        for n, arg in enumerate(self.visit(tuple(args))):
            self.put(arg, first + n)
        rest = tuple(StringImm(r.name) if isinstance(r, Var) else r for r in self.visit(tuple(rest)))
        return Call(call.dtype, f"tir.{_CALLS[call.op]}", (
            name, self.stack.values, self.stack.types, const(first), const(first + len(args)), *rest))

    def put(self, arg, place):
        """Store an argument and its type."""
        wide = _as_passed(arg.dtype)
        value = arg if arg.dtype == wide else Cast(wide, arg)
        self.set(self.stack.values, place, CONTENT, value)
        code = STRING if isinstance(arg, StringImm) else TENSOR if _is_tensor(arg) else code_of(wide)
        stores = [BufferStore(self.stack.codes, const(c), (const(place),)) for c in (NULL, code)]
        self.before.append(IfThenElse(BUILDERS["isnullptr"](arg), *stores) if code == POINTER else stores[1])

    def set(self, struct, place, field, value):
        self.before.append(Evaluate(BUILDERS["tvm_struct_set"](struct, const(place), const(field), value)))

    def made_shape(self, call):
        first = self.stack.take("shape", len(call.args))
        for n, extent in enumerate(self.visit(call.args)):
            self.before.append(BufferStore(self.stack.extents, cast(extent, "int64"), (const(first + n),)))
        return address_of(BufferLoad(self.stack.extents, (const(first),)))

    def made_array(self, call):
        place = self.stack.take("array", 1)
        data, shape, strides, ndim, kind, offset = self.visit(call.args)
        dtype, null = kind.dtype, const(0, "handle")
        size = (dtype.bits * dtype.lanes + 7) // 8
        fields = ((DATA, data), (SHAPE, shape), (STRIDES, null if is_const_int(strides, 0) else strides), (NDIM, ndim),
                  (CODE, const(code_of(dtype), "uint8")), (BITS, const(dtype.bits, "uint8")),
                  (LANES, const(dtype.lanes, "uint16")),
                  (OFFSET, cast(offset if is_const_int(offset, 0) else offset * const(size, offset.dtype), "uint64")),
                  (DEVICE, cast(self.identifier("a tensor"), "int32")), (KIND, self.known("a tensor")))
        for field, value in fields:
            self.set(self.stack.arrays, place, field, value)
        return BUILDERS["tvm_struct_get"](self.stack.arrays, const(place), const(ADDRESS), dtype="handle")


def _as_passed(dtype):
    """The dtype that a number has as an argument."""
    if dtype == "handle" or dtype.is_bool:
        return dtype
    return DataType("float64" if dtype.is_float else "int64")


def _is_tensor(arg):
    return isinstance(arg, Call) and arg.op == "tir.tvm_struct_get" and is_const_int(arg.args[2], ADDRESS)


__all__ = ["lower_tvm_builtin"]
