"""cache_read, cache_write and rfactor of te schedules: what they make of the stages, and the numbers."""
import numpy as np
from te_check import (argmax, argmax_reference, block, block_names, check, elementwise, loops_of, matmul, product,
                      row_sums, twice_plus_two)

from ingot import te


def scopes(func):
    return {b.name: b.scope for b in func.root.alloc_buffers}


def test_cache_read():
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    cached = s.cache_read(a, "shared", [c])
    assert [stage.op.name for stage in s.stages] == ["A", "A.shared", "B", "C"] and cached.shape == a.shape
    func = check(s, [a, b, c], product)
    assert block_names(func) == ["A.shared", "C"] and scopes(func) == {"A.shared": "shared"}
    assert {r.buffer.name for r in block(func, "C").reads} == {"A.shared", "B", "C"}


def test_cache_of_a_cache():
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    shared = s.cache_read(a, "shared", [c])
    local = s.cache_read(shared, "local", [c])
    s[local].compute_at(s[c], c.op.axis[0])
    func = check(s, [a, b, c], product)
    assert block_names(func) == ["A.shared", "A.shared.local", "C"]
    assert {r.buffer.name for r in block(func, "C").reads} == {"A.shared.local", "B", "C"}


def test_only_the_readers_named_read_the_cache():
    a, b, c = elementwise()
    d = te.compute(c.shape, lambda i, j: c[i, j] - b[i, j], name="D")
    s = te.create_schedule(d.op)
    s.cache_read(b, "local", d)
    func = check(s, [a, d], lambda x: (x + 1) * 2 - (x + 1))
    assert [r.buffer.name for r in block(func, "C").reads] == ["B"]
    assert {r.buffer.name for r in block(func, "D").reads} == {"C", "B.local"}


def test_cache_write_moves_the_reduction():
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    cached = s.cache_write(c, "local")
    assert s[c].op is not c.op and s[c].op.axis == c.op.axis and not s[c].op.reduce_axis
    assert s[cached].op.reduce_axis == c.op.reduce_axis
    xo, yo, xi, yi = s[c].tile(*c.op.axis, 4, 8)
    s[cached].compute_at(s[c], yo)
    ko, ki = s[cached].split(s[cached].op.reduce_axis[0], factor=4)
    s[cached].reorder(ko, s[cached].op.axis[0], ki, s[cached].op.axis[1])
    s[cached].vectorize(s[cached].op.axis[1])
    func = check(s, [a, b, c], product)
    assert loops_of(func, "C.local") == ["4", "3", "3", "4", "4", "8 vectorized"]
    assert scopes(func) == {"C.local": "local"}


def test_caches_on_both_sides():
    """The reads of what was cached move with the reduction."""
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    early = s.cache_read(a, "shared", [c])
    cached = s.cache_write(c, "local")
    late = s.cache_read(b, "shared", [cached])
    s[cached].compute_at(s[c], c.op.axis[0])
    s[early].compute_at(s[cached], s[cached].op.axis[0])
    func = check(s, [a, b, c], product)
    assert {r.buffer.name for r in block(func, "C.local").reads} == {"A.shared", "B.shared", "C.local"}
    assert [r.buffer.name for r in block(func, "C").reads] == ["C.local"] and late.name == "B.shared"


def test_a_stage_written_through_two_caches():
    a, b, c = elementwise()
    s = te.create_schedule(c.op)
    local = s.cache_write(c, "local")
    shared = s.cache_write(c, "shared")
    assert block_names(check(s, [a, c], twice_plus_two)) == ["B", "C.local", "C.shared", "C"]
    assert s[shared].op.input_tensors[0].op is local.op


def test_cache_write_of_all_outputs():
    index, value, first, second = argmax()
    s = te.create_schedule(first.op)
    local = s.cache_write([first, second], "local")
    func = check(s, [index, value, first, second], argmax_reference)
    assert len(local) == 2 and block_names(func) == ["T.local", "T.v0", "T.v1"]


def test_rfactor_of_the_inner_part():
    a, b = row_sums(37, 45)
    s = te.create_schedule(b.op)
    ko, ki = s[b].split(b.op.reduce_axis[0], factor=16)
    partial = s.rfactor(b, ki)
    assert [int(e) for e in partial.shape] == [16, 37] and s[partial].op.reduce_axis == (ko,)
    assert [int(iv.dom.extent) for iv in s[b].op.reduce_axis] == [16]
    s[partial].vectorize(s[partial].split(s[partial].op.axis[0], factor=8)[1])
    func = check(s, [a, b], lambda x: x.sum(1), 1e-4)
    assert block_names(func) == ["B.rf", "B"]
    assert loops_of(func, "B.rf") == ["2", "8 vectorized", "37", "3"] and loops_of(func, "B") == ["37", "16"]


def test_rfactor_of_the_outer_part_at_the_end():
    a, b = row_sums(37, 45)
    s = te.create_schedule(b.op)
    ko, ki = s[b].split(b.op.reduce_axis[0], nparts=4)
    partial = s.rfactor(b, ko, -1)
    assert [int(e) for e in partial.shape] == [37, 4]
    s[partial].parallel(s[partial].op.axis[1])
    s[partial].compute_at(s[b], b.op.axis[0])
    func = check(s, [a, b], lambda x: x.sum(1), 1e-4)
    assert loops_of(func, "B.rf") == ["37", "1", "4 parallel", "12"]


def test_rfactor_keeps_the_splits_of_spatial_axes():
    a, b = row_sums(37, 45)
    s = te.create_schedule(b.op)
    xo, xi = s[b].split(b.op.axis[0], factor=8)
    ko, ki = s[b].split(b.op.reduce_axis[0], factor=16)
    s[b].reorder(ko, xo, xi, ki)
    s.rfactor(b, ki)
    s[b].reorder(s[b].op.reduce_axis[0], xi)
    s[b].parallel(xo)
    assert loops_of(check(s, [a, b], lambda x: x.sum(1), 1e-4), "B") == ["5 parallel", "16", "8"]


def test_rfactor_of_the_whole_reduction():
    """The partial results then are the terms, and no reduction."""
    a, b = row_sums(7, 9)
    s = te.create_schedule(b.op)
    partial = s.rfactor(b, b.op.reduce_axis[0])
    assert not s[partial].op.reduce_axis
    check(s, [a, b], lambda x: x.sum(1), 1e-4)


def test_rfactor_of_a_fused_reduction():
    a = te.placeholder((7, 5, 11), name="A")
    i, j = te.reduce_axis((0, 5), name="i"), te.reduce_axis((2, 11), name="j")
    b = te.compute((7,), lambda r: te.max(a[r, i, j], axis=[i, j], where=i + j > 3), name="B")
    s = te.create_schedule(b.op)
    s.rfactor(b, s[b].split(s[b].fuse(i, j), factor=8)[1])

    def reference(x):
        rows, columns = np.indices((5, 11))
        return np.where((rows + columns > 3) & (columns >= 2), x, -np.inf).max((1, 2))

    check(s, [a, b], reference)


def test_rfactor_of_two_values():
    index, value, first, second = argmax()
    s = te.create_schedule(first.op)
    partial = s.rfactor(first, s[first].split(first.op.reduce_axis[0], nparts=4)[0])
    assert len(partial) == 2
    func = check(s, [index, value, first, second], argmax_reference)
    assert block_names(func) == ["T.rf", "T"]
