"""Stages: each method by the loops it leaves and by the numbers, at sizes that do not divide."""
import numpy as np
import pytest
from te_check import block, block_names, check, elementwise, loops_of, matmul, product, row_sums, twice_plus_two

import ingot as tvm
from ingot import te


def scheduled(how, program=elementwise):
    """(schedule, args) after how(schedule, *tensors)."""
    tensors = program()
    s = te.create_schedule(tensors[-1].op)
    how(s, *tensors)
    args = [t for t in tensors if isinstance(t.op, te.PlaceholderOp)] + [tensors[-1]]
    return s, args


def split_factor(s, a, b, c):
    s[c].split(c.op.axis[0], factor=8)


def split_nparts(s, a, b, c):
    s[c].split(c.op.axis[1], nparts=4)


def tile(s, a, b, c):
    s[c].tile(*c.op.axis, 16, 8)


def fuse(s, a, b, c):
    s[c].fuse(*c.op.axis)


def fuse_and_split(s, a, b, c):
    s[c].split(s[c].fuse(*c.op.axis), factor=64)


def reorder(s, a, b, c):
    s[c].reorder(*reversed(c.op.axis))


def parallel(s, a, b, c):
    s[c].parallel(c.op.axis[0])


def vectorize(s, a, b, c):
    s[c].vectorize(s[c].split(c.op.axis[1], factor=8)[1])


def unroll(s, a, b, c):
    s[c].unroll(s[c].split(c.op.axis[1], nparts=3)[0])


def bind(s, a, b, c):
    s[c].bind(c.op.axis[0], te.thread_axis("blockIdx.x"))
    s[c].bind(c.op.axis[1], te.thread_axis((0, 45), "threadIdx.x"))


def compute_at(s, a, b, c):
    outer, _ = s[c].split(c.op.axis[0], factor=8)
    s[b].compute_at(s[c], outer)


def compute_at_before_splits(s, a, b, c):
    """Axes given before and after compute_at, of parent and child: all are carried out."""
    outer, inner = s[c].split(c.op.axis[0], factor=8)
    s[b].compute_at(s[c], outer)
    s[b].split(b.op.axis[1], factor=16)
    s[c].split(c.op.axis[1], factor=4)
    s[b].parallel(b.op.axis[0])


def compute_root(s, a, b, c):
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].compute_root()


STRUCTURES = [
    (split_factor, "C", ["5", "8", "45"]), (split_nparts, "C", ["37", "4", "12"]), (tile, "C", ["3", "6", "16", "8"]),
    (fuse, "C", ["1665"]), (fuse_and_split, "C", ["27", "64"]), (reorder, "C", ["45", "37"]),
    (parallel, "C", ["37 parallel", "45"]), (vectorize, "C", ["37", "6", "8 vectorized"]),
    (unroll, "C", ["37", "3 unrolled", "15"]), (bind, "C", ["37 thread_binding", "45 thread_binding"]),
    (compute_at, "B", ["5", "8", "45"]), (compute_at_before_splits, "B", ["5", "8 parallel", "3", "16"]),
    (compute_at_before_splits, "C", ["5", "8", "12", "4"]), (compute_root, "B", ["37", "45"])]


@pytest.mark.parametrize("how, name, loops", STRUCTURES, ids=lambda v: getattr(v, "__name__", None))
def test_loops_and_numbers(how, name, loops):
    s, args = scheduled(how)
    assert loops_of(check(s, args, twice_plus_two), name) == loops


def test_compute_inline():
    s, args = scheduled(lambda s, a, b, c: s[b].compute_inline())
    func = check(s, args, twice_plus_two)
    assert block_names(func) == ["C"] and not func.root.alloc_buffers


def test_several_inlined_stages_in_a_row():
    a, b, c = elementwise()
    d = te.compute((37, 45), lambda i, j: c[i, j] - b[i, j], name="D")
    s = te.create_schedule(d.op)
    s[b].compute_inline()
    s[c].compute_inline()
    assert block_names(check(s, [a, d], lambda x: (x + 1) * 2 - (x + 1))) == ["D"]


def test_padding_is_inlined_into_a_convolution():
    data, weight = te.placeholder((3, 10, 11), name="data"), te.placeholder((5, 3, 3, 3), name="weight")
    padded = te.compute((3, 12, 13), lambda c, y, x: te.if_then_else(
        te.all(y >= 1, y < 11, x >= 1, x < 12), data[c, y - 1, x - 1], 0.0), name="padded")
    rc, ry, rx = (te.reduce_axis((0, 3), name=n) for n in ("rc", "ry", "rx"))
    conv = te.compute((5, 10, 11), lambda c, y, x: te.sum(
        padded[rc, y + ry, x + rx] * weight[c, rc, ry, rx], axis=[rc, ry, rx]), name="conv")
    s = te.create_schedule(conv.op)
    s[padded].compute_inline()
    c, y, x = conv.op.axis
    xo, xi = s[conv].split(x, factor=4)
    s[conv].reorder(c, y, xo, rc, ry, rx, xi)
    s[conv].vectorize(xi)

    def reference(d, w):
        d = np.pad(d, ((0, 0), (1, 1), (1, 1)))
        return sum(np.einsum("cyx,oc->oyx", d[:, i:i + 10, j:j + 11], w[:, :, i, j])
                   for i in range(3) for j in range(3))

    func = check(s, [data, weight, conv], reference, 1e-4)
    assert block_names(func) == ["conv"]


def test_a_stage_attached_under_a_reduction():
    """The cache of A is filled for each part of the reduction."""
    a, b, c = matmul(13, 22, 21)
    s = te.create_schedule(c.op)
    cached = s.cache_read(a, "local", [c])
    k, = c.op.reduce_axis
    ko, ki = s[c].split(k, factor=8)
    s[c].reorder(c.op.axis[0], ko, c.op.axis[1], ki)
    s[cached].compute_at(s[c], ko)
    func = check(s, [a, b, c], product)
    assert loops_of(func, "A.local") == ["13", "3", "1", "8"]


def test_a_chain_of_attached_stages():
    a, b, c = elementwise()
    d = te.compute((37, 45), lambda i, j: c[i, j] * c[i, j], name="D")
    s = te.create_schedule(d.op)
    outer, _ = s[d].split(d.op.axis[0], factor=16)
    s[b].compute_at(s[c], c.op.axis[0])
    s[c].compute_at(s[d], outer)
    func = check(s, [a, d], lambda x: (2 * (x + 1)) ** 2)
    assert loops_of(func, "B") == ["3", "16", "1", "45"] and loops_of(func, "C") == ["3", "16", "45"]


def test_pragma():
    s, args = scheduled(lambda s, a, b, c: (
        s[c].pragma(c.op.axis[0], "auto_unroll_max_step", 16), s[c].pragma(c.op.axis[0], "unroll_explicit"),
        s[c].pragma(c.op.axis[1], "import_c", "int x;")))
    text = check(s, args, twice_plus_two).script()
    assert '"pragma_auto_unroll_max_step": 16' in text and '"pragma_import_c": "int x;"' in text
    assert '"pragma_unroll_explicit"' in text


def test_set_scope():
    s, args = scheduled(lambda s, a, b, c: s[b].set_scope("local"))
    assert [b.scope for b in check(s, args, twice_plus_two).root.alloc_buffers] == ["local"]


def test_storage_align():
    s, args = scheduled(lambda s, a, b, c: s[b].storage_align(b.op.axis[0], 32, 8))
    found = block(check(s, args, twice_plus_two), "B").annotations["buffer_dim_align"]
    assert [[int(x) for x in row] for row in found] == [[0, 0, 32, 8]]


def test_several_outputs_of_a_schedule():
    a, b, c = elementwise()
    s = te.create_schedule([b.op, c.op])
    assert s.outputs == [b.op, c.op]
    s[b].split(b.op.axis[0], factor=8)
    check(s, [a, b, c], lambda x: (x + 1, (x + 1) * 2))


def test_several_outputs_that_are_no_reduction_are_computed_at_a_loop():
    a = te.placeholder((7, 6), name="A")
    p, q = te.compute((7, 6), lambda i, j: (a[i, j] + 1.0, a[i, j] * 2.0), name="P")
    c = te.compute((7, 6), lambda i, j: p[i, j] + q[i, 5 - j], name="C")
    s = te.create_schedule(c.op)
    s[p].compute_at(s[c], c.op.axis[0])
    s[q].split(q.op.axis[1], factor=4)
    func = check(s, [a, c], lambda x: x + 1 + x[:, ::-1] * 2)
    assert loops_of(func, "P") == ["7", "1", "2", "4"]


def test_stages_are_listed_and_found():
    a, b, c = elementwise()
    s = te.create_schedule(c.op)
    assert [stage.op.name for stage in s.stages] == ["A", "B", "C"] and s.normalize() is s
    assert s[b] is s[b.op] and s.stage_map[b.op] is s[b] and s[c].is_output and not s[b].is_output
    outer, inner = s[c].split(c.op.axis[0], factor=8)
    assert s[c].leaf_iter_vars == [outer, inner, c.op.axis[1]]
    assert s[c].all_iter_vars == [*c.op.axis, outer, inner]
    assert (outer.var.name, inner.var.name) == ("i.outer", "i.inner")
    assert (int(outer.dom.extent), int(inner.dom.extent)) == (5, 8)


def test_symbolic_shapes():
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], factor=4)
    s[b].parallel(outer)
    text = s.to_prim_func([n, a, b], "double").script()
    assert "def double(n: T.int32" in text and "T.parallel((n + 3) // 4)" in text
    assert "T.where(i_0 * 4 + i_1 < n)" in text


def test_reduction_over_two_axes():
    a = te.placeholder((7, 13, 11), name="A")
    ki, kj = te.reduce_axis((0, 13), name="ki"), te.reduce_axis((0, 11), name="kj")
    b = te.compute((7,), lambda i: te.sum(a[i, ki, kj], axis=[ki, kj]), name="B")
    s = te.create_schedule(b.op)
    ko, kk = s[b].split(ki, factor=4)
    fused = s[b].fuse(kk, kj)
    s[b].reorder(ko, fused, b.op.axis[0])
    assert loops_of(check(s, [a, b], lambda x: x.sum((1, 2)), 1e-4), "B") == ["4", "44", "7"]


def test_the_function_is_named():
    a, b = row_sums()
    func = te.create_schedule(b.op).to_prim_func([a, b], name="rows")
    assert func.attrs["global_symbol"] == "rows" and "def rows(" in func.script()


def test_a_reduction_starts_before_its_outermost_loop():
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    y, x = s[c].op.axis
    k, = s[c].op.reduce_axis
    ko, ki = s[c].split(k, factor=4)
    s[c].reorder(ko, y, ki, x)
    s[c].vectorize(x)
    func = check(s, [a, b, c], product)
    assert loops_of(func, "C_init") == ["13", "22 vectorized"]
    assert loops_of(func, "C") == ["3", "13", "4", "22 vectorized"]


def test_prefetch_asks_a_line_at_a_time():
    """For what is read some turns later, once for each way to read it."""
    a = te.placeholder((8, 40), name="a")
    b = te.compute((8, 40), lambda i, j: a[i, j] + a[i, 39 - j], name="b")
    s = te.create_schedule(b.op)
    s[b].prefetch(a, b.op.axis[0], 2)
    text = str(tvm.lower(s, [a, b], simple_mode=True))
    assert text.count(f"), {2 * 40 * 4})") == 2 and "for j in range(3):" in text and "a[i * 40 + j * 16]" in text
    check(s, [a, b], lambda x: x + x[:, ::-1])
