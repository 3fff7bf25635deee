"""ConvTranspose of one to three spatial dimensions, against a scatter of every input element."""
import numpy as np
import pytest
from onnx import helper

import ingot
from ingot.frontend.onnx import OnnxImportError, from_onnx
from ingot.ir.relax.evaluate import evaluate
from onnx_models import model

RNG = np.random.default_rng(0)


def scattered(x, w, strides, dilations, group, pads, shape):
    rank, kernel, per, outputs = x.ndim - 2, w.shape[2:], x.shape[1] // group, w.shape[1]
    full = np.zeros((x.shape[0], outputs * group, *(
        max((x.shape[2 + a] - 1) * strides[a] + (kernel[a] - 1) * dilations[a] + 1, pads[a] + shape[a])
        for a in range(rank))))
    for g in range(group):
        for k in np.ndindex(*kernel):
            at = tuple(slice(k[a] * dilations[a], k[a] * dilations[a] + (x.shape[2 + a] - 1) * strides[a] + 1,
                             strides[a]) for a in range(rank))
            full[(slice(None), slice(g * outputs, (g + 1) * outputs), *at)] += np.einsum(
                "nc...,co->no...", x[:, g * per:(g + 1) * per], w[(slice(g * per, (g + 1) * per), slice(None), *k)])
    return full[(slice(None), slice(None), *(slice(p, p + n) for p, n in zip(pads, shape)))]


def case(spatial, kernel, strides, dilations, extra, pads, group=1, channels=8, outputs=16):
    """(model, x, expected output)."""
    rank = len(spatial)
    x = RNG.standard_normal((2, channels, *spatial), np.float32)
    w = RNG.standard_normal((channels, outputs // group, *kernel), np.float32)
    shape = [strides[a] * (spatial[a] - 1) + extra[a] + (kernel[a] - 1) * dilations[a] + 1 - pads[a] - pads[a + rank]
             for a in range(rank)]
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=strides, dilations=dilations,
                            output_padding=extra, pads=pads, group=group)
    return (model([node], {"x": list(x.shape)}, ["y"], 17, {"w": w}), x,
            scattered(x, w, strides, dilations, group, pads, shape))


CASES = {
    "stride 1, dilation 2, output padding 1": ((9, 7), (3, 3), (1, 1), (2, 2), (1, 1), (1, 0, 0, 1)),
    "output padding below the stride on one axis, the dilation on the other":
        ((5, 6), (3, 2), (2, 1), (1, 3), (1, 2), (0, 1, 1, 0)),
    "groups": ((5, 6), (3, 3), (1, 1), (2, 2), (1, 1), (1, 1, 1, 1), 2),
    "one spatial dimension": ((6,), (4,), (1,), (2,), (1,), (1, 0)),
    "three": ((4, 5, 3), (3, 2, 3), (2, 1, 3), (1, 2, 1), (1, 1, 2), (1, 0, 1, 0, 1, 1)),
    "three, more padding than the kernel reaches": (
        (4, 5, 6), (1, 2, 1), (2, 2, 3), (1, 1, 1), (0, 0, 0), (1, 2, 2, 1, 1, 3)),
    "three, depthwise": ((3, 3, 3), (2, 3, 2), (2, 2, 2), (2, 1, 1), (1, 0, 1), (0, 1, 0, 1, 0, 0), 8),
}


@pytest.mark.parametrize("row", CASES.values(), ids=CASES)
def test_window(row):
    proto, x, expected = case(*row)
    np.testing.assert_allclose(evaluate(from_onnx(proto), [x]), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", ["host", "c"])
def test_compiled(target):
    """Blocked layouts too: stride 1 is a convolution there, and other strides fall into phases."""
    for row in list(CASES.values())[:3]:
        proto, x, expected = case(*row, *([1] if len(row) < 7 else []), 16, 32)
        with ingot.compile(proto, threads="none", target=target) as lib:
            np.testing.assert_allclose(lib(x), expected, rtol=1e-4, atol=2e-4)


def test_output_padding_of_the_stride_and_the_dilation_is_refused():
    proto, *_ = case((5, 5), (3, 3), (2, 2), (1, 1), (0, 0), (0, 0, 0, 0))
    next(a for a in proto.graph.node[0].attribute if a.name == "output_padding").ints[:] = [2, 0]
    with pytest.raises(OnnxImportError, match='ConvTranspose node "y".*output_padding'):
        from_onnx(proto)
