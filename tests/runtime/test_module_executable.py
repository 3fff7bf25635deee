"""Executable(mod) of a Module, and what a Module says of itself."""
import numpy as np
import pytest

import ingot as tvm
from ingot.runtime import Executable, ModulePropertyMask
from ingot.script import tir as T


@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        B[i] = A[i] + T.float32(1)


def _runs(call):
    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    call(a, b)
    np.testing.assert_array_equal(b, a + 1)


def test_an_executable_of_a_module(tmp_path):
    lib = tvm.tir.build(main, target="llvm")
    exe = Executable(lib)
    assert isinstance(exe, Executable) and exe.mod is lib and exe._jitted_mod is None
    jitted = exe.jit()
    assert jitted is lib and exe.jit() is jitted
    again = exe.jit(force_recompile=True)
    assert again is not lib and exe.jit() is again
    for call in (exe, exe["main"], jitted["main"], again):
        _runs(call)
    exe.export_library(str(tmp_path / "m.so"), workspace_dir=str(tmp_path))
    assert "main" in (tmp_path / "m.c").read_text()
    _runs(tvm.runtime.load_module(str(tmp_path / "m.so"))["main"])
    assert "B[i] = A[i] + 1.0f" in exe.get_source()
    with pytest.raises(ValueError, match="jit: the compiler is that which CC names"):
        exe.jit(fcompile=print)
    with pytest.raises(AttributeError):
        exe.nothing


def test_what_a_module_can_do():
    lib = tvm.build(main)
    assert lib.is_runnable and lib.is_dso_exportable and not lib.is_device_module and lib.format == "c"
    assert lib.get_property_mask() == ModulePropertyMask.RUNNABLE | ModulePropertyMask.DSO_EXPORTABLE == 6
