"""TVM's names: modules under the places where scripts look for them, and names that are loaded when they are used."""
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import ingot
from ingot.tvm import places

ROOT = Path(ingot.__file__).resolve().parent

NAMES = """
import sys
import ingot as tvm
assert not {"numpy", "onnx", "jinja2", "cffi"} & set(sys.modules), "importing ingot is quick"
from ingot import te, tir, relax, arith, nd
from ingot.tir import Schedule
import ingot.tir.stmt
assert ingot.tir is ingot.tvm.tir and ingot.tir.stmt is ingot.ir.tir.stmt
assert ingot.tir.stmt.__name__ == ingot.tir.stmt.__spec__.name == "ingot.ir.tir.stmt"
assert Schedule is tvm.Schedule and tvm.nd.array is tvm.runtime.ndarray.array and tvm.target.Target is tvm.Target
from ingot.tir.transform import Simplify
from ingot.transform import PassContext, pipeline
import ingot.ir.transform.pipeline
assert ingot.ir.transform.pipeline is pipeline and tvm.transform is tvm.ir.transform
from ingot.instrument import PassTimingInstrument
assert tvm.ir.instrument.PassTimingInstrument is PassTimingInstrument and tvm.tir.transform.Simplify is Simplify
assert "build" in dir(tvm) and tvm.__version__
for name in ("ingot.tir.nothing", "ingot.nothing"):
    try:
        __import__(name)
    except ModuleNotFoundError as error:
        print(error)
try:
    tvm.nothing
except AttributeError as error:
    print(error)
"""


def test_names_of_the_package():
    """In a process of its own: names are loaded when they are used."""
    done = subprocess.run([sys.executable, "-c", NAMES], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["No module named 'ingot.ir.tir.nothing'", "No module named 'ingot.nothing'",
                                        "module 'ingot' has no attribute 'nothing'"]


def test_every_module_of_the_facade_has_a_place():
    files = {path.relative_to(ROOT / "tvm").with_suffix("").parts for path in (ROOT / "tvm").rglob("*.py")}
    names = {".".join(p[:-1] if p[-1] == "__init__" else p) for p in files} - {"", "places"}
    assert names == places.OWN


@pytest.mark.parametrize("name, place", [
    ("te", "tvm.te"), ("te.schedule", "tvm.te.schedule"), ("te.tensor", "ir.te.tensor"), ("tir.stmt", "ir.tir.stmt"),
    ("tir.transform", "tvm.tir.transform"), ("tir.schedule.trace", "ir.schedule.trace"), ("tir.op", "ir.tir.intrin"),
    ("tir.schedule._type_checker", "tvm.tir.type_checker"), ("tir.schedule.instruction", "ir.schedule.trace"),
    ("relax.op", "ir.relax.op"), ("relax.transform", "tvm.relax.transform"), ("nd", "runtime.ndarray"),
    ("contrib.utils", "tvm.contrib.utils"), ("ir.instrument", "ir.transform.instrument"), ("ir.module", "ir.module"),
])
def test_places(name, place):
    """One module object by every name: import ingot as tvm, from ingot import tvm, and where it is."""
    assert places.place_of(name) == place
    module = import_module(f"ingot.{place}")
    assert import_module(f"ingot.{name}") is import_module(f"ingot.tvm.{name}") is module
    assert module.__spec__.name == f"ingot.{place}"


@pytest.mark.parametrize("package", ["te", "tir", "relax"])
def test_packages_of_the_facade_have_all_names_of_the_core(package):
    core, facade = import_module(f"ingot.ir.{package}"), import_module(f"ingot.{package}")
    names = [name for name in vars(core) if not name.startswith("_") and f"{package}.{name}" not in places.OWN]
    wider = {"BindingBlock", "Expr", "Var"} if package == "relax" else set()  # base classes in TVM, which more values are of
    assert names and all(getattr(facade, name) is getattr(core, name) for name in names if name not in wider)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        facade.nothing


def test_a_module_of_the_facades_own_stands_for_the_cores():
    """relax.expr has the nodes by TVM's names too, however it is reached."""
    assert ingot.relax.expr is import_module("ingot.relax.expr")
    assert ingot.relax.expr.Var is ingot.relax.Var and ingot.relax.expr.Constant is ingot.relax.Constant


def test_each_module_is_imported_by_its_name():
    for name in {*places.OWN, *places.PLACES}:
        assert import_module(f"ingot.{name}") is import_module(f"ingot.tvm.{name}"), name


def test_the_facade_has_the_names_of_ingot():
    from ingot import tvm
    assert tvm.IRModule is ingot.IRModule and tvm.Target is ingot.Target and tvm.build is ingot.build
    assert tvm.cpu(0) == ingot.cpu(0) and {"build", "nd", "te", "TVMError"} <= set(dir(tvm))
    with pytest.raises(AttributeError, match="module 'ingot' has no attribute 'nothing'"):
        tvm.nothing


# ---------------------------------------------------------------- what is not there

def test_each_twin_of_a_name_of_relays_is_there():
    from ingot.tvm.relay import TWINS, find
    assert not [other for other in TWINS.values() if find(other) is None]


@pytest.mark.parametrize("name, other", [
    ("nn.dense", "relax.op.linear"), ("nn.conv2d", "relax.op.nn.conv2d"), ("op.nn.softmax", "relax.op.nn.softmax"),
    ("Function", "relax.Function"), ("frontend.from_onnx", "relax.frontend.onnx.from_onnx"),
    ("frontend.from_keras", "relax.frontend.onnx.from_onnx"), ("qnn.op.conv2d", "relax.op.dequantize"),
    ("transform.InferType", "relax.transform.Normalize"), ("transform.FuseOps", "relax.transform.FuseOps"),
    ("testing.resnet", "relax.testing.nn")])
def test_names_of_relays_say_what_relax_has(name, other):
    relay = import_module("ingot.relay")
    with pytest.raises(AttributeError, match=f"tvm.relay.{name} is not there: .*which has tvm.{other}$"):
        for part in name.split("."):
            relay = getattr(relay, part)


@pytest.mark.parametrize("name, there", [
    ("autotvm.tuner", "tvm.tir.Schedule writes them by hand"), ("auto_scheduler", "rules choose them"),
    ("meta_schedule.tune", "schedules are not searched for"), ("micro", "folders of C"),
    ("relax.frontend.tflite", "frontends are nn, onnx and torch"), ("contrib.tedd", "mod.show()"), ("relay.testing", "relax.testing.nn"), ("relax.transform.MetaScheduleTuneTIR", "rules")])
def test_what_is_not_there_says_at_its_import_what_is(name, there):
    with pytest.raises(ImportError, match=there):
        import_module(f"ingot.{name}")


def test_what_is_not_there_says_where_it_is_used_what_is():
    for use in (lambda: ingot.autotvm, lambda: ingot.meta_schedule.tune_tir,
                lambda: ingot.relax.transform.MetaScheduleTuneTIR, lambda: ingot.contrib.tedd, lambda: ingot.target.datatype):
        with pytest.raises(AttributeError, match="is not there: "):
            use()
    with pytest.raises(ValueError, match="schedules are not searched for"):
        ingot.relax.get_pipeline("static_shape_tuning")


# ---------------------------------------------------------------- targets and devices

def test_targets_by_functions():
    from ingot.target import arm_cpu, codegen, mali, rocm
    assert ingot.target.codegen is codegen and import_module("ingot._ffi.registry") is ingot._ffi.registry
    assert arm_cpu("rasp4b64").name == "aarch64-cortex-a72" and arm_cpu().device_name == "arm_cpu"
    assert mali().name == "opencl" and mali(options="-libs=a").attrs["libs"] == ["a"] and rocm().kind == "rocm"
    assert codegen.target_has_features("avx2", "x86-64-v3") and not codegen.target_has_features("avx512f", "x86-64-v3")
    with ingot.Target("x86-64-v4-vnni"):
        assert codegen.target_has_features(["avx512vnni", "fma"])
    assert codegen.llvm_version_major(allow_none=True) is None


def test_devices_by_older_names():
    assert ingot.context("llvm", 0) == ingot.cpu(0) and ingot.gpu(1) == ingot.cuda(1) == ingot.context("gpu", 1)
    assert str(ingot.opencl(2)) == "opencl(2)" and ingot.device("rocm:1") == ingot.rocm(1) and ingot.mtl() == ingot.metal()
    assert ingot.device(ingot.runtime.Device.kDLMetal, 2) == ingot.metal(2) and ingot.cpu().device_type == 1
    assert not ingot.vulkan(0).exist
    for use in (lambda: ingot.nd.empty((2,), device=ingot.rocm()), lambda: ingot.opencl().sync()):
        with pytest.raises(ValueError, match="there is no device (rocm|opencl).0. here"):
            use()


def test_what_there_is_on_this_machine(capsys):
    from ingot.runtime.container import String
    from ingot.runtime.module import BenchmarkResult
    info = ingot.support.libinfo()
    assert info["USE_LLVM"] == "OFF" and info["USE_CUDA"] in ("ON", "OFF") and info["INGOT_VERSION"] == ingot.__version__
    ingot.support.describe()
    assert "USE_OPENMP: " in capsys.readouterr().out
    assert String is ingot.runtime.String and BenchmarkResult is ingot.runtime.BenchmarkResult
    assert ingot._ffi.registry.get_global_func is ingot._ffi.get_global_func is ingot.get_global_func
