"""The Schedule itself: handles, traces, errors, modules, arguments."""
import pytest

from ingot.ir.module import IRModule
from ingot.ir.node import structural_equal
from ingot.ir.schedule import LoopRV, Schedule, ScheduleError
from ingot.ir.schedule.registry import PRIMITIVES
from schedule_programs import elementwise, matmul, softmax


def test_handles_follow_the_program():
    sch = Schedule(matmul())
    c = sch.get_block("C")
    i, j, k = sch.get_loops(c)
    assert sch.get(i).loop_var.name == "i" and sch.get(c).name_hint == "C"
    sch.reorder(k, i, j)
    assert sch.get(i).loop_var.name == "i"
    sch.split(i, [None, 4])
    with pytest.raises(ScheduleError, match="the handle is of loop i, which an earlier primitive has removed; "
                       "get the loop again with get_loops"):
        sch.unroll(i)


def test_a_refusal_changes_nothing():
    sch = Schedule(matmul(), error_render_level="fast")
    k = sch.get_loops("C")[2]
    before, steps = sch.func, len(sch.trace)
    for refused in (lambda: sch.vectorize(k), lambda: sch.compute_inline("C")):
        with pytest.raises(ScheduleError):
            refused()
        assert sch.func is before and len(sch.trace) == steps


def test_trace_prints_as_python_and_replays():
    func = matmul()
    sch = Schedule(func)
    c = sch.get_block("C")
    i, j, k = sch.get_loops(c)
    jo, ji = sch.split(j, factors=[None, 16])
    sch.reorder(jo, k, ji)
    sch.vectorize(ji)
    sch.annotate(jo, "pragma_note", [1, "x"])
    copy = sch.cache_read(c, 0, "local")
    row, _ = sch.get_loops(copy)
    only, = sch.get_child_blocks(row)
    assert str(sch.trace).splitlines()[:2] == ["# from tvm import tir", "def apply_trace(sch: tir.Schedule) -> None:"]
    assert str(sch.trace).splitlines()[2:] == ["  " + line for line in sch.trace.as_python()]
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="C", func_name="main")',
        "l1, l2, l3 = sch.get_loops(block=b0)",
        "l4, l5 = sch.split(loop=l2, factors=[None, 16], preserve_unit_iters=True, disable_predication=False)",
        "sch.reorder(l4, l3, l5)",
        "sch.vectorize(loop=l5)",
        'sch.annotate(block_or_loop=l4, ann_key="pragma_note", ann_val=[1, "x"])',
        'b6 = sch.cache_read(block=b0, read_buffer_index=0, storage_scope="local", consumer_blocks=None)',
        "l7, l8 = sch.get_loops(block=b6)",
        "b9, = sch.get_child_blocks(block_or_loop=l7)",
    ]
    other, text = Schedule(func), Schedule(func)
    handles = sch.trace.apply(other)
    assert structural_equal(other.func, sch.func) and str(other.trace) == str(sch.trace)
    assert other.get(handles[only]).name_hint == "A_local"
    exec("\n".join(sch.trace.as_python()), {"sch": text})
    assert structural_equal(text.func, sch.func)


def test_a_trace_of_another_program_is_refused_where_it_fails():
    sch = Schedule(matmul())
    sch.parallel(sch.get_loops("C")[1])
    other = Schedule(softmax(), error_render_level="fast")
    with pytest.raises(ScheduleError, match="Cannot find a block with the specified name, 'C'; function main has root"):
        sch.trace.apply(other)


def test_modules_and_work_on():
    sch = Schedule(IRModule({"first": matmul(), "second": elementwise()}))
    assert sch.func_working_on is None
    with pytest.raises(ValueError, match="does not know which function to be working on; .* one of first, second"):
        sch.get_block("C")
    sch.enter_postproc()
    sch.work_on("first")
    sch.parallel(sch.get_loops(sch.get_block("C"))[0])
    sch.work_on("second")
    assert sch.func_working_on == "second"
    b = sch.get_block("B")
    sch.compute_at(b, sch.get_loops("C")[0])
    assert sch.func is sch.mod["second"]
    assert [s.kind for s in (sch.get(sch.get_loops(sch.get_block("C", func_name="first"))[0]),)] == ["parallel"]
    with pytest.raises(ScheduleError, match="the handles are of different functions: second, first"):
        sch.compute_at(b, sch.get_loops(sch.get_block("C", "first"))[0])
    with pytest.raises(ScheduleError, match="'third' is no PrimFunc of the module; it has first, second"):
        sch.work_on("third")


@pytest.mark.parametrize("call, message", [
    (lambda s: s.split("i", [2]), "split: argument 'loop': must be a loop (LoopRV), not 'i'"),
    (lambda s: s.split(s.get_block("C"), [2]), "split: argument 'loop': must be a loop (LoopRV), not BlockRV"),
    (lambda s: s.compute_at("C", "i"), "compute_at: argument 'loop': must be a loop (LoopRV), not 'i'"),
    (lambda s: s.get_loops(3), "get_loops: argument 'block': must be a block (BlockRV or name), not 3"),
    (lambda s: s.compute_at("C", s.get_loops("C")[0], index="last"), "compute_at: argument 'index': must be an int"),
    (lambda s: s.compute_at("C", s.get_loops("C")[0], 1), "argument 'preserve_unit_loops': must be a bool, not 1"),
    (lambda s: s.cache_read("C", 0, None), "argument 'storage_scope': must be a string, not None"),
    (lambda s: s.cache_read("C", 1.5, "local"), "'read_buffer_index': must be a position in the block's signature"),
    (lambda s: s.annotate(s.get_block("C"), "k", object()), "argument 'ann_val': must be a string, number"),
    (lambda s: s.get_block("D"),
     "get_block: Cannot find a block with the specified name, 'D'; function main has root, C"),
    (lambda s: s.apply("tile", {}), "tile: there is no such primitive; known: "),
])
def test_arguments_are_checked(call, message):
    sch = Schedule(matmul(), error_render_level="fast")
    with pytest.raises(ScheduleError) as caught:
        call(sch)
    assert message in str(caught.value)


@pytest.mark.parametrize("level, message", [
    ("detail", "get_block: argument 'name': Cannot find a block with the name: D; function main has root, C"),
    ("fast", "get_block: Cannot find a block with the specified name, 'D'; function main has root, C"),
    ("none", "get_block cannot be applied (not rendered): error_render_level is \"none\""),
])
def test_what_an_error_says_by_level(level, message):
    with pytest.raises(ScheduleError) as caught:
        Schedule(matmul(), error_render_level=level).get_block("D")
    assert caught.value.args == (message,) and str(caught.value).split("\n")[0] == message


def test_python_argument_errors_stay_python():
    sch = Schedule(matmul())
    with pytest.raises(TypeError, match="missing a required argument: 'factors'"):
        sch.split(sch.get_loops("C")[0])
    with pytest.raises(ScheduleError, match="the handle is of another schedule"):
        Schedule(matmul()).unroll(LoopRV())


def test_constructor_arguments():
    with pytest.raises(TypeError, match="Schedule takes an IRModule or a PrimFunc, not a str"):
        Schedule("x")
    with pytest.raises(ValueError, match="error_render_level is 'loud'; known: detail, fast, none"):
        Schedule(matmul(), error_render_level="loud")


def test_every_primitive_is_documented_and_a_method():
    for name, primitive in PRIMITIVES.items():
        method = getattr(Schedule, name)
        assert method.__doc__ and method.__name__ == name
        assert list(method.__signature__.parameters)[1:] == list(primitive.signature.parameters)
