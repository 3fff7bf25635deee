"""ConvertLayout of scripts: the program after it computes the same, and convolutions have the layouts asked for."""
import numpy as np
import pytest

from ingot import relax
from ingot.ir.node import collect
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.relax.expr import RelaxCall
from ingot.ir.script.functions import from_source
from ingot.relax.transform import ConvertLayout

PARAMS = {"x": (1, 12, 6, 6), "w": (4, 12, 3, 3), "b": (4, 1, 1)}
BODIES = {
    "elements": ["c = R.nn.relu(R.nn.conv2d(x, w, padding=1))", "d = R.add(c, b)", "e = R.multiply(d, c)"],
    "reduced": ["c = R.nn.conv2d(x, w)", "e = R.sum(c, axis=[1, -1], keepdims=False)"],
    "axes": ["c = R.nn.conv2d(x, w)", "d = R.nn.softmax(c, axis=1)", "f = R.expand_dims(d, axis=[2])",
             "g = R.squeeze(f, axis=[2])", "e = R.permute_dims(g, axes=[0, 3, 1, 2])"],
    "joined": ["c = R.nn.conv2d(x, w)", "d = R.concat([c, R.negative(c)], axis=1)",
               "s = R.split(d, 2, axis=1)", "p = s[0]", "q = s[1]", "e = R.subtract(p, q)"],
    "pooled": ["c = R.nn.conv2d(x, w)", "p = R.nn.max_pool2d(c, pool_size=[2, 2], strides=[2, 2])",
               "e = R.strided_slice(p, axes=[1], begin=[1], end=[3])"],
    "scaled": ["c = R.nn.conv2d(x, w)", "s = R.squeeze(c, axis=[0])", "g = R.mean(s, axis=[2])",
               "e = R.nn.layer_norm(c, g, g, axes=[1, 2])"],  # as many channels as rows
    "resized": ["c = R.nn.conv2d(x, w)", "e = R.image.resize2d(c, (8, 8), method='nearest_neighbor')"],
    "normal": ["c = R.nn.conv2d(x, w)", "m = R.mean(c, axis=[0, 2, 3])", "v = R.multiply(m, m)",
               "n = R.nn.batch_norm(c, m, m, m, v, axis=1, center=False)", "p = n[0]", "e = R.multiply(p, p)"],
}


def module(body):
    params = ", ".join(f'{n}: R.Tensor({s}, "float32")' for n, s in PARAMS.items())
    lines = "\n            ".join([*body, "R.output(e)"])
    return from_source(f"""@I.ir_module
class M:
    @R.function
    def main({params}):
        with R.dataflow():
            {lines}
        return e
""")


def result(mod):
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(s).astype("float32") for s in PARAMS.values()]
    return evaluate(mod, given)


@pytest.mark.parametrize("name", BODIES)
def test_the_program_computes_the_same(name):
    before = module(BODIES[name])
    after = ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(before)
    convolution = next(c for c in collect(after["main"], RelaxCall) if c.op == "nn.conv2d")
    assert convolution.attrs["data_layout"] == "NHWC" and convolution.attrs["kernel_layout"] == "OHWI"
    assert after["main"].ret_struct_info == before["main"].ret_struct_info
    np.testing.assert_allclose(result(after), result(before), rtol=1e-5, atol=1e-5)


def test_what_lies_between_follows():
    after = ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(module(BODIES["elements"]))
    ops = [str(b.value.op) for b in after["main"].bindings]
    assert ops == ["permute_dims", "permute_dims", "nn.conv2d", "nn.relu", "permute_dims", "add", "permute_dims",
                   "multiply"]


@pytest.mark.parametrize("layouts", [["NCHW4x", "OIHW4o"], ["NCH", "OIHW"], ["NCHW0c", "OIHW"], ["NCHW2c2c", "OIHW"]])
def test_other_axes_are_refused(layouts):
    with pytest.raises(ValueError, match=f"nn.conv2d of layout NCHW cannot become {layouts[0]}"):
        ConvertLayout({"relax.nn.conv2d": layouts})(module(BODIES["reduced"]))


# ---------------------------------------------------------------- blocks

BLOCKED = {
    "elements": BODIES["elements"], "joined": BODIES["joined"], "scaled": BODIES["scaled"], "normal": BODIES["normal"],
    "pooled": ["c = R.nn.conv2d(x, w)", "e = R.nn.max_pool2d(c, pool_size=[2, 2], strides=[2, 2])"],
    "a number": ["c = R.nn.conv2d(x, w)", "e = R.multiply(c, R.const(2.0, 'float32'))"],
    "kept": ["c = R.nn.conv2d(x, w)", "s = R.sum(c, axis=[1], keepdims=True)", "e = R.add(c, s)"],
    "reduced": ["c = R.nn.conv2d(x, w)", "e = R.mean(c, axis=[-1, 0])"],
    "uneven": ["c = R.nn.conv2d(x, w)", "s = R.split(c, [1], axis=1)", "p = s[0]", "q = s[1]", "e = R.subtract(p, q)"],
    "rows": ["c = R.nn.conv2d(x, w)", "g = R.ones((4,), 'float32')", "e = R.nn.layer_norm(c, g, g, axes=[3])"],
    "axes": BODIES["axes"],
}
LAID_OUT = {"channels": ["NCHW4c", "OIHW2o"], "channels last": ["NHWC2c", "OHWI3i4o", "NHWC4c"]}


@pytest.mark.parametrize("name", BLOCKED)
@pytest.mark.parametrize("layouts", LAID_OUT)
def test_blocks_compute_the_same(name, layouts):
    before = module(BLOCKED[name])
    after = ConvertLayout({"relax.nn.conv2d": LAID_OUT[layouts]})(before)
    convolution = next(c for c in collect(after["main"], RelaxCall) if c.op == "nn.conv2d")
    assert convolution.attrs["kernel_layout"] == LAID_OUT[layouts][1]
    assert after["main"].ret_struct_info == before["main"].ret_struct_info
    np.testing.assert_allclose(result(after), result(before), rtol=1e-5, atol=1e-5)


def test_blocks_that_do_not_divide_are_not_made():
    before = module(BODIES["elements"])
    after = ConvertLayout({"relax.nn.conv2d": ["NCHW5c", "OIHW4o"]})(before)
    assert not any(c.op == "layout_transform" for c in collect(after["main"], RelaxCall))


def test_the_batch_of_groups_stays_first():
    before = module(["c = R.nn.conv2d(x, w)", "m = R.mean(c, axis=[0, 2, 3])",
                     "e = R.nn.group_norm(c, m, m, num_groups=2, channel_axis=1, axes=[2, 3])"])
    after = ConvertLayout({"relax.nn.conv2d": ["CHWN", "OHWI"]})(before)
    np.testing.assert_allclose(result(after), result(before), rtol=1e-5, atol=1e-5)


def test_one_axis():
    """Layouts that are left out are those of the axes, here of a convolution over width and a pool."""
    x, w = (relax.Var(n, relax.TensorStructInfo(s, "float32")) for n, s in (("x", (2, 3, 8)), ("w", (4, 3, 3))))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            found = builder.emit(relax.op.nn.conv1d(x, w))
            found = builder.emit_output(relax.op.nn.max_pool1d(found, 2))
        builder.emit_func_output(found)
    before = builder.get()
    after = ConvertLayout({"relax.nn.conv1d": ["NWC", "OWI"]})(before)
    assert collect(after["main"], RelaxCall)[2].attrs["data_layout"] == "NWC"
    given = [np.random.default_rng(0).normal(size=s).astype("float32") for s in ((2, 3, 8), (4, 3, 3))]
    np.testing.assert_allclose(evaluate(after, given), evaluate(before, given), rtol=1e-5, atol=1e-5)
