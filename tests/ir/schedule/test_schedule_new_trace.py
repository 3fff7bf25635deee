"""Trace, state and the Schedule's own methods as a user of TVM knows them; how errors look to people."""
import json

import pytest

from ingot.ir import tir
from ingot.ir.expr import FloatImm, IntImm
from ingot.ir.module import IRModule
from ingot.ir.node import structural_equal
from ingot.ir.schedule import (BlockRV, DepKind, ExprRV, Instruction, InstructionKind, LoopRV, Schedule,
                               ScheduleError, ScheduleState, Trace)
from ingot.ir.tir.verifier import verify
from ingot.script import from_source
from schedule_programs import (assert_same, elementwise, loop_text, matmul, packed_conv, replayed, running_sum,
                               schedule,
                               softmax, stencil)


def sampled(func, seed=1):
    sch = schedule(func, seed=seed)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    tile = sch.sample_perfect_tile(j, n=2, max_innermost_factor=11)
    jo, ji = sch.split(j, tile)
    note = sch.sample_categorical([1, 2, 4], [0.5, 0.25, 0.25])
    sch.annotate(jo, "unroll_factor", note)
    sch.reorder(jo, i, k, ji)
    sch.enter_postproc()
    sch.vectorize(ji)
    return sch


# ---------------------------------------------------------------- instructions and decisions

def test_instructions_have_kinds_inputs_and_attributes():
    sch = sampled(matmul())
    insts = sch.trace.insts
    assert [inst.kind.name for inst in insts[:4]] == ["GetBlock", "GetLoops", "SamplePerfectTile", "Split"]
    assert [inst.kind.is_pure for inst in insts[:4]] == [True, True, True, False]
    sample, split = insts[2:4]
    assert split.inputs == [insts[1].outputs[1], *sample.outputs] and split.attrs == [True, False]
    assert all(isinstance(v, ExprRV) for v in sample.outputs) and isinstance(split.inputs[0], LoopRV)
    assert isinstance(insts[0].outputs[0], BlockRV)
    assert sample.attrs == [2, 11] and sch.trace.get_decision(sample) == tuple(map(sch.get, sample.outputs))
    assert sch.trace.get_decision(split) is None
    assert list(sch.trace.decisions) == [sample, insts[4]]


def test_instructions_can_be_made():
    func = matmul()
    block, loops, parts = BlockRV(), [LoopRV(), LoopRV(), LoopRV()], [LoopRV(), LoopRV()]
    trace = Trace([
        Instruction(kind=InstructionKind.get("GetBlock"), inputs=[], attrs=["C", "main"], outputs=[block]),
        Instruction(InstructionKind.get("GetLoops"), [block], [], loops),
        Instruction(InstructionKind.get("Split"), [loops[0], None, 4], [True], parts),
        Instruction(InstructionKind.get("Annotate"), [parts[0], "x\"y"], ["note"], []),
        Instruction(InstructionKind.get("SampleCategorical"), [], [[IntImm("int32", 3)], [FloatImm("float32", 1)]],
                    [ExprRV()])], {})
    assert str(trace.insts[2]) == ("_, _ = sch.split(loop=_, factors=[None, 4], preserve_unit_iters=True, "
                                   "disable_predication=False)")
    assert trace.as_json() == [[
        ["GetBlock", [], ["C", "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]],
        ["Split", ["l1", None, 4], [True, False], ["l4", "l5"]], ["Annotate", ["l4", '"x\\"y"'], ["note"], []],
        ["SampleCategorical", [], [[3], [1]], ["v6"]]], []]
    made, saved, sch = schedule(func), schedule(func), schedule(func)
    trace.apply_to_schedule(made)
    Trace.apply_json_to_schedule(trace.as_json(), saved)
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.annotate(outer, "note", 'x"y')
    assert structural_equal(made.func, sch.func) and structural_equal(saved.func, sch.func)
    assert InstructionKind.get("RFactor") is InstructionKind.get("RFactor")
    for kind, inputs, attrs in (("GetLoops", [], []), ("GetLoops", [block, block], []), ("Split", [block, 4], [])):
        with pytest.raises(ValueError, match=kind):
            Instruction(InstructionKind.get(kind), inputs, attrs, [])


def test_a_decision_can_be_changed():
    func = matmul()
    sch = sampled(func)
    sample = sch.trace.insts[2]
    other = sch.trace.with_decision(sample, [11, 2], remove_postproc=True)
    assert other.get_decision(sample) == [11, 2] and len(other) == len(sch.trace) - 2
    new = schedule(func)
    other.apply_to_schedule(new, remove_postproc=False)
    assert loop_text(new, "C")[0] == "j_0:11:serial" and loop_text(new, "C")[-1] == "j_1:2:serial"
    assert_same(func, new.func)
    with pytest.raises(ValueError, match="inst is no sampling instruction of this trace"):
        sch.trace.with_decision(sch.trace.insts[0], 1, False)


def test_a_provider_decides():
    func = matmul()
    sch = sampled(func)
    seen = []

    def provide(inst, inputs, attrs, decision):
        seen.append((inst.kind.name, [type(h) for h in inputs], attrs, decision))
        return [2, 11] if inst.kind.name == "SamplePerfectTile" else decision

    new = schedule(func)
    sch.trace.apply_to_schedule(new, remove_postproc=False, decision_provider=provide)
    assert [s[0] for s in seen] == ["SamplePerfectTile", "SampleCategorical"]
    assert seen[0][1:3] == ([LoopRV], [2, 11]) and seen[1][2] == [(1, 2, 4), (0.5, 0.25, 0.25)]
    assert loop_text(new, "C")[-1] == "j_1:11:vectorized"


def test_append_and_pop():
    sch = schedule(matmul())
    i, *_ = sch.get_loops("C")
    sch.parallel(i)
    trace = sch.trace.copy()
    inst = trace.pop()
    assert inst.kind.name == "Parallel" and len(trace) == len(sch.trace) - 1 == 2
    trace.append(inst)
    assert trace.insts == sch.trace.insts
    empty = Trace()
    assert (empty.pop() is None and str(empty).endswith("def apply_trace(sch: tir.Schedule) -> None:\n  pass")
            and len(empty) == 0)
    empty.append(sch.trace.insts[0], decision=3)
    assert empty.get_decision(sch.trace.insts[0]) == 3


def test_json_is_data_and_survives_its_text():
    func = matmul()
    sch = sampled(func)
    saved = sch.trace.as_json()
    assert json.loads(json.dumps(saved)) == saved and saved[1][0][0] == 2
    for form in (saved, json.dumps(saved)):
        new = schedule(func)
        Trace.apply_json_to_schedule(form, new)
        assert structural_equal(new.func, sch.func) and new.trace.as_json() == saved
    short = sch.trace.as_json(remove_postproc=True)
    assert [row[0] for row in short[0]][-1] == "Reorder"


@pytest.mark.parametrize("saved", [
    "{", "3", [1, 2], [[["Nothing", [], [], []]], []], [[["Split", ["l7", 4], [], []]], []],
    [[["GetBlock", [], ["C"], ["q1"]]], []], [[["GetBlock", [], ["C", "main", 3], ["b1"]]], []],
    [[["GetBlock", [], [7], ["b1"]]], []], [[["GetLoops", [], [], ["l1"]]], []],
    [[["Annotate", [{"op": "^", "of": [1, 2]}, 1], ["key"], []]], []]])
def test_nonsense_is_no_trace(saved):
    with pytest.raises(ValueError, match="not a saved trace"):
        Trace.from_json(saved)


def test_printed_python_runs():
    func = matmul()
    sch = sampled(func)
    text = "\n".join(sch.trace.as_python())
    assert 'b0 = sch.get_block(name="C", func_name="main")' in text
    tile = list(sch.trace.get_decision(sch.trace.insts[2]))
    assert f"sch.sample_perfect_tile(loop=l2, n=2, max_innermost_factor=11, decision={tile})" in text
    new = schedule(func)
    exec(text, {"sch": new})
    assert structural_equal(new.func, sch.func) and str(new.trace) == str(sch.trace)
    assert "vectorize" not in "\n".join(sch.trace.as_python(remove_postproc=True))


SYMBOLIC = """@T.prim_func
def main(A: T.handle, B: T.handle, n: T.int32):
    a, b = T.match_buffer(A, (n, 8)), T.match_buffer(B, (n, 8))
    c = T.alloc_buffer((n, 8))
    for i, j in T.grid(n, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            c[vi, vj] = a[vi, vj] + T.float32(1)
    for i, j in T.grid(n, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            b[vi, vj] = c[vi, vj]
"""


def test_traces_name_the_variables_of_any_copy_of_their_program():
    """In maps, factors and values; as Python, as JSON and as they are."""
    func, copy = from_source(SYMBOLIC), from_source(SYMBOLIC)
    sch, n = schedule(func), func.params[2]
    sch.transform_layout("C", ("write", 0), lambda i, j: (j * n + i,))
    i, _ = sch.get_loops("B")
    sch.annotate(sch.split(i, [None, n])[0], "rows", n)
    text = "\n".join(sch.trace.as_python())
    assert text.startswith('n = tir.Var("n", "int32")\nb0 = ')
    news = [schedule(copy) for _ in range(3)]
    exec(text, {"sch": news[0], "tir": tir})
    sch.trace.apply(news[1])
    Trace.from_json(json.dumps(sch.trace.as_json())).apply(news[2])
    for new in news:
        verify(new.func)
        assert structural_equal(new.func, sch.func) and str(new.trace) == str(sch.trace)


def test_values_of_all_kinds_print_and_save():
    func = matmul()
    sch = schedule(func)
    values = {"text": 'a "quoted"\nline', "list": [1, [2.5, None]], "flag": True, "int32": tir.const(3),
              "float": tir.const(0.5), "string": tir.StringImm("s"), "long": tir.const(3, "int64")}
    for key, value in values.items():
        sch.annotate("C", key, value)
    known = sch.get(sch.get_block("C")).annotations
    assert [known[k] for k in ("int32", "float", "string", "list")] == [3, 0.5, "s", (1, (2.5, None))]
    replayed(func, sch)


def test_simplified_keeps_decisions():
    func = matmul()
    sch = sampled(func)
    sch.sample_categorical([1, 2], [0.5, 0.5])
    short = sch.trace.simplified(remove_postproc=False)
    assert len(short) == len(sch.trace) - 1 and len(short.decisions) == 2
    new = schedule(func)
    short.apply_to_schedule(new, remove_postproc=False)
    assert structural_equal(new.func, sch.func)


# ---------------------------------------------------------------- arithmetic on sampled numbers

def test_sampled_numbers_calculate():
    func = matmul(13, 24, 9)
    sch = schedule(func)
    i, j, k = sch.get_loops("C")
    n = sch.sample_categorical([3, 5], [0.5, 0.5], decision=0)
    assert [sch.get(e) for e in (n + 1, 1 + n, n - 1, 7 - n, n * 2, 2 * n, n // 2, 7 // n, n % 2, 7 % n, n * n)] == [
        4, 4, 2, 4, 6, 6, 1, 2, 1, 1, 9]
    sch.split(j, [None, (n + 1) * 2])
    sch.annotate(i, "note", [n * 2, 1])
    assert loop_text(sch, "C")[:3] == ["i:13:serial", "j_0:3:serial", "j_1:8:serial"]
    assert sch.get(i).annotations == {"note": (6, 1)}
    assert "factors=[None, ((v4 + 1) * 2)]" in str(sch.trace)
    replayed(func, sch)
    changed = schedule(func)
    sample = next(inst for inst in sch.trace if inst.kind.name == "SampleCategorical")
    sch.trace.with_decision(sample, 1, False).apply_to_schedule(changed, False)
    assert loop_text(changed, "C")[2] == "j_1:12:serial"
    assert "sample_categorical" in str(sch.trace.simplified())
    with pytest.raises(ScheduleError, match="a sampled number is divided by zero"):
        sch.split(i, [None, 4 // (n - 3)])
    with pytest.raises(TypeError):
        n + 1.5


# ---------------------------------------------------------------- the schedule

def test_the_module_is_read_only_and_the_mask_a_number():
    sch = Schedule(matmul(), debug_mask=1)
    with pytest.raises(AttributeError):
        sch.mod = IRModule({})
    assert sch.debug_mask == 1 and Schedule(matmul(), debug_mask="all").debug_mask == 3
    assert Schedule(matmul()).debug_mask == 0
    for mask in (4, -1, "some", True, 1.5):
        with pytest.raises(ValueError, match=r"debug_mask is .*; known: all, none, or bits from 0 to 3"):
            Schedule(matmul(), debug_mask=mask)


def test_a_removed_handle_is_gone():
    sch = schedule(matmul())
    c = sch.get_block("C")
    sch.remove_rv(c)
    for call in (lambda: sch.get(c), lambda: sch.get_loops(c), lambda: sch.remove_rv(c)):
        with pytest.raises(ScheduleError, match="the handle is of another schedule, or was removed"):
            call()


def test_blocks_and_buffers_in_all_forms():
    func = matmul(relu=True)
    buffer = func.root.alloc_buffers[0]
    forms = [lambda s: s.cache_write("C", 0, "local"), lambda s: s.cache_write(s.get_block("C"), "C", "local"),
             lambda s: s.cache_write(block="C", write_buffer_index=buffer, storage_scope="local")]
    results = []
    for form in forms:
        sch = schedule(func)
        form(sch)
        results.append(sch.func)
    assert all(structural_equal(results[0], r) for r in results)
    results = []
    for which in (("read", 0), "C", buffer, ["read", 0]):
        sch = schedule(func)
        sch.transform_layout("D", which, lambda i, j: (j, i))
        results.append(sch.func)
    assert all(structural_equal(results[0], r) for r in results)


def test_copies_are_independent_both_ways():
    func = matmul()
    sch = sampled(func)
    c, n = sch.get_block("C"), sch.trace.insts[2].outputs[0]
    other = sch.copy()
    assert other.get(n) == sch.get(n) and other.get(c) is sch.get(c)
    other.annotate(c, "x", 1)
    assert "x" not in sch.get(c).annotations and len(other.trace) == len(sch.trace) + 1
    sch.remove_rv(c)
    assert other.get(c).name_hint == "C"


# ---------------------------------------------------------------- the state

def test_srefs_point_up():
    sch = schedule(matmul())
    i, j, k = sch.get_loops("C")
    block = sch.get_sref(sch.get_block("C"))
    assert block.stmt is sch.get(sch.get_block("C")) and block.parent.stmt is sch.get(k)
    assert block.parent.parent.parent.stmt is sch.get(i)
    root = block.parent.parent.parent.parent
    assert root.stmt.name_hint == "root" and root.parent is None and repr(root) == "StmtSRef(Block root)"
    assert sch.state.get_sref(sch.get(j)) == sch.get_sref(j)
    old = sch.get(i)
    sch.unroll(i)
    with pytest.raises(ValueError, match="the For is no block or loop of the module; it may be of an older state"):
        sch.state.get_sref(old)


def test_a_state_follows_and_replaces():
    sch = schedule(elementwise())
    i, _ = sch.get_loops("C")
    sref, block = sch.get_sref(i), sch.get_sref("C")
    sch.parallel(i)
    assert sch.get_sref(i).same_as(sref) and sref.stmt is sch.get(i) and sref.stmt.kind == "parallel"
    sch.split(i, [None, 2])
    assert sch.get_sref("C").same_as(block) and sref.stmt is None and sref.parent is None
    with pytest.raises(ValueError, match="changes by its primitives alone"):
        sch.state.replace(block, sch.get_sref("B").stmt)
    state = ScheduleState(elementwise(), debug_mask="all")
    first, second = state.mod["main"].body.block.body
    old, srefs = state.mod, (state.get_sref(first), state.get_sref(second))
    made = tir.Block(iter_vars=[], reads=[], writes=[], name_hint="new", body=second, init=None)
    state.replace(srefs[1], tir.BlockRealize([], True, made))
    assert state.mod["main"].body.block.body[1].block is made and old["main"].body.block.body[1] is second
    assert srefs[1].parent is state.get_sref(made) and srefs[1].parent.seq_index == 1
    state.replace(state.get_sref(made), made.replace(name_hint="other"), {made: state.mod["main"].body.block})
    with pytest.raises(TypeError, match="a For cannot stand for a Block"):
        state.replace(state.get_sref(state.mod["main"].body.block), first)


def test_dependences_of_a_scope():
    sch = schedule(softmax())
    names = [sch.get_sref(b) for b in sch.get_child_blocks("root")]
    scope = sch.state.get_block_scope(sch.get_sref("root"))
    sources = [d.src for d in scope.get_deps_by_dst(names[-1])]
    assert {s.stmt.name_hint for s in sources} == {"T_exp", "T_sum"}
    assert all(d.kind is DepKind.RAW for n in names for d in scope.get_deps_by_src(n))


@pytest.mark.parametrize("program, block, complete, reduction", [
    (matmul, "C", False, True), (elementwise, "B", True, False), (running_sum, "R", False, False),
    (lambda: softmax(), "T_sum", False, True)])
def test_block_kinds(program, block, complete, reduction):
    sch = schedule(program())
    info = sch.state.get_block_info(sch.get(sch.get_block(block)))
    assert (info.is_complete, info.is_reduction) == (complete, reduction) and info.affine_binding and info.region_cover


def test_block_info_of_scopes_and_lost_cover():
    sch = schedule(stencil(11))
    root = sch.state.get_block_info(sch.get(sch.get_block("root")))
    assert root.stage_pipeline and root.region_cover and not root.is_complete
    sch.compute_at("B", sch.get_loops("C")[0])
    sch.rolling_buffer("B", 0)
    state = sch.state
    assert state.mod is sch.mod and not state.get_block_info(sch.get_sref(sch.get_block("C"))).region_cover
    assert not state.get_block_info(sch.get(sch.get_block("root"))).stage_pipeline
    with pytest.raises(ValueError, match="get_block_info takes a block, not a For"):
        state.get_block_info(sch.get(sch.get_loops("C")[0]))


def test_a_binding_that_is_not_affine():
    a = tir.decl_buffer((8,), name="A")
    i, v = tir.Var("i"), tir.Var("v")
    iv = tir.IterVar(tir.Range(tir.const(0), tir.const(8)), v, "spatial")
    block = tir.Block((iv,), (), (a[v:v + 1],), "S", (), (), {}, None, tir.BufferStore(a, tir.const(1.0), (v,)))
    realize = tir.BlockRealize((i * i,), tir.const(True), block)
    sch = schedule(tir.prim_func([a], tir.for_(i, 2, realize)))
    assert not sch.state.get_block_info(sch.get(sch.get_block("S"))).affine_binding


# ---------------------------------------------------------------- errors for people

def test_the_place_is_underlined():
    sch = Schedule(matmul())
    with pytest.raises(ScheduleError) as caught:
        sch.parallel(sch.get_loops("C")[2])
    first, *program = str(caught.value).splitlines()
    assert first == ("parallel: argument 'loop': loop k runs the reduce iterator v_k of block C; its turns work on the "
                     "same element; choose a spatial loop")
    loop = next(n for n, line in enumerate(program) if "for i, j, k in" in line)
    assert program[loop + 1] == " " * program[loop].index("k in") + "^"
    block = next(n for n, line in enumerate(program) if 'T.block("C")' in line)
    assert program[block + 1].strip() == "^" * len('with T.block("C"):')
    assert program[block + 1].index("^") == program[block].index("with")


def test_long_programs_show_the_place_and_what_holds_it():
    sch = Schedule(packed_conv())
    i = sch.get_loops("relu")[1]
    sch.cache_read("relu", 0, "local")
    sch.cache_read("add", 1, "local")
    sch.cache_read("conv2d", 0, "local")
    with pytest.raises(ScheduleError) as caught:
        sch.fuse(i, sch.get_loops("conv2d")[0])
    lines = str(caught.value).splitlines()
    whole = sch.func.script().splitlines()
    assert len(lines) < len(whole) and any(line.strip() == "..." for line in lines)
    assert lines[2].startswith("def main(") and sum("^" in line for line in lines) == 2


def test_a_tried_program_is_called_so():
    sch = Schedule(matmul(relu=True))
    with pytest.raises(ScheduleError) as caught:
        sch.reverse_compute_at("D", sch.get_loops("C")[2])
    first, second, *program = str(caught.value).splitlines()
    assert first == ("reverse_compute_at: argument 'loop': the reduction of block C over v_k is not finished there; "
                     "choose a place where its inputs are complete")
    assert second == "# The program as reverse_compute_at would make it:"
    assert any("for i, j, k in" in line for line in program) and "    for i, j in T.grid(13, 22):" not in program


def test_levels():
    for level, text in (("fast", "unroll: the handle is of loop i, which an earlier primitive has removed; get the "
                         "loop again with get_loops"),
                        ("none", 'unroll cannot be applied (not rendered): error_render_level is "none"')):
        sch = Schedule(matmul(), error_render_level=level)
        i = sch.get_loops("C")[0]
        sch.split(i, [None, 2])
        with pytest.raises(ScheduleError) as caught:
            sch.unroll(i)
        assert str(caught.value) == text
        assert caught.value.primitive == "unroll" and caught.value.reason.startswith("the handle is of loop i")


def test_show(capsys):
    sch = sampled(matmul())
    sch.show()
    out = capsys.readouterr().out
    assert "@T.prim_func" in out and 'sch.get_block(name="C", func_name="main")' in out
    sch.trace.show()
    assert capsys.readouterr().out.startswith("# from tvm import tir\ndef apply_trace(")


def test_names_of_arguments_are_tvms(capsys):
    from ingot.tir.schedule.schedule import LoopRV as Loop
    sch = schedule(matmul())
    loop = sch.get_loops("C")[0]
    assert type(loop) is Loop and sch.get(rand_var_or_sref=sch.get_sref(rand_var_or_stmt=loop)) is sch.get(loop)
    sch.remove_rv(rand_var=loop)
    with pytest.raises(IndexError):
        sch.get(loop)
    sch.show(style="none", black_format=False)
    sch.trace.show("none", black_format=True)
    assert capsys.readouterr().out.count("sch.get_loops(block=b0)") == 2
