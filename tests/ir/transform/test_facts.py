"""Requirements and guarantees of passes: rows agree with docstrings, lists are checked, and guarantees hold."""
import re

import pytest
from tir_cases import CASES, loop

from ingot.ir import tir
from ingot.ir.costs import ESTIMATE, Cost
from ingot.ir.expr import Call
from ingot.ir.module import IRModule
from ingot.ir.node import collect
from ingot.ir.target import Target
from ingot.ir.transform.context import Sequential, prim_func_pass
from ingot.ir.transform.facts import (ENSURED_BY, FACTS, IMPORTED, PRINTABLE, SCHEDULED, PassOrderError, check_order,
                                      words)
from ingot.ir.transform.pass_table import RELAX, TIR
from ingot.ir.transform.pipeline import Network, graph_passes, lower_module, pipeline_for

ALL = {**TIR, **RELAX}
WORD = re.compile("|".join(rf"\b{re.escape(word)}\b" for word in sorted(FACTS, key=len, reverse=True)))
SMALL = ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")


def said(docstring):
    """(facts that a docstring says are required, those it begins with of what is ensured, its text on that)."""
    text = " ".join(docstring.split())
    required = re.search(r"Requires (.*?)\. ", text)
    ensured = re.search(r"Ensures (.*)", text)
    ensured = ensured[1] if ensured else ""
    first = re.match(rf"(?:(?:{WORD.pattern})(?:, and |, | and |(?=[:. ])))*", ensured)[0]
    return set(WORD.findall(required[1] if required else "")), set(WORD.findall(first)), ensured


@pytest.mark.parametrize("name", ALL)
def test_docstrings_agree_with_rows(name):
    required, first, ensured = said(ALL[name].__doc__)
    assert required == set(ALL[name].info.requires)
    assert first <= set(ALL[name].info.ensures) <= set(WORD.findall(ensured))


def test_every_fact_is_used():
    used = {w for make in ALL.values() for w in (*make.info.requires, *make.info.ensures)}
    ends = {w for _, gone in FACTS.values() for w in gone}
    assert set(FACTS) == used | ends and set(SCHEDULED) | set(IMPORTED) <= set(FACTS)
    assert all(set(printable) <= set(FACTS) for printable in PRINTABLE.values())
    assert set(ENSURED_BY) == {w for make in ALL.values() for w in make.info.ensures}
    assert words("") == () and words("vectors, tir.fma") == ("vectors", "tir.fma")
    with pytest.raises(ValueError, match="unknown fact 'vektors'; known: blocks, "):
        words("vektors")


@pytest.mark.parametrize("level", [0, 1, 2])
def test_pipelines_hold_at_every_level(level):
    """No pass requires what its level leaves out."""
    for network in (None, Network()):
        passes = [p for p in pipeline_for("c", network) if p.info.opt_level <= level]
        assert check_order(passes, SCHEDULED, PRINTABLE["c"]) >= set(PRINTABLE["c"])
    assert "no MatchCast" in check_order(graph_passes(level, Target.get("x86-64-v4")), IMPORTED)


def test_networks_have_passes_of_their_own():
    own = {p.name for p in pipeline_for("c", Network(100))} - {p.name for p in pipeline_for("c")}
    assert own == {"FindOverwrites", "LaneIndexedDot", "DotBytes", "DotRows", "MatrixDots", "RoundToBytes", "SplitSums",
                   "LiftScratch", "ByteColumns", "BeginSums", "OutlineTiles", "NameStrides"}
    with pytest.raises(ValueError, match="no pipeline for targets of kind 'riscv'; known: c"):
        pipeline_for("riscv")


def test_kernels_of_networks_ask_ahead_as_far_as_their_target_says():
    """A program of one's own is lowered for any machine."""
    target = Target.get("x86-64-v4").derive("far", costs={"stream.ahead": Cost(3072, "bytes", ESTIMATE)})
    b, y, k = tir.decl_buffer((80,), name="b"), tir.decl_buffer((8,), name="y"), tir.Var("k")
    inner = tir.for_(k, 10, loop("i", 8, lambda i: tir.BufferStore(y, y[i] + b[k * 8 + i], (i,))))
    func = tir.prim_func([b, y], inner.replace(annotations={"pragma_prefetch_ahead": ("b",)}))
    for network, ahead in ((Network(), 3072), (None, 2048)):
        new = lower_module(IRModule({"main": func}), pipeline_for(target, network))["main"]
        assert [c.args[1].value for c in collect(new.body, Call) if c.op == "tir.prefetch"] == [ahead]


def moved(name, before):
    passes = {p.name: p for p in pipeline_for("c")}
    names = [n for n in passes if n != name]
    names.insert(names.index(before), name)
    return [passes[n] for n in names]


@pytest.mark.parametrize("make, message", [
    (lambda: [TIR["LaneIndexedFMA"]()],
     r"pass LaneIndexedFMA requires flat buffers \(every buffer has .*\): put FlattenBuffer "
                                   "before it"),
    (lambda: moved("LaneIndexedFMA", "VectorizeLoop"),
     r"pass LaneIndexedFMA requires vectors .*: put VectorizeLoop before it"),
    (lambda: moved("VectorizeLoop", "LoopPartition"), "pass LoopPartition requires no vectors .*, which VectorizeLoop "
                                                      "ends: put it before VectorizeLoop"),
    (lambda: moved("FlattenBuffer", "LowerOpaqueBlock"), "pass FlattenBuffer requires no blocks .*: put "
                                                         "LowerOpaqueBlock before it"),
    (lambda: [*pipeline_for("c"), TIR["MakePackedAPI"]()], "pass MakePackedAPI requires shaped buffers .*, which "
                                                           "FlattenBuffer ends"),
    (lambda: [Sequential([TIR["Accumulate"]()])], "pass Accumulate requires flat buffers"),
])
def test_wrong_orders(make, message):
    passes = make()
    Sequential(passes)  # a list of one's own is checked where that is asked for
    with pytest.raises(PassOrderError, match=message):
        Sequential(passes, given=SCHEDULED)


def test_what_a_printer_requires_and_what_nothing_ensures():
    with pytest.raises(PassOrderError, match="the printer of c requires no vectorized loops .*: put VectorizeLoop"):
        check_order([p for p in pipeline_for("c") if p.name != "VectorizeLoop"][:12], SCHEDULED,
                    ("no vectorized loops",), "the printer of c")
    with pytest.raises(PassOrderError, match="pass NameLoops requires blocks .*: no pass ensures it, it must be given"):
        Sequential([TIR["NameLoops"]()], given=())


def test_passes_of_ones_own_keep_all_facts():
    @prim_func_pass(opt_level=0)
    def mine(func, mod, ctx):
        return func

    half = pipeline_for("c")
    mod = IRModule({"main": CASES["matmul"]()})
    out = Sequential([*half[:8], mine, Sequential([*half[8:12], mine]), *half[12:]], given=SCHEDULED)(mod)
    assert str(out) == str(lower_module(mod))


# ---------------------------------------------------------------- what is ensured holds

def blocks(func):
    return [r.block for r in collect(func.body, tir.BlockRealize)]


def buffers(func):
    accesses = collect(func.body, (tir.BufferLoad, tir.BufferStore))
    return list({id(b): b for b in (*func.buffers, *(a.buffer for a in accesses))}.values())


HOLDS = {
    "no blocks": lambda f: not blocks(f),
    "opaque blocks": lambda f: blocks(f) and not any(b.iter_vars for b in blocks(f)),
    "no inits": lambda f: not any(b.init for b in blocks(f)),
    "no matched buffers": lambda f: not any(b.match_buffers for b in blocks(f)),
    "flat buffers": lambda f: all(len(b.shape) == 1 and not b.strides for b in buffers(f)),
    "no vectors": lambda f: not collect(f.body, tir.Ramp),
    "no vectorized loops": lambda f: all(x.kind != "vectorized" for x in collect(f.body, tir.For)),
    "no small floats": lambda f: all(b.dtype.element not in SMALL for b in buffers(f)),
    "temporaries of constant size": lambda f: all(
        isinstance(d.buffer.shape[0], tir.IntImm) for d in collect(f.body, tir.DeclBuffer)),
}


@pytest.mark.parametrize("name", CASES)
def test_what_passes_ensure_holds(name):
    func, facts = CASES[name](), SCHEDULED
    for p in pipeline_for("c", Network()):
        func = p(IRModule({"main": func}))["main"]
        facts = check_order([p], facts)
        wrong = [w for w in facts if w in HOLDS and not HOLDS[w](func)]
        assert not wrong, f"after {p.name}: {wrong}\n{func}"
