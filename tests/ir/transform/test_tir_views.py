"""ResolveViews: buffers over the memory of others become accesses to those, interpreted and compiled alike."""
import numpy as np
import pytest
from interp import run

import ingot as tvm
from ingot.ir.module import IRModule
from ingot.ir.node import collect
from ingot.ir.schedule import Schedule
from ingot.ir.tir.buffer import Buffer
from ingot.script import tir as T
from ingot.tir.transform import ResolveViews


@T.prim_func
def flattened(A: T.Buffer((5, 7), "float32"), B: T.Buffer((35,), "float32")):
    A_flat = T.Buffer((35,), "float32", data=A.data)
    B_2d = T.Buffer((7, 5), "float32", data=B.data)
    for i, j in T.grid(7, 5):
        B_2d[i, j] = A_flat[j * 7 + i] + A[4, 6]


@T.prim_func
def allocated(A: T.Buffer((6, 8), "float32"), B: T.Buffer((48,), "float32")):
    tmp = T.allocate([16], "float32", "local")
    rows = T.decl_buffer((2, 8), data=tmp, scope="local")
    for i in range(3):
        for j, k in T.grid(2, 8):
            rows[j, k] = A[i * 2 + j, k] * 2.0
        for j in range(16):
            B[i * 16 + j] = tmp[j]


@T.prim_func
def sliced(a: T.handle, B: T.Buffer((4, 4), "float32")):
    A = T.match_buffer(a, (40,), "float32")
    every_second = T.Buffer((4, 4), "float32", data=A.data, strides=(8, 2), elem_offset=3)
    for i in range(4):
        B[i, 0:4] = every_second[i, 0:4]


@T.prim_func
def with_blocks(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4, 6), "float32")):
    C = T.alloc_buffer((4, 6), "float32")
    C_flat = T.Buffer((24,), "float32", data=C.data)
    for i, j in T.grid(4, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * 3.0
    for i in range(24):
        with T.block("B"):
            vi = T.axis.spatial(24, i)
            B[vi // 6, vi % 6] = C_flat[23 - vi]


PROGRAMS = {"flattened": (flattened, (5, 7), (35,), lambda a: a.T.reshape(-1) + a[4, 6]),
            "allocated": (allocated, (6, 8), (48,), lambda a: a.reshape(-1) * 2),
            "sliced": (sliced, (40,), (4, 4), lambda a: a[3:][np.add.outer(np.arange(4) * 8, np.arange(4) * 2)]),
            "with_blocks": (with_blocks, (4, 6), (4, 6), lambda a: (a * 3).reshape(-1)[::-1].reshape(4, 6))}


@pytest.mark.parametrize("name", PROGRAMS)
def test_views(name):
    func, shape, out, reference = PROGRAMS[name]
    assert func.views()
    resolved = ResolveViews()(IRModule({"main": func}))["main"]
    assert not resolved.views() and len({id(b.data) for b in collect(resolved, Buffer)}) == len(
        {id(b) for b in collect(resolved, Buffer)})
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    for program in (func, resolved):
        y = np.full(out, np.nan, "float32")
        run(program, x, y)
        np.testing.assert_array_equal(y, reference(x))
    y = tvm.nd.array(np.zeros(out, "float32"))
    tvm.build(func, target="c")(tvm.nd.array(x), y)
    tvm.testing.assert_allclose(y, reference(x))


def test_a_handle_gets_the_buffer_over_it():
    @T.prim_func
    def main(p: T.handle, B: T.Buffer((4,), "float32")):
        A = T.Buffer((4,), "float32", data=p)
        for i in range(4):
            B[i] = A[i] + 1.0
    resolved = ResolveViews()(IRModule({"main": main}))["main"]
    assert resolved.buffer_map[resolved.params[0]].name == "A" and not resolved.views()


def test_what_views_cannot_do():
    @T.prim_func
    def reread(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "int32")):
        bits = T.Buffer((4,), "int32", data=A.data)
        for i in range(4):
            B[i] = bits[i]
    with pytest.raises(ValueError, match="buffer bits shows the memory of A, float32, as int32"):
        tvm.build(reread, target="c")
    y = np.zeros(4, "int32")
    run(reread, np.arange(4, dtype="float32"), y)
    np.testing.assert_array_equal(y, np.arange(4, dtype="float32").view("int32"))
    with pytest.raises(ValueError, match="function main has buffers over the memory of others .B_2d, A_flat."):
        Schedule(flattened)
    Schedule(ResolveViews()(IRModule({"main": flattened})))

    @T.prim_func
    def vectors(A: T.Buffer((4, 3), "float32"), B: T.Buffer((4,), "float32")):
        flat = T.Buffer((12,), "float32", data=A.data)
        B[0:4] = flat[1:5]
    with pytest.raises(ValueError, match="vectors of it cannot be told from ones that cross its rows"):
        tvm.build(vectors, target="c")
