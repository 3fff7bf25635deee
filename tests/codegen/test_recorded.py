"""Recorded schedules take the place of the rules' choices, are proven again, and say why where they do not fit."""
import json
import re

import numpy as np
import pytest

import ingot
from ingot import te, tir
from ingot.codegen.recorded import Record, records_of
from ingot.ir.schedule.plan import Plan, Tile
from ingot.ir.origin import Origin
from networks import attention_net, conv_net, relative_error

OPTIONS = {"target": "x86-64-v3", "threads": "none"}


@pytest.fixture(scope="module")
def traces():
    return ingot.recorded_schedules(conv_net(), **OPTIONS)


@pytest.fixture(scope="module")
def plans():
    return ingot.recorded_plans(conv_net(), **OPTIONS)


@pytest.mark.parametrize("options", [OPTIONS, {"target": "aarch64-linux-gnu"}, {"target": "c", "opt_level": 1},
                                     {"target": "x86-64-v4", "opt_level": 0}])
@pytest.mark.parametrize("network", [conv_net, attention_net])
def test_what_is_recorded_gives_the_same_c(network, options):
    """But for words: of a trace nobody knows what was decided."""
    rules = ingot.compile(network(), **options).model.files()
    for stage in ("plans", "traces"):
        saved = json.loads(ingot.inspect_stage(network(), stage, **options))
        files = ingot.compile(network(), schedules=saved, **options).model.files()
        assert len(saved) > 2 or options.get("opt_level") == 0
        assert files == rules if stage == "plans" else without_comments(files) == without_comments(rules)
    assert any(len(rows) for rows, _ in saved.values()) == (options.get("opt_level") != 0)


def without_comments(files):
    return {name: re.sub(r"/\*.*?\*/", "", text, flags=re.S) for name, text in files.items()
            if "_kernels_" in name}


def test_an_edited_plan_is_the_tile_in_the_c(plans):
    """As an object, and as the text of a file; what it leaves open the rule chooses."""
    tile = plans["conv1"].schedule.tile
    assert tile == Tile(3, 1, 4)
    edited = json.loads(ingot.inspect_stage(conv_net(), "plans", **OPTIONS))
    for name, saved in edited.items():
        assert saved["kernel"] == plans[name].kernel and saved["words"] == str(plans[name].schedule)
    edited["conv1"]["plan"] = edited["conv1"]["plan"].replace("columns=4", "columns=2")
    part = "I.Plan(rule='blocked_convolution', tile=I.Tile(vectors=3, rows=1, columns=2))"
    x = np.random.default_rng(0).random((1, 3, 13, 11), np.float32)
    plain = ingot.compile(conv_net(), **{**OPTIONS, "target": "host"})(x)
    for given in (edited, {"conv1": part}, {"conv1": plans["conv1"].schedule.replace(tile=Tile(3, 1, 2))}):
        text = ingot.compile(conv_net(), schedules=given, name="small", **OPTIONS).model.files()["small_kernels_0.c"]
        comment = text[text.index("/* conv1 (Conv) + "):]
        assert "direct convolution; tile 2 columns x 3 vectors; " in " ".join(comment.split())
        assert re.search(r"f32x8 conv2d_packed_local\[6\]", text)
    with ingot.compile(conv_net(), schedules={"conv1": part}, **{**OPTIONS, "target": "host"}) as library:
        assert relative_error(library(x), plain) < 1e-6


def test_a_schedule_of_ones_own(tmp_path):
    """The tiles of a convolution, written by hand for the loops as they are before scheduling."""
    model, options = conv_net(), {"target": "host", "threads": "none", "opt_level": 0, "name": "small"}
    kernel = ingot.inspect_stage(model, "tir", kernel="conv1", **options)
    sch = tir.Schedule(ingot.script.from_source(kernel))
    block = sch.get_block("conv2d", func_name="conv2d")
    *_, columns, channels, _, _ = sch.get_loops(block)
    outer, inner = sch.split(columns, [None, 3])
    sch.reorder(channels, inner)
    x = np.random.default_rng(0).random((1, 3, 13, 11), np.float32)
    plain = ingot.compile(model, **options)(x)
    with ingot.compile(model, schedules={"conv1": sch.trace}, **options) as library:
        assert "schedule: split(x, ?x3), reorder(ic, x_1)" in library.model.files()["small_kernels_0.c"]
        assert relative_error(library(x), plain) < 1e-6


def test_one_entry_is_enough(traces):
    """Other kernels keep what rules choose; a trace without steps leaves the loops as they are."""
    files = ingot.compile(conv_net(), schedules={"conv1": tir.schedule.Trace()}, **OPTIONS).model.files()
    rules = ingot.compile(conv_net(), **OPTIONS).model.files()
    count = ["\n".join(f[n] for n in f if "_kernels_" in n).count("schedule:") for f in (files, rules)]
    assert count[0] == count[1] - 1 and len(traces["conv1"])


@pytest.mark.parametrize("schedules, message", [
    ([1], r"schedules is a mapping of kernels to recorded traces or plans, not \[1\]"),
    ({"conv1": "I.Plan(rule='winograd')"},
     r"schedules\['conv1'\] does not fit this kernel: the given plan: plan: the rule "
                                           r"winograd does not fit .*record it again \(inspect, stage plans\)"),
    ({"conv1": Plan("tiles")}, r"schedules\['conv1'\] does not fit .* a plan's rule is one of attention,"),
    ({"conv1": Plan("blocked_convolution", tile=Tile(2, 0))}, r"schedules\['conv1'\]: not a plan: rows is 0"),
    ({"conv1": Plan("blocked_convolution", tile=7)}, r"not a plan: tile is 7"),
    ({"conv1": Plan("blocked_convolution", stages=("rows",))}, r"not a plan: stages is \('rows',\)"),
    ({"conv1": Plan("blocked_convolution", parts=2)}, r"the rule blocked_convolution does not decide parts"),
    ({"conv1": Record(Plan("blocked_convolution"), "0" * 16)}, r"it is of kernel 0{16}, this is [0-9a-f]{16}"),
    ({"conv1": {"kernel": "0" * 16, "trace": [[], []]}}, r"of kernel 0{16}, this is .* \(inspect, stage traces\)"),
    ({"conv1": {"plan": "I.Plan(rule='a', shape=1)"}}, r"schedules\['conv1'\]: not a plan: .*shape"),
    ({"conv1": "print('x')"}, r"not a plan: "), ({"conv1": "I.Plan("}, r"not a plan: "),
    ({"conv1": {"kernel": ""}}, r"a record has a plan or a trace, and may have a kernel and words, not kernel"),
    ({"conv1": [[["split", {}, []]]]}, r"schedules\['conv1'\]: not a saved trace: .*; a trace is what inspect prints "
                                       "at stage traces, or sch.trace"),
    ({"conv1": [[["GetBlock", [], ["a", "main", 1], ["b0"]]], []]},
     r"not a saved trace: .*GetBlock takes name, func_name, not also \[1\]"),
    ({"conv0": [[], []]}, "no kernel is called 'conv0'; close are .*conv1"),
    ({"conv1": [[], []], "relu1": [[], []]}, r"schedules\['relu1'\]: kernel \w+ has a schedule already, by another"),
    ({"conv1": [[["GetBlock", [], ["no", "main"], ["b0"]]], []]},
     r"schedules\['conv1'\] does not fit this kernel: get_block: .*'no'.*: record it again \(inspect, stage traces\)"),
])
def test_what_does_not_fit(schedules, message):
    with pytest.raises(ValueError, match=message):
        ingot.compile(conv_net(), schedules=schedules, **OPTIONS)


def test_a_node_of_several_kernels():
    """Such a name says too little; each kernel's own name is unique."""
    func = te.create_prim_func([te.placeholder((4,), "float32", "x")])
    parts = [func.with_attr("origin", (Origin(name, "Conv", "y"), Origin("norm", "Norm", "z"))) for name in ("a", "b")]
    functions, trace = dict(zip(("conv", "conv_1"), parts)), tir.schedule.Trace()
    trace = Record(trace)
    found = records_of(functions, "net", {"a": trace, "net_b": trace})
    assert found == {"conv": ("a", trace), "conv_1": ("net_b", trace)}
    with pytest.raises(ValueError, match=r"schedules\['norm'\]: kernels conv, conv_1 compute this node; name one of"):
        records_of(functions, "net", {"norm": trace})


def test_a_trace_of_another_kernel(traces):
    """Other loops than the trace met are an error, not a guess."""
    for name, other in (("conv1", "fc"), ("fc", "conv1")):
        with pytest.raises(ValueError, match=rf"schedules\['{name}'\] does not fit this kernel"):
            ingot.compile(conv_net(), schedules={name: traces[other]}, **OPTIONS)
    loops = [[["GetBlock", [], ["pad_temp", "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l1"]]], []]
    with pytest.raises(ValueError, match="get_loops: it returned 4 handles where the trace has 1; the trace is of an"):
        ingot.compile(conv_net(), schedules={"conv1": loops}, opt_level=0, target="c")
