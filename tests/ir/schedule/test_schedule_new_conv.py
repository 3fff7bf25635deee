"""The tiled convolution that benchmarks/schedule_speed.py times: 60 primitives, the same numbers, replays."""
import importlib.util
from pathlib import Path

import pytest

from ingot.ir.node import structural_equal
from ingot.ir.schedule import Schedule
from ingot.ir.transform.pipeline import lower_prim_func
from ingot.script import from_source
from schedule_programs import assert_same, loop_text, replayed

PATH = Path(__file__).resolve().parents[3] / "benchmarks" / "schedule_speed.py"
spec = importlib.util.spec_from_file_location("schedule_speed", PATH)
speed = importlib.util.module_from_spec(spec)
spec.loader.exec_module(speed)


def tiled(**sizes):
    func = speed.convolution(**{"ci": 4, "co": 32, "h": 8, "w": 8, **sizes})
    sch = Schedule(func, debug_mask="all", error_render_level="fast")
    speed.tile(sch, (1, 2, 16), (sizes.get("h", 8) // 4, 4), (sizes.get("w", 8) // 4, 4), (2, 2))
    return func, sch


@pytest.mark.parametrize("sizes", [{}, {"n": 2, "h": 4, "w": 12, "k": 5, "pad": 2}])
def test_the_tiled_convolution_computes_the_same(sizes):
    func, sch = tiled(**sizes)
    assert len(sch.trace) == 60
    assert_same(func, sch.func)
    assert_same(func, lower_prim_func(sch.func))


def test_its_trace_replays_in_every_form():
    func, sch = tiled()
    replayed(func, sch)
    assert structural_equal(from_source(sch.mod.script()), sch.mod)


def test_its_structure():
    _, sch = tiled()
    assert loop_text(sch, "conv_update") == [
        "b_o_0_y_0_fused:2:parallel", "o_1:2:serial", "z_0:2:serial", "c_0:2:serial", "c_1:2:serial", "dy:3:serial",
        "dx:3:unrolled", "y_1:4:unrolled", "z_1:4:unrolled", "o_2:16:vectorized"]
    assert [sch.get(b).name_hint for b in sch.get_child_blocks("root")] == [
        "pad", "w_local", "conv_init", "pad_local", "conv_update", "conv_local"]
