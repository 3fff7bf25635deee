"""The course's convolution: the padding is a stage of its own in the description and none in the program."""
import numpy as np
import pytest

import ingot as tvm
from ingot import te, tir, topi

H = W = 14
CI, CO, K, PAD = 5, 8, 3, 1


def convolution(stride):
    data = te.placeholder((CI, H, W), name="data")
    weight = te.placeholder((CO, CI, K, K), name="weight")
    padded = te.compute((CI, H + 2 * PAD, W + 2 * PAD), lambda c, y, x: tir.if_then_else(
        te.all(y >= PAD, y < H + PAD, x >= PAD, x < W + PAD), data[c, y - PAD, x - PAD], 0.0), name="padded")
    ry, rx, rc = te.reduce_axis((0, K), "ry"), te.reduce_axis((0, K), "rx"), te.reduce_axis((0, CI), "rc")
    size = (H + 2 * PAD - K) // stride + 1
    out = te.compute((CO, size, size), lambda c, y, x: te.sum(
        padded[rc, y * stride + ry, x * stride + rx] * weight[c, rc, ry, rx], axis=[rc, ry, rx]), name="conv")
    return data, weight, padded, out


def reference(x, w, stride):
    x = np.pad(x, ((0, 0), (PAD, PAD), (PAD, PAD)))
    size = (x.shape[1] - K) // stride + 1
    out = np.zeros((CO, size, size), np.float32)
    for y in range(size):
        for z in range(size):
            out[:, y, z] = np.tensordot(w, x[:, y * stride:y * stride + K, z * stride:z * stride + K], 3)
    return out


def check(built, stride):
    rng = np.random.default_rng(3)
    x, w = rng.random((CI, H, W), np.float32), rng.random((CO, CI, K, K), np.float32)
    expected = reference(x, w, stride)
    y = tvm.nd.empty(expected.shape)
    built(tvm.nd.array(x), tvm.nd.array(w), y)
    tvm.testing.assert_allclose(y.numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("stride", [1, 2])
def test_te(stride):
    data, weight, padded, out = convolution(stride)
    s = te.create_schedule(out.op)
    s[padded].compute_inline()
    c, y, x = s[out].op.axis
    co, ci = s[out].split(c, factor=4)
    rc, ry, rx = s[out].op.reduce_axis
    s[out].reorder(co, y, rc, ry, rx, x, ci)
    s[out].parallel(co)
    lowered = str(tvm.lower(s, [data, weight, out], simple_mode=True))
    assert "padded" not in lowered
    check(tvm.build(s, [data, weight, out], target="c", name="conv"), stride)


@pytest.mark.parametrize("stride", [1, 2])
def test_tensorir(stride):
    data, weight, padded, out = convolution(stride)
    sch = tir.Schedule(te.create_prim_func([data, weight, out]))
    sch.compute_inline("padded")
    c, y, x, rc, ry, rx = sch.get_loops("conv")
    xo, xi = sch.split(x, factors=[None, 5])
    sch.reorder(c, y, xo, rc, ry, rx, xi)
    sch.decompose_reduction("conv", rc)
    check(tvm.build(sch.mod, target="c"), stride)


def test_topi():
    data, weight = te.placeholder((1, CI, H, W), name="data"), te.placeholder((CO, CI, K, K), name="weight")
    out = topi.nn.conv2d(data, weight, 1, PAD, 1, layout="NCHW")
    activated = topi.nn.relu(out)
    built = tvm.build(te.create_prim_func([data, weight, activated]), target="c")
    rng = np.random.default_rng(4)
    x, w = rng.standard_normal((CI, H, W)).astype(np.float32), rng.standard_normal((CO, CI, K, K)).astype(np.float32)
    y = tvm.nd.empty((1, CO, H, W))
    built(tvm.nd.array(x[None]), tvm.nd.array(w), y)
    tvm.testing.assert_allclose(y.numpy()[0], np.maximum(reference(x, w, 1), 0), rtol=1e-4, atol=1e-5)
