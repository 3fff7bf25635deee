"""Programs of the virtual machine written instruction by instruction."""
import numpy as np
import pytest

import ingot as tvm
from ingot import relax
from ingot.relax.testing import vm as _registered  # noqa: F401

A, B = np.arange(4, dtype="float32"), np.full(4, 3, "float32")


def machine(builder):
    return relax.VirtualMachine(builder.get(), tvm.cpu())


def test_branches_and_registers():
    """The product where the first argument is 0, else the sum; registers are numbered anew."""
    texts = []
    for first in (3, 70):
        ib = relax.ExecBuilder()
        with ib.function("main", num_inputs=3, param_names=["which", "a", "b"]):
            ib.emit_if(ib.r(0), 3)
            ib.emit_call("test.vm.add", args=[ib.r(1), ib.r(2)], dst=ib.r(first))
            ib.emit_goto(2)
            ib.emit_call("test.vm.mul", args=[ib.r(1), ib.r(2)], dst=ib.r(first))
            ib.emit_ret(ib.r(first))
        texts.append(ib.get().as_text())
    assert (texts[0] == texts[1] and "If    %0, 3" in texts[0]
            and "test.vm.mul      in: %1, %2       dst: %3" in texts[0])
    vm = machine(ib)
    for which, want in ((0, A * B), (1, A + B)):
        np.testing.assert_array_equal(vm["main"](which, A, B).numpy(), want)
    vm.set_input("main", which=1, a=A, b=B)
    vm.invoke_stateful("main")
    np.testing.assert_array_equal(vm.get_outputs("main").numpy(), A + B)


def test_functions_constants_and_closures():
    ib = relax.ExecBuilder()
    with ib.function("sum", num_inputs=3):
        ib.emit_call("test.vm.add", args=[ib.r(0), ib.r(1)], dst=ib.r(3))
        ib.emit_call("test.vm.add", args=[ib.r(2), ib.r(3)], dst=ib.r(3))
        ib.emit_ret(ib.r(3))
    with ib.function("bound"):
        ib.emit_call("vm.builtin.make_closure", args=[ib.f("sum"), tvm.nd.array(A)], dst=ib.r(0))
        ib.emit_ret(ib.r(0))
    with ib.function("made"):
        ib.emit_call("vm.builtin.alloc_storage", args=[ib.vm_state(), (16,), ib.imm(0), tvm.DataType("uint8")],
                     dst=ib.r(0))
        ib.emit_call("vm.builtin.alloc_tensor", args=[ib.r(0), ib.imm(8), (2,), tvm.DataType("float32")], dst=ib.r(1))
        ib.emit_call("vm.builtin.shape_of", args=[ib.r(1)], dst=ib.r(2))
        ib.emit_ret(ib.r(2))
    assert ib.convert_constant(tvm.nd.array(A)) == ib.c(0) != ib.convert_constant(tvm.nd.array(B))
    zeros = (0.0, -0.0, tvm.nd.array(0 * A), tvm.nd.array(-0.0 * A), 0.0)
    found = [ib.convert_constant(z).value for z in zeros]
    assert len(set(found)) == 4 and found[0] == found[-1]
    vm = machine(ib)
    np.testing.assert_array_equal(vm.invoke_closure(vm["bound"](), tvm.nd.array(B), tvm.nd.array(B)).numpy(), A + 2 * B)
    assert vm["made"]() == (2,)


def test_arrays_and_what_a_tensor_decides():
    ib = relax.ExecBuilder()
    with ib.function("main", num_inputs=1):
        ib.emit_if(ib.r(0), 3)
        ib.emit_call("test.vm.add", [A, A], ib.r(1))
        ib.emit_ret(ib.r(1))
        ib.emit_ret(ib.r(0))
    assert ib.get().constants[1:] == ()
    vm = machine(ib)
    np.testing.assert_array_equal(vm["main"](tvm.nd.array(np.array(True))).numpy(), 2 * A)
    assert not vm["main"](tvm.nd.array(np.array(False))).numpy()


@pytest.mark.parametrize("steps, message", [
    (lambda ib: (ib.emit_call("test.vm.add", [ib.r(0), ib.r(1)], ib.r(1)), ib.emit_ret(ib.r(1))), "register 1 is used"),
    (lambda ib: ib.emit_call("test.vm.add", [ib.r(0), ib.r(0)], ib.r(1)), "main ends without emit_ret"),
    (lambda ib: (ib.emit_goto(7), ib.emit_ret(ib.r(0))), "leaves the function"),
    (lambda ib: (ib.emit_call("test.vm.move", [ib.c(3)], ib.r(0)), ib.emit_ret(ib.r(0))), "no constant 3"),
    (lambda ib: ib.emit_if(ib.r(0), 1), "the offset is 1"),
    (lambda ib: ib.f("other"), "cannot find function other"),
])
def test_programs_that_are_none(steps, message):
    ib = relax.ExecBuilder()
    with pytest.raises(ValueError, match=message):
        with ib.function("main", num_inputs=1):
            steps(ib)
        ib.get()
    with pytest.raises(ValueError, match="emit should happen in a function scope"):
        ib.emit_ret(ib.r(0))
