"""The program: kernels, the order of their calls, and where every tensor lives. What the templates print."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..ir.expr import const
from ..ir.relax.expr import (Constant, RelaxCall, TensorStructInfo, TupleGetItem, TupleStructInfo)
from ..ir.transform.identities import VIEWS
from . import memory_plan
from .c_types import identifier

WEIGHT_ALIGN = 64


@dataclass(frozen=True)
class TensorDesc:
    """An input or output. name: a C identifier; source_name: the model's; shape: ints, and expressions of symbolic
    dimensions as text in `shape_text` (a dimension's name, mostly)."""

    name: str
    source_name: str
    dtype: str
    shape: tuple       # int or str
    dims: tuple        # PrimExpr


@dataclass(frozen=True)
class Operand:
    """An argument of a kernel call: kind "input", "output", "weight", "arena" with a number, or "dim" with a name."""

    kind: str
    index: int
    name: str = ""


@dataclass(frozen=True)
class KernelCall:
    """One call. kernel: a function name of the module; comment: what it computes, for the reader."""

    kernel: str
    operands: tuple
    dims: tuple
    comment: str


@dataclass(frozen=True)
class Weight:
    name: str
    data: np.ndarray
    offset: int


@dataclass(frozen=True)
class Program:
    """name; inputs, outputs: TensorDescs; dims: symbolic dimensions; calls; weights; plan: a MemoryPlan whose buffer i is
    what Operand("arena", i) means, of element type buffer_dtypes[i]."""

    name: str
    inputs: tuple
    outputs: tuple
    dims: tuple
    calls: tuple
    weights: tuple
    plan: memory_plan.MemoryPlan
    buffer_dtypes: tuple

    @property
    def weights_bytes(self):
        return self.weights[-1].offset + _padded(self.weights[-1].data.nbytes) if self.weights else 0

    def weights_blob(self):
        """All weights as one bytes object, each at its offset, little-endian."""
        blob = bytearray(self.weights_bytes)
        for w in self.weights:
            raw = np.ascontiguousarray(w.data, dtype=w.data.dtype.newbyteorder("<"))
            blob[w.offset:w.offset + w.data.nbytes] = raw.tobytes()
        return bytes(blob)


def _padded(size):
    return -(-size // WEIGHT_ALIGN) * WEIGHT_ALIGN


def build_program(mod, name):
    """The Program of a lowered module ("main" of call_tir and views)."""
    return _Builder(mod, name).build()


class _Builder:
    def __init__(self, mod, name):
        self.mod, self.main, self.name = mod, mod["main"], name
        self.dims = tuple(mod.attrs.get("dims", ()))
        self.where = {}       # id(value) -> Operand, or a tuple of them
        self.weights, self.weight_index, self.weight_end = [], {}, 0
        self.sizes, self.names, self.dtypes, self.first, self.last = [], [], [], [], []

    def build(self):
        inputs = self._describe(self.main.params, self.main.attrs.get("input_names"), "input")
        outputs = self._describe(self.main.outputs, self.main.attrs.get("output_names"), "output",
                                 {d.name for d in inputs})
        for n, p in enumerate(self.main.params):
            self.where[id(p)] = Operand("input", n, inputs[n].name)
        roots = self._output_roots(outputs)
        calls = []
        for b in self.main.bindings:
            if isinstance(b.value, RelaxCall) and b.value.op == "call_tir":
                calls.append(self._call(b, roots, len(calls)))
            else:
                self.where[id(b.var)] = self._alias(b.value)
        buffers = [memory_plan.Buffer(n, s, f, e)
                   for n, s, f, e in zip(self.names, self.sizes, self.first, self.last)]
        return Program(self.name, inputs, outputs, self.dims, tuple(calls), tuple(self.weights),
                       memory_plan.plan_memory(buffers), tuple(self.dtypes))

    def _describe(self, values, source_names, fallback, taken=()):
        used, found = set(taken) | {"net", "arena", "weights"} | {d.name for d in self.dims}, []
        for n, v in enumerate(values):
            source = source_names[n] if source_names else getattr(v, "name", f"{fallback}_{n}")
            base = unique = identifier(source, fallback)
            k = 0
            while unique in used:
                k += 1
                unique = f"{base}_{k}"
            used.add(unique)
            info = v.struct_info
            shape = tuple(d.value if hasattr(d, "value") else str(d) for d in info.shape)
            found.append(TensorDesc(unique, source, info.dtype, shape, info.shape))
        return tuple(found)

    def _output_roots(self, outputs):
        """{id(variable that owns the memory): Operand of the output}."""
        definition = {id(b.var): b.value for b in self.main.bindings}
        roots = {}
        for n, out in enumerate(self.main.outputs):
            root, value = out, definition.get(id(out))
            while isinstance(value, RelaxCall) and value.op in VIEWS:
                root, value = value.args[0], definition.get(id(value.args[0]))
            key = (id(value.tuple_value), value.index) if isinstance(value, TupleGetItem) else id(root)
            roots[key] = Operand("output", n, outputs[n].name)
        return roots

    def _alias(self, value):
        if isinstance(value, TupleGetItem):
            return self.where[id(value.tuple_value)][value.index]
        if isinstance(value, RelaxCall) and value.op in VIEWS:
            return self._operand(value.args[0])
        return self._operand(value)

    def _operand(self, value):
        if isinstance(value, Constant):
            return self._weight(value)
        return self._alias(value) if isinstance(value, TupleGetItem) else self.where[id(value)]

    def _weight(self, constant):
        key = id(constant.data)
        if key not in self.weight_index:
            name = identifier(constant.name or "const", "w")
            self.weight_index[key] = Operand("weight", len(self.weights), name)
            self.weights.append(Weight(name, constant.data, self.weight_end))
            self.weight_end += _padded(constant.data.nbytes)
        return self.weight_index[key]

    def _call(self, binding, roots, time):
        call = binding.value
        func = self.mod[call.attrs["gv"]]
        operands = [self._use(self._operand(a), time) for a in call.args]
        several = isinstance(call.struct_info, TupleStructInfo)
        infos = call.struct_info.fields if several else (call.struct_info,)
        results = []
        for n, info in enumerate(infos):
            key = (id(binding.var), n) if several else id(binding.var)
            results.append(roots.get(key) or self._allocate(binding.var.name, _bytes(info), info.dtype, time))
        self.where[id(binding.var)] = tuple(results) if several else results[0]
        work = [self._allocate(b.name, _size(b), b.dtype, time) for b in _workspace(func)]
        comment = f"{binding.var.name}: {', '.join(_shape_text(i) for i in infos)}"
        return KernelCall(call.attrs["gv"].name, (*operands, *results, *work), tuple(call.attrs["sym_args"]), comment)

    def _allocate(self, name, size, dtype, time):
        self.names.append(identifier(name))
        self.dtypes.append(dtype)
        self.sizes.append(size)
        self.first.append(time)
        self.last.append(time)
        return Operand("arena", len(self.names) - 1, self.names[-1])

    def _use(self, operand, time):
        if operand.kind == "arena":
            self.last[operand.index] = time
        return operand


def _workspace(func):
    count = func.attrs.get("num_workspace", 0)
    buffers = func.buffers
    return buffers[len(buffers) - count:] if count else []


def _bytes(info: TensorStructInfo):
    size = const(info.dtype.bytes, "int64")
    for extent in info.shape:
        size = size * extent
    return size


def _size(buffer):
    return const(buffer.dtype.bytes, "int64") * buffer.shape[0]


def _shape_text(info):
    return "[" + ", ".join(str(s.value) if hasattr(s, "value") else str(s) for s in info.shape) + "]"


