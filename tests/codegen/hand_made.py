"""Programs that no frontend makes yet: trees made by hand, of the kernels of a small network."""
from dataclasses import replace

import numpy as np

from ingot.codegen.compile import Options, compile_module
from ingot.codegen.lives import place_buffers
from ingot.codegen.memory_plan import Buffer
from ingot.codegen.program import Program, TensorDesc
from ingot.codegen.tree import Call, Copy, If, Let, Operand, Read, Seq, While
from ingot.ir.dtype import DataType
from ingot.ir.expr import EQ, Var, const
from ingot.ir.relax import RelaxVar, TensorStructInfo, call_op
from ingot.ir.relax.block_builder import BlockBuilder

I, N, M = (Var(name, "int64") for name in "inm")


def number(value):
    return const(value, "int64")


def tensor(name, dtype, *shape):
    dims = tuple(number(d) if isinstance(d, int) else d for d in shape)
    return TensorDesc(name, name, DataType(dtype), tuple(d if isinstance(d, int) else str(d) for d in shape), dims)


def operand(kind, index=0, name="", offset=0):
    return Operand(kind, index, name or f"{kind}{index}", number(offset) if isinstance(offset, int) else offset)


def arena(index, offset=0):
    return operand("arena", index, f"b{index}", offset)


def add(a, b, out):
    return Call("add", (a, b, out), reads=2, comment="a + b")


def multiply(a, b, out):
    return Call("multiply", (a, b, out), reads=2, comment="a * b")


def seq(*items):
    return Seq(items)


def kernels(size, **options):
    """A CompiledModel of x + y and x * y, of `size` elements each."""
    x, y = (RelaxVar(name, TensorStructInfo((size,), "float32")) for name in "xy")
    bb = BlockBuilder()
    with bb.function("main", [x, y]):
        bb.emit_func_output([bb.emit(call_op("add", x, y)), bb.emit(call_op("multiply", x, y))])
    return compile_module(bb.get(), Options.check(**{"target": "c", "threads": "none", "name": "tree", "opt_level": 0,
                                                     **options}))


def program(run, inputs, outputs, buffers=(), init=Seq(), dims=(), weights=()):
    """A Program of trees; buffers: (bytes, dtype, memory ...) of each."""
    made = [Buffer(f"b{n}", number(b) if isinstance(b, int) else b, memory=(*rest, "global")[0])
            for n, (b, _, *rest) in enumerate(buffers)]
    return Program("tree", tuple(inputs), tuple(outputs), tuple(dims), init, run, tuple(weights),
                   place_buffers(made, run, init), tuple(DataType(b[1]) for b in buffers))


def model(size, made, **options):
    """A CompiledModel of such a program with the kernels of x + y and x * y."""
    shapes = [[d if isinstance(d, int) else 1 for d in t.shape] for t in made.inputs]
    arrays = tuple(np.zeros(s, t.dtype.numpy) for s, t in zip(shapes, made.inputs))
    return replace(kernels(size, **options), program=made, test_inputs=arrays, test_outputs=(), test_dims=(),
                   no_reference="it was made by hand")


def stepwise():
    """y = x; n times: y + y where the number of the time is even, else y * x. z: as many of y as n says, at most 4.

    n is read from an input; the run reports it. Buffers: 0 the value, 1 what the branches make of it, 2 a part of
    one."""
    y, made, x = arena(0), arena(1), operand("input", 0, "x")
    again = seq(If(EQ(I % 2, number(0)), seq(add(y, y, made)), seq(multiply(y, x, arena(2)), Copy(
        arena(2), made, number(16)))), Copy(made, y, number(16)), Let(I, I + 1))
    run = seq(Let(N, Read(operand("input", 1, "steps")), number(4)), Copy(x, y, number(16)), Let(I, number(0)),
              While(I < N, again), Copy(y, operand("output", 0, "y"), number(16)),
              Copy(y, operand("output", 1, "z"), N * 4))
    return program(run, [tensor("x", "float32", 4), tensor("steps", "int32", 1)],
                   [tensor("y", "float32", 4), tensor("z", "float32", N)], [(16, "float32")] * 3)


def expected(x, n):
    y = x
    for time in range(n):
        y = y * x if time % 2 else y + y
    return y
