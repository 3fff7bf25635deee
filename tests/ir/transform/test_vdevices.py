"""RealizeVDevice, UpdateVDevice: which tensors lie where, and that the program is the same."""
import linecache

import pytest

import ingot as tvm
from ingot import relax
from ingot.ir.node import collect
from ingot.ir.relax.expr import RelaxCall
from ingot.ir.script.functions import from_source
from ingot.ir.vdevice import VDevice
from ingot.script import ir as I, relax as R

HEAD = """@I.ir_module
class M:
    I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("cuda"), I.vdevice("cuda -arch=sm_80")]})

    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")) -> RESULT:
        with R.dataflow():
            BODY
            R.output(gv)
        return gv
"""


def module(*body, result='R.Tensor((2,), "float32")'):
    text, names = HEAD.replace("BODY", "\n            ".join(body)).replace("RESULT", result), {"I": I, "R": R, "tvm": tvm}
    place = f"<module {hash(text)}>"
    linecache.cache[place] = len(text), None, text.splitlines(True), place
    exec(compile(text, place, "exec"), names)
    return names["M"]


def places(func):
    """{variable: the target of its device}"""
    bound = [*func.params, *(b.var for b in func.bindings)]
    return {v.name: getattr(v.struct_info.vdevice, "target", None) for v in bound if hasattr(v.struct_info, "vdevice")}


def test_what_is_computed_together_lies_together():
    before = module("a = R.add(x, y)", "gv = R.negative(a)", result='R.Tensor((2,), "float32", "cuda:1")')
    after = relax.transform.RealizeVDevice()(before)
    assert set(places(after["main"]).values()) == {"cuda -arch=sm_80"}
    assert after["main"].ret_struct_info.vdevice.target == "cuda -arch=sm_80"
    assert set(places(before["main"]).values()) == {None}
    assert relax.transform.RealizeVDevice()(module("gv = R.add(x, y)"))["main"] is not None


def test_hints_move_what_lies_elsewhere():
    before = module("a = R.add(x, x)", "b = R.hint_on_device(a, tvm.cpu())", "c = R.exp(R.negative(b))",
                    "d = R.hint_on_device(c, tvm.cuda())", "gv = R.multiply(d, d)")
    after = relax.transform.RealizeVDevice()(before)
    calls = [c.op for c in collect(after["main"], RelaxCall)]
    assert "hint_on_device" not in calls and calls.count("to_vdevice") == 1
    found = places(after["main"])
    assert found["x"] == found["c"] == "llvm" and found["d"] == found["gv"] == "cuda" and found["y"] is None
    assert after["main"].ret_struct_info.vdevice.kind == "cuda"


def test_a_device_that_the_module_lacks():
    mod = module("a = R.add(x, y)", "gv = R.hint_on_device(a, tvm.cuda(3))")
    with pytest.raises(ValueError, match="none of the devices of the module: llvm:0, cuda:0"):
        relax.transform.RealizeVDevice()(mod)


def test_another_device():
    before = module('a = R.to_vdevice(x, "cuda:1")', "gv = R.negative(a)", result='R.Tensor((2,), "float32", "cuda:1")')
    new = VDevice("metal", 1)
    after = relax.transform.UpdateVDevice(new, 2)(before)
    assert [d.target for d in after.global_infos["vdevice"]] == ["llvm", "cuda", "metal"]
    assert places(after["main"]) == {"x": None, "y": None, "a": "metal", "gv": "metal"}
    assert collect(after["main"], RelaxCall)[0].attrs["dst_vdevice"] is new
    assert from_source(after.script()).script() == after.script()
    with pytest.raises(ValueError, match="there is no device 3; the module has 3"):
        relax.transform.UpdateVDevice(new, 3)(before)
    with pytest.raises(TypeError, match="must be a VDevice, not 'metal'"):
        relax.transform.UpdateVDevice("metal", 0)(before)
