"""Results that lie where an input was that nobody reads any more: which kernels allow it,
and that nothing else changes."""
import numpy as np
import pytest
from onnx import helper

import ingot
from ingot.codegen.compile import Options, compile_module, lower
from ingot.codegen.program import build_program
from ingot.ir.transform.overwrites import ASKED, ATTRIBUTE, find_overwrites
from ingot.script import tir as T
from networks import feeds_of, load, make_model

LIMIT = 1 << 30  # which changes nothing but that results may overwrite inputs


def asked(func, elements):
    return find_overwrites(func.with_attr(ASKED, elements)).attrs.get(ATTRIBUTE)


@T.prim_func
def added(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32"), z: T.Buffer((64,), "float32")):
    for i in range(64):
        z[i] = T.max(x[i] + y[i], T.float32(0))


@T.prim_func
def shifted(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32"), z: T.Buffer((64,), "float32")):
    for i in range(64):
        z[i] = x[63 - i] + y[i]


@T.prim_func
def kept(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32"), z: T.Buffer((64,), "float32")):
    for i in range(64):
        before = T.decl_buffer((1,), "float32", scope="local")
        before[0] = x[i]
        z[i] = before[0] + x[i] + y[i]


@T.prim_func
def overlapping(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32"), z: T.Buffer((64,), "float32")):
    for i in range(40):
        z[i] = x[i] + y[i]
    for i in range(40):
        z[i + 24] = x[i + 24] + y[i + 24]


@T.prim_func
def in_parts(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32"), z: T.Buffer((64,), "float32")):
    for i in range(40):
        z[i] = x[i] + y[i]
    for i in range(24):
        z[i + 40] = x[i + 40] * y[63 - i]


@T.prim_func
def summed(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32"), z: T.Buffer((64,), "float32")):
    for i in range(64):
        z[i] = z[i] + x[i] + y[i]


@T.prim_func
def conditional(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32"), z: T.Buffer((64,), "float32")):
    for i in range(64):
        if i < 50:
            z[i] = x[i] + y[i]


@T.prim_func
def of_bytes(x: T.Buffer((64,), "int8"), y: T.Buffer((64,), "float32"), z: T.Buffer((64,), "float32")):
    for i in range(64):
        z[i] = T.Cast("float32", x[i]) + y[i]


@pytest.mark.parametrize("func, found", [
    (added, (0, 1)), (shifted, (1,)), (kept, (1,)), (overlapping, None), (in_parts, (0,)), (summed, None),
    (conditional, None), (of_bytes, (1,))], ids=lambda x: getattr(x, "__name__", None))
def test_which_inputs_may_be_overwritten(func, found):
    assert asked(func, 64) == found


def test_nothing_is_looked_for_unasked():
    assert ATTRIBUTE not in find_overwrites(added).attrs


@pytest.mark.parametrize("name, target", [("residual_net", "c"), ("residual_net", "x86-64-v3"),
                                          ("mobile_net", "x86-64-v3"), ("transformer", "c")])
def test_results_are_the_same_in_less_memory(name, target):
    model = load(name)
    feeds = list(feeds_of(model).values())
    with ingot.compile(model, target=target, threads="none") as apart, \
            ingot.compile(model, target=target, threads="none", ram_limit=LIMIT) as shared:
        assert shared.model.arena_bytes <= apart.model.arena_bytes
        for got, want in zip(*(r if isinstance(r, tuple) else (r,) for r in (shared(*feeds), apart(*feeds)))):
            np.testing.assert_array_equal(got, want)


def test_residual_sums_lie_where_what_they_add_to_was():
    model = compile_module(ingot.from_onnx(load("residual_net")), Options.check(target="cortex-m4f"))
    plain = compile_module(ingot.from_onnx(load("residual_net")), Options.check(target="c", threads="none"))
    assert model.arena_bytes < 0.8 * plain.arena_bytes
    read_and_written = [c for c in model.program.calls if {o.index for o in c.operands[:c.reads] if o.kind == "arena"}
                        & {o.index for o in c.operands[c.reads:] if o.kind == "arena"}]
    assert read_and_written
    for call in read_and_written:  # no pointer of both promises to be alone
        signature = model.kernels[model.kernel_of[call.kernel]].signature
        assert signature.count(" *INGOT_RESTRICT ") == signature.count(" *") - 2


def test_a_network_whose_sizes_a_run_decides_stays_as_it_is():
    model = make_model("places", [helper.make_node("NonZero", ["x"], ["at"])], {"x": (np.float32, [4, 5])},
                       {"at": (np.int64, [2, "count"])}, {})
    program = build_program(lower(ingot.from_onnx(model), Options.check(target="cortex-m4f")).lowered, "places")
    assert program.found
