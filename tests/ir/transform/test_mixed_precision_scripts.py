"""ToMixedPrecision of scripts: which tensors are float16, and that values stay near."""
import numpy as np
import pytest

from ingot import relax
from ingot.ir.module import IRModule
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.script.functions import from_source
from ingot.ir.transform.precision_rows import ALWAYS, FOLLOW, NEVER, PIPELINE, SCRIPTS

PARAMS = {"x": (4, 6), "w": (6, 6), "b": (6,)}
BODIES = {
    "a product and what follows": ["p = R.matmul(x, w)", "q = R.nn.relu(p)", "e = R.matmul(q, w)"],
    "a sum with float32": ["p = R.matmul(x, w)", "q = R.add(p, b)", "e = R.exp(q)"],
    "tuples": ["p = R.matmul(x, w)", "s = R.split(p, 2, axis=1)", "t = (s[0], p)", "u = t[0]", "e = R.nn.silu(u)"],
    "never": ["p = R.matmul(x, w)", "q = R.nn.softmax(p, axis=-1)", "e = R.matmul(q, w)"],
    "a cast of its own": ["h = R.astype(x, 'float16')", "p = R.add(h, h)", "f = R.astype(p, 'float32')",
                          "e = R.matmul(f, w)"],
}


def module(body):
    params = ", ".join(f'{n}: R.Tensor({s}, "float32")' for n, s in PARAMS.items())
    lines = "\n        ".join([*body, "R.output(e)"])
    return IRModule({"main": from_source(
        f"@R.function\ndef main({params}):\n    with R.dataflow():\n        {lines}\n    return e\n")})


def dtypes(func):
    """{operator: (dtypes of the arguments, of the result)}, the last call of each."""
    return {b.value.op: ([str(a.struct_info.dtype) for a in b.value.args if hasattr(a.struct_info, "dtype")],
                         str(getattr(b.value.struct_info, "dtype", ""))) for b in func.bindings if hasattr(b.value, "op")}


@pytest.mark.parametrize("out_dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", BODIES)
def test_values_stay_near(name, out_dtype):
    before = module(BODIES[name])
    after = relax.transform.ToMixedPrecision(out_dtype)(before)
    found = dtypes(after["main"])
    assert found["matmul"] == (["float16", "float16"], out_dtype)
    assert after["main"].ret_struct_info == before["main"].ret_struct_info
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(s).astype("float32") / 2 for s in PARAMS.values()]
    np.testing.assert_allclose(evaluate(after, given), evaluate(before, given), rtol=2e-2, atol=2e-2)


def test_what_follows_and_what_does_not():
    after = relax.transform.ToMixedPrecision("float16")(module(BODIES["a product and what follows"]))
    assert dtypes(after["main"])["nn.relu"] == (["float16"], "float16")
    after = relax.transform.ToMixedPrecision("float16")(module(BODIES["a sum with float32"]))
    assert dtypes(after["main"])["add"] == (["float32", "float32"], "float32")
    after = relax.transform.ToMixedPrecision("float16")(module(BODIES["never"]))
    assert dtypes(after["main"])["nn.softmax"] == (["float32"], "float32")


def test_weights_can_be_float16_from_the_start():
    after = relax.transform.ToMixedPrecision("float16", ["w"])(module(BODIES["a sum with float32"]))
    assert [str(p.struct_info.dtype) for p in after["main"].params] == ["float32", "float16", "float32"]
    casts = [b for b in after["main"].bindings if getattr(b.value, "op", "") == "astype"]
    assert not any(b.value.args[0].name == "w" for b in casts)
    with pytest.raises(ValueError, match="no parameter is called v; there are x, w, b"):
        relax.transform.ToMixedPrecision("float16", ["v"])(module(BODIES["never"]))
    with pytest.raises(ValueError, match="float16 or float32, not bfloat16"):
        relax.transform.ToMixedPrecision("bfloat16")(module(BODIES["never"]))


def test_a_program_without_products_stays():
    before = module(["e = R.add(x, x)"])
    assert relax.transform.ToMixedPrecision()(before)["main"] is before["main"]


def test_the_table_has_every_operator_once():
    assert set(SCRIPTS) == set(PIPELINE) and set(SCRIPTS.values()) == {ALWAYS, FOLLOW, NEVER} == set(PIPELINE.values())
