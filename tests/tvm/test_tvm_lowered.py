"""Modules that are lowered already, run as they stand; sessions on this machine."""
import numpy as np
import pytest

import ingot as tvm
from ingot import relax, rpc
from ingot.script import ir as I
from ingot.script import relax as R

tvm.register_func("test.lowered.known", lambda value: 0 if value is None else 1, override=True)
tvm.register_func("test.lowered.double", lambda x: tvm.nd.array(x.numpy() * 2), override=True)


@I.ir_module
class Lowered:
    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32")):
        known = R.ExternFunc("test.lowered.known")
        y = R.call_packed("test.lowered.double", x, sinfo_args=R.Tensor((2,), "float32"))
        also = y
        R.vm.kill_object(y)
        gone = known(y)
        here = known(also)
        return (also, gone, here)


def linked(mode="bytecode"):
    builder = relax.ExecBuilder()
    return relax.vm_build._vmlink(builder, "c", relax.vm_build._vmcodegen(builder, Lowered, mode))


def test_values_are_let_go_and_nothing_is_checked():
    double = np.array([0.5, 3.0])  # a tensor of another dtype than the function declares: the module would check that
    also, gone, here = relax.VirtualMachine(linked(), tvm.cpu())["main"](tvm.nd.array(double))
    assert (gone, here) == (0, 1) and also.dtype == "float64"
    np.testing.assert_array_equal(also.numpy(), double * 2)
    with pytest.raises(ValueError, match="Unknown exec_mode fast"):
        linked("fast")
    with pytest.raises(ValueError, match="_vmlink builds what _vmcodegen was given"):
        relax.vm_build._vmlink(relax.ExecBuilder(), "c")


def test_sessions_run_what_was_uploaded(tmp_path):
    linked().export_library(tmp_path / "net.tar")
    session = rpc.LocalSession()
    session.upload(tmp_path / "net.tar", "other.tar")
    loaded = session.load_module("other.tar")
    assert loaded["as_text"]() == Lowered.script()
    array = np.array([1.0, 4.0])
    result = relax.VirtualMachine(loaded, session.cpu())["main"](tvm.nd.array(array))[0]
    np.testing.assert_array_equal(result.numpy(), array * 2)
    session.upload(b"words", "text.txt")
    assert session.download("text.txt") == b"words"
    with pytest.raises(ValueError, match="outside of the session's folder"):
        session.download("../x")
    with pytest.raises(AttributeError, match="tvm.rpc.Server is not there"):
        rpc.Server  # noqa: B018
