"""How passes run: names and levels, Sequential, PassContext, instruments, passes made of functions, their errors."""
import inspect
import subprocess
import sys

import pytest
from tir_cases import CASES, fill_program, matmul_te

from ingot.codegen.target import Target
from ingot.ir import tir
from ingot.ir.expr import Var, const
from ingot.ir.module import IRModule
from ingot.ir.node import collect
from ingot.ir.transform.context import PassContext, Sequential, function_pass, module_pass, prim_func_pass
from ingot.relax import transform as relax_transform
from ingot.tir import transform
from ingot.ir.transform.instrument import (PassInstrument, PassPrintingInstrument, PassTimingInstrument, PrintAfterAll,
                                           PrintBeforeAll, WellFormedInstrument, pass_instrument)
from ingot.ir.transform.pass_table import RELAX, TIR
from ingot.ir.transform.pipeline import TIR_PASSES, Network, lower_module, pipeline_for


def module(name="matmul"):
    return IRModule({"main": CASES[name]()})


@pass_instrument
class Recorder:
    """Every call of an instrument, in order."""

    def __init__(self, refuse=()):
        self.events, self.refuse = [], refuse

    def enter_pass_ctx(self):
        self.events.append("enter")

    def exit_pass_ctx(self):
        self.events.append("exit")

    def should_run(self, mod, info):
        return info.name not in self.refuse

    def run_before_pass(self, mod, info):
        self.events.append(f"before {info.name}")

    def run_after_pass(self, mod, info):
        self.events.append(f"after {info.name}")


def names_run(passes, **options):
    recorder = Recorder()
    with PassContext(instruments=[recorder], **options):
        Sequential(passes)(module())
    return [e.removeprefix("before ") for e in recorder.events if e.startswith("before") and "sequential" not in e]


# ---------------------------------------------------------------- passes by name

def test_a_pass_alone_takes_and_gives_a_module():
    before = module()
    after = transform.LowerInitBlock()(before)
    assert any(b.init for b in collect(before["main"].body, tir.Block))
    assert not any(b.init for b in collect(after["main"].body, tir.Block))
    assert transform.LowerInitBlock()(after) is after, "nothing to do leaves the module itself"


def test_every_name_makes_a_pass_that_says_what_it_does():
    for make in (*TIR.values(), *RELAX.values()):
        required = [p for p in inspect.signature(make).parameters.values() if p.default is p.empty]
        assert make(*(8 for _ in required)).name == make.__name__ and make.__doc__


def test_every_pass_of_the_table_is_in_a_pipeline():
    """A pass that no pipeline uses is not wanted; those for some small floats are parts of the one for all."""
    used = {p.name for kind in ("c", "cuda") for p in pipeline_for(Target.get("c") if kind == "c" else kind, Network())}
    used |= {"MakePackedAPI"}  # tvm.build runs that first
    parts = {n for n in TIR if n.startswith(("BF16", "FP16", "FP8"))}
    assert set(TIR) == used | parts | {"DefaultGPUSchedule"}  # which scripts ask for


def test_settings_are_known_before_a_pass_is():
    code = ("import ingot as tvm; "
            "tvm.ir.transform.context.PassContext(config={'tir.UnrollLoop': {'auto_max_step': 16}, 'tir.Simplify': "
            "{'transitively_prove_inequalities': True}, 'tir.RemoveNoOp': {'use_dataflow_analysis': True}})")
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(ValueError, match="'tir.Simplify': it is a dict with some of .*, not 'prove'"):
        PassContext(config={"tir.Simplify": {"prove": True}})


@pytest.mark.parametrize("call, message", [
    (lambda: transform.NarrowDataType(32, target=3), "unexpected keyword argument 'target'"),
    (lambda: transform.BF16ComputeLegalize(("int8",)), "too many positional arguments"),
    (lambda: transform.Simplify()(module()["main"]), "pass Simplify takes an IRModule, not a PrimFunc"),
    (lambda: Sequential([lambda m: m]), "Sequential takes passes, such as tir.transform.Simplify"),
    (lambda: relax_transform.PackWeights(), "missing a required argument: 'target'"),
    (lambda: PassContext(disabled_pass=[transform.Simplify()]), "disabled_pass is a list of pass names, not of Pass"),
])
def test_wrong_types(call, message):
    with pytest.raises(TypeError, match=message):
        call()


@pytest.mark.parametrize("call, message", [
    (lambda: PassContext(config={"tir.Unroll": {}}), "unknown config option 'tir.Unroll'; known: .*tir.UnrollLoop"),
    (lambda: PassContext(config={"tir.UnrollLoop": {"step": 1}}), "'tir.UnrollLoop': .*auto_max_step.*, not 'step'"),
    (lambda: PassContext(config={"tir.UnrollLoop": 3}), "'tir.UnrollLoop': it is a dict .*, not 3"),
    (lambda: PassContext(config={"tir.disable_vectorize": "no"}), "'tir.disable_vectorize': it is True or False"),
    (lambda: PassContext.lookup("Simplfy"), "unknown pass 'Simplfy'; known: .*Simplify"),
])
def test_wrong_values(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ---------------------------------------------------------------- Sequential and PassContext

def test_levels_required_and_disabled():
    low, high = transform.LowerInitBlock(), transform.LoopPartition()
    assert names_run([low, high]) == ["LowerInitBlock", "LoopPartition"]
    assert names_run([low, high], opt_level=0) == ["LowerInitBlock"]
    assert names_run([low, high], opt_level=0, required_pass=["LoopPartition"]) == ["LowerInitBlock", "LoopPartition"]
    assert names_run([low, high], disabled_pass=["LowerInitBlock"]) == ["LoopPartition"]
    assert names_run([low], disabled_pass=["LowerInitBlock"], required_pass=["LowerInitBlock"]) == []


def test_a_pass_runs_what_it_requires_first():
    @prim_func_pass(opt_level=0, required=["LowerInitBlock", "tir.RemoveNoOp"])
    def mine(func, mod, ctx):
        return func

    assert names_run([mine]) == ["LowerInitBlock", "RemoveNoOp", "mine"]


def test_a_pass_called_by_itself_runs_at_any_level():
    with PassContext(opt_level=0, disabled_pass=["LowerInitBlock"]):
        assert not any(b.init for b in collect(transform.LowerInitBlock()(module())["main"].body, tir.Block))


def test_contexts_nest():
    assert PassContext.current().opt_level == 2
    with PassContext(opt_level=3) as outer:
        with PassContext(opt_level=1) as inner:
            assert PassContext.current() is inner
        assert PassContext.current() is outer
        with pytest.raises(KeyError):
            with PassContext(opt_level=1):
                raise KeyError
        assert PassContext.current() is outer
    assert PassContext.current().opt_level == 2


def test_settings_steer_passes():
    func = fill_program(lambda fill: tir.for_(i := Var("i"), 4, fill(i), "unrolled"))
    mod = IRModule({"main": func})

    def loops(**config):
        with PassContext(config=config):
            return len(collect(transform.UnrollLoop()(mod)["main"].body, tir.For))

    assert loops() == 0
    assert loops(**{"tir.UnrollLoop": {"explicit_unroll": False}}) == 1
    assert "tir.disable_cse_tir" in PassContext.list_configs()


def test_the_whole_pipeline_is_seen():
    recorder = Recorder()
    with PassContext(instruments=[recorder]):
        lower_module(module())
    inside = [e for e in recorder.events if e.startswith("before")]
    assert inside == ["before LowerTIR", *(f"before {p.name}" for p in TIR_PASSES)]
    assert recorder.events[0] == "enter" and recorder.events[-2:] == ["after LowerTIR", "exit"]


# ---------------------------------------------------------------- instruments

def test_an_instrument_may_leave_a_pass_out():
    with PassContext(instruments=[Recorder(refuse=["LowerInitBlock"]), PassInstrument()]) as context:
        mod = module()
        assert transform.LowerInitBlock()(mod) is mod
    assert context.instruments[0].events == ["enter", "exit"]


def test_instruments_are_entered_together_or_not_at_all():
    class Broken(PassInstrument):
        def enter_pass_ctx(self):
            raise RuntimeError("no")

    first, before = Recorder(), PassContext.current().opt_level
    with pytest.raises(RuntimeError, match="no"):
        with PassContext(opt_level=0, instruments=[first, Broken()]):
            pass
    assert first.events == ["enter", "exit"] and PassContext.current().opt_level == before


def test_instruments_can_be_replaced():
    first, second = Recorder(), Recorder()
    with PassContext(instruments=[first]) as context:
        context.override_instruments([second])
        transform.Simplify()(module())
        context.override_instruments(None)
        transform.Simplify()(module())
    assert first.events == ["enter", "exit"]
    assert second.events == ["enter", "before Simplify", "after Simplify", "exit"]


def test_timing_is_a_table_of_nested_passes():
    timing = PassTimingInstrument()
    with PassContext(instruments=[timing]):
        Sequential([transform.LowerInitBlock(), Sequential([transform.RemoveNoOp()], name="inner")])(module())
    lines = timing.render().splitlines()
    names = [line.split()[0] for line in lines]
    assert names == ["pass", "sequential", "LowerInitBlock", "inner", "RemoveNoOp", "total"]
    assert lines[4].startswith("    RemoveNoOp") and lines[-1].split()[-1] == "100.0"
    with PassContext(instruments=[timing]):
        assert timing.render() == ""


def test_printing_instruments(capsys):
    with PassContext(instruments=[PrintBeforeAll(), PrintAfterAll()]):
        transform.LowerInitBlock()(module())
    before, after = capsys.readouterr().out.split("# After Running Pass: LowerInitBlock\n")
    assert before.startswith("# Before Running Pass: LowerInitBlock\n") and "T.init()" in before and "T.init()" not in after
    with PassContext(instruments=[PassPrintingInstrument(print_after_pass_names=["RemoveNoOp"])]):
        Sequential([transform.LowerInitBlock(), transform.RemoveNoOp()])(module())
    assert capsys.readouterr().out.count("Running Pass:") == 1


def test_verifying_between_passes_names_the_pass():
    @prim_func_pass(opt_level=0)
    def breaks(func, mod, ctx):
        y = func.buffers[-1]
        return func.with_root_body(tir.BufferStore(y, const(0.0), (Var("nowhere"), const(0))))

    with PassContext(instruments=[WellFormedInstrument()]):
        transform.LowerInitBlock()(module())
        with pytest.raises(ValueError, match="after pass breaks: .*nowhere is used where nothing defines it"):
            breaks(module())
    with PassContext(instruments=[WellFormedInstrument()]):
        broken = breaks.run(module(), PassContext.current())
        with pytest.raises(ValueError, match="before pass Simplify: .*nowhere"):
            transform.Simplify()(broken)


# ---------------------------------------------------------------- passes from functions and classes

def test_passes_from_functions_and_classes():
    @prim_func_pass(opt_level=1, name="Mark")
    def mark(func, mod, ctx):
        assert isinstance(mod, IRModule) and isinstance(ctx, PassContext)
        return func.with_attr("marked", True)

    @prim_func_pass(opt_level=0)
    class Rename:
        def __init__(self, symbol):
            self.symbol = symbol

        def transform_function(self, func, mod, ctx):
            return func.with_attr("global_symbol", self.symbol)

    @module_pass(opt_level=0)
    def twice(mod, ctx):
        return mod.with_function("again", mod["main"])

    @module_pass(opt_level=0)
    class Drop:
        def transform_module(self, mod, ctx):
            return mod.with_functions({"main": mod["main"]})

    mod = Sequential([mark, Rename("mine"), twice])(module())
    assert mark.info.name == "Mark" and mark.info.opt_level == 1
    assert mod["again"].attrs["marked"] and mod["again"].attrs["global_symbol"] == "mine"
    assert list(Drop()(mod).functions) == ["main"]


def test_a_pass_over_graph_functions_leaves_prim_funcs_alone():
    @function_pass(opt_level=0)
    def never(func, mod, ctx):
        raise AssertionError

    mod = IRModule({"main": matmul_te(2, 2, 2)})
    assert never(mod) is mod


def test_passes_must_return_modules_and_functions():
    @prim_func_pass
    def nonsense(func, mod, ctx):
        return 3

    @module_pass
    def nothing(mod, ctx):
        """Forgets its result."""

    with pytest.raises(TypeError, match="a pass over functions returned a int for main"):
        nonsense(module())
    with pytest.raises(TypeError, match="pass nothing returned a NoneType instead of an IRModule"):
        nothing(module())
    with pytest.raises(TypeError, match="class Empty has none of transform_function, transform_module, transform_dataflowblock"):
        module_pass(type("Empty", (), {}))()
