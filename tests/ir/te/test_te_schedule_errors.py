"""Refusals of te schedules, with their messages."""
import pytest
from te_check import argmax, elementwise, matmul, row_sums

from ingot import te, tir
from ingot.ir.schedule import ScheduleError

A, B, C = elementwise()


def split_foreign(s):
    s[C].split(B.op.axis[0], factor=4)


def split_unknown(s):
    s[C].split(te.reduce_axis((0, 4), name="k"), factor=4)


def split_twice(s):
    s[C].split(C.op.axis[0], factor=4)
    s[C].split(C.op.axis[0], factor=4)


def split_fused(s):
    s[C].fuse(*C.op.axis)
    s[C].split(C.op.axis[1], factor=4)


def reorder_with_one_twice(s):
    s[C].reorder(C.op.axis[0], C.op.axis[0])


def fuse_apart(s):
    outer, _ = s[C].split(C.op.axis[0], factor=4)
    s[C].fuse(outer, C.op.axis[1])


def compute_at_foreign_axis(s):
    s[B].compute_at(s[C], B.op.axis[0])


def set_scope_of_an_argument(s):
    s[C].set_scope("local")
    s.to_prim_func([A, C])


def inline_what_is_split(s):
    s[B].split(B.op.axis[0], factor=4)
    s[B].compute_inline()
    s.to_prim_func([A, C])


def attached_to_a_lost_axis(s):
    s[B].compute_at(s[C], C.op.axis[0])
    s[C].split(C.op.axis[0], factor=4)
    s.to_prim_func([A, C])


def attached_to_a_producer():
    d = te.compute(A.shape, lambda i, j: B[i, j] + 1.0, name="D")
    e = te.compute(A.shape, lambda i, j: d[i, j] + C[i, j], name="E")
    s = te.create_schedule(e.op)
    s[C].compute_at(s[B], B.op.axis[0])
    s.to_prim_func([A, e])


def attached_to_an_inlined_stage():
    d = te.compute(A.shape, lambda i, j: C[i, j] + 1.0, name="D")
    s = te.create_schedule(d.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[C].compute_inline()
    s.to_prim_func([A, d])


def attached_to_what_is_not_wanted():
    d = te.compute(A.shape, lambda i, j: B[i, j] + 1.0, name="D")
    s = te.create_schedule([C.op, d.op])
    s[B].compute_at(s[d], d.op.axis[0])
    s.to_prim_func([A, C])


def attached_to_nothing(s):
    s[B].compute_at(s[A], C.op.axis[0])


def parallel_reduction(s=None):
    a, b = row_sums()
    s = te.create_schedule(b.op)
    s[b].parallel(b.op.reduce_axis[0])
    s.to_prim_func([a, b])


def bound_reduction(s=None):
    a, b = row_sums()
    s = te.create_schedule(b.op)
    s[b].bind(b.op.reduce_axis[0], te.thread_axis("blockIdx.x"))
    s.to_prim_func([a, b])


def read_between(s=None):
    """D needs all of C's row before it: C cannot move below the columns."""
    a, b, c = matmul()
    k = te.reduce_axis((0, 22), name="r")
    d = te.compute((13, 22), lambda i, j: te.sum(c[i, k] * c[i, j], axis=k), name="D")
    e = te.compute((13, 22), lambda i, j: d[i, j] + c[i, j], name="E")
    s = te.create_schedule(e.op)
    s[c].compute_at(s[e], e.op.axis[1])
    s.to_prim_func([a, b, e])


def inlined_reduction(s=None):
    a, b = row_sums()
    c = te.compute((37,), lambda i: b[i] * 2.0, name="C")
    te.create_schedule(c.op)[b].compute_inline()


def cache_of_a_stranger(s):
    s.cache_read(A, "local", [C])


def cached_after_a_split(s):
    s[C].split(C.op.axis[0], factor=4)
    s.cache_write(C, "local")


def cache_one_of_two(s=None):
    _, _, first, _ = argmax()
    te.create_schedule(first.op).cache_write(first, "local")


def rfactored(**changes):
    def run():
        a, b = row_sums()
        s = te.create_schedule(b.op)
        ko, ki = s[b].split(b.op.reduce_axis[0], factor=16)
        if changes.get("spatial"):
            ki = b.op.axis[0]
        if changes.get("marked"):
            s[b].unroll(ko)
        if changes.get("fused"):
            s[b].fuse(b.op.axis[0], ko)
        s.rfactor(b, ki, changes.get("factor_axis", 0))
    return run


def rfactor_with_init():
    a = te.placeholder((7, 9), name="A")
    k = te.reduce_axis((0, 9), name="k")
    b = te.compute((7,), lambda i: te.sum(a[i, k], axis=k, init=1.0), name="B")
    te.create_schedule(b.op).rfactor(b, k)


def tensorized(parts=1, name=None):
    def run():
        a, b = row_sums(32, 64)
        s = te.create_schedule(b.op)
        outer, inner = s[b].split(b.op.axis[0], factor=8)
        ko, ki = s[b].split(b.op.reduce_axis[0], factor=16)
        s[b].reorder(outer, ko, inner, ki)
        x, y = row_sums(8, 16)
        intrin = te.decl_tensor_intrin(y.op, lambda ins, outs: tir.call_extern("int32", "f", outs[0].access_ptr("w")),
                                       name="row_kernel")
        s[b].tensorize(inner, name or intrin)
        s.to_prim_func([a, b])
    return run


REFUSED = {
    split_foreign: "split: argument 'parent': axis i is of stage B, not of stage C; its axes now are i, j",
    split_unknown: "split: argument 'parent': axis k is not of stage C",
    split_twice: "split: argument 'parent': axis i of stage C is split already; its axes now are i.outer, i.inner, j",
    split_fused: "split: argument 'parent': axis j of stage C is fused already; its axes now are i.j.fused",
    lambda s: s[C].split("i", factor=4): "split: argument 'parent': for stage C must be an axis .IterVar., not 'i'",
    lambda s: s[C].split(C.op.axis[0]): "split: axis i of stage C: neither of factor and nparts are given",
    lambda s: s[C].split(C.op.axis[0], 2, 3): "split: axis i of stage C: both of factor and nparts are given",
    lambda s: s[C].split(C.op.axis[0], factor=0): "split: argument 'factor': for axis i of stage C must be a positive",
    lambda s: s[C].split(C.op.axis[0], nparts=-2): "split: argument 'nparts': for axis i .* int, not -2",
    lambda s: s[C].tile(*(C.op.axis[:1] * 2), 4, 4): "tile: argument 'y_parent': axis i of stage C is given twice",
    reorder_with_one_twice: "reorder: argument 'axes': i, i of stage C has an axis twice",
    fuse_apart: "fuse: argument 'axes': i.outer, j are not neighbours, outermost first, among the axes i.outer",
    lambda s: s[C].fuse(): "fuse: argument 'axes': of stage C is empty",
    compute_at_foreign_axis: "compute_at: argument 'scope': axis i is of stage B, not of stage C",
    attached_to_nothing: "compute_at: argument 'scope': axis i is of stage C, not of stage A; its axes now are none",
    lambda s: s[B].compute_at(C, C.op.axis[0]): "compute_at: argument 'parent': must be another stage of the schedule",
    lambda s: s[B].compute_at(s[B], B.op.axis[0]): "compute_at: argument 'parent': is the stage B itself",
    lambda s: s[C].compute_at(s[B], B.op.axis[0]): "compute_at: stage C is an output of the schedule",
    lambda s: s[A].compute_at(s[C], C.op.axis[0]): "compute_at: stage A is a PlaceholderOp, which is no compute",
    attached_to_a_lost_axis: "compute_at: .stage B. axis i of stage C, where it is computed, is no loop any more",
    attached_to_a_producer: "compute_at: .stage C. stage B, where it is computed, comes before it",
    attached_to_an_inlined_stage: "compute_at: .stage B. stage C, where it is computed, is inlined",
    attached_to_what_is_not_wanted: "compute_at: .stage B. stage D, where it is computed, is not needed for the argum",
    read_between: "compute_at: argument 'loop': .stage C, axis j.",
    lambda s: s[C].compute_inline(): "compute_inline: stage C is an output of the schedule",
    inlined_reduction: "compute_inline: stage B is a reduction; use compute_at",
    inline_what_is_split: "compute_inline: .stage B. its loops are split, reordered or marked, and inlining drops them",
    set_scope_of_an_argument: "set_scope: argument 'scope': stage C is an argument, whose memory is the caller's",
    parallel_reduction: "parallel: argument 'loop': .stage B, axis k. loop k runs the reduce iterator",
    bound_reduction: "bind: argument 'loop': .stage B, axis k. loop k runs the reduce iterator",
    lambda s: s[C].bind(C.op.axis[0], C.op.axis[1]): "bind: argument 'thread_ivar': for axis i of stage C is no thread",
    lambda s: s[C].storage_align(0, 8, 1): "storage_align: argument 'axis': must be one of s.C..op.axis",
    lambda s: s[C].set_store_predicate(True): "set_store_predicate: argument 'predicate': for stage C must be that a "
                                              "thread axis is a number",
    lambda s: s[C].prefetch(A, C.op.axis[0], 1): "prefetch: argument 'tensor': stage C does not read A",
    lambda s: s[C].prefetch(B, C.op.axis[0], 0): "prefetch: argument 'offset': for stage C must be a positive int",
    lambda s: s.create_group([C], [A]): "create_group: is not supported; use compute_at on each stage",
    cache_of_a_stranger: "cache_read: argument 'readers': stage C does not read A; it reads B",
    lambda s: s.cache_read(A, "local", []): "cache_read: argument 'readers': of A is empty",
    lambda s: s.cache_write(A, "local"): "cache_write: argument 'tensor': A is a PlaceholderOp, which is no compute",
    lambda s: s.cache_write([B, C], "local"): "cache_write: .* must be a tensor, or the outputs of one operation",
    cached_after_a_split: "cache_write: argument 'tensor': stage C is split, reordered or marked already; .* first",
    cache_one_of_two: "cache_write: argument 'tensor': T has 2 outputs, 1 are given; give all in a list",
    rfactored(spatial=True): "rfactor: argument 'axis': i of stage B is no axis of a reduction",
    rfactored(marked=True): "rfactor: argument 'axis': axis k.outer of stage B is marked already",
    rfactored(fused=True): "rfactor: argument 'axis': axis i.k.outer.fused of stage B fuses the reduction with other",
    rfactored(factor_axis=2): "rfactor: argument 'factor_axis': 2 is no dimension of the partial results of B",
    rfactor_with_init: "rfactor: argument 'tensor': the reduction of stage B starts from an init",
    tensorized(): "tensorize: .stage B. its reduction goes on outside axis i.inner, and intrinsic row_kernel",
    tensorized(name="none.such"): "tensorize: argument 'tensor_intrin': .stage B, axis i.inner. no intrinsic",
    tensorized(name=3): "tensorize: argument 'tensor_intrin': for stage B must be of te.decl_tensor_intrin or a name",
}


@pytest.mark.parametrize("request_, message", REFUSED.items(), ids=[m[:40] for m in REFUSED.values()])
def test_refused(request_, message):
    with pytest.raises(ScheduleError, match=message):
        takes = request_.__code__.co_argcount and request_.__defaults__ is None
        request_(*([te.create_schedule(C.op)] if takes else []))


def test_a_refused_request_changes_nothing():
    s = te.create_schedule(C.op)
    before = s.to_prim_func([A, C]).script()
    for request_ in (split_foreign, reorder_with_one_twice, compute_at_foreign_axis, cache_of_a_stranger):
        with pytest.raises(ScheduleError):
            request_(s)
    assert s.to_prim_func([A, C]).script() == before


def test_a_refusal_of_tir_shows_the_program():
    with pytest.raises(ScheduleError) as caught:
        parallel_reduction()
    assert "for k in range(45):" in str(caught.value) or "T.grid(37, 45)" in str(caught.value)


def test_wrong_arguments():
    s = te.create_schedule(C.op)
    stranger = te.compute((3,), lambda i: A[i, i], name="stranger")
    for wrong, error, message in (
            (lambda: te.create_schedule("C"), TypeError, "create_schedule takes operations such as C.op, not a str"),
            (lambda: s["C"], TypeError, "a schedule is indexed with a tensor or an operation, not a str"),
            (lambda: s[stranger], KeyError, "stranger is not in the schedule, which has A, B, C"),
            (lambda: s.to_prim_func([A, stranger]), KeyError, "stranger is not in the schedule"),
            (lambda: s.to_prim_func([A, 3]), TypeError, "an argument is a int instead of a Tensor or Var"),
            (lambda: s.to_prim_func([A, C, C]), ValueError, "a tensor is twice among the arguments"),
            (lambda: s.to_prim_func([C]), ValueError, "placeholder A is used but is not among the arguments")):
        with pytest.raises(error, match=message):
            wrong()
