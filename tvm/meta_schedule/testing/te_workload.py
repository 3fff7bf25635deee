"""tvm.meta_schedule.testing.te_workload: products and convolutions as tensor expressions, for te.create_prim_func."""
from __future__ import annotations

from ....ir import te
from ....ir.expr import Max, as_expr


def matmul(n, m, k, in_dtype="float32", out_dtype="float32"):
    """(A, B, C) of the product of [n, k] and [k, m]."""
    a, b = te.placeholder((n, k), in_dtype, name="A"), te.placeholder((k, m), in_dtype, name="B")
    return a, b, _product((n, m), k, lambda t, i, j: a[i, t].astype(out_dtype) * b[t, j].astype(out_dtype), "C")


def matmul_relu(n, m, k, in_dtype="float32", out_dtype="float32"):
    """(A, B, D) of a product "C" and the "compute" that keeps what is positive of it."""
    a, b, c = matmul(n, m, k, in_dtype, out_dtype)
    return a, b, te.compute((n, m), lambda i, j: Max(as_expr(c[i, j]), te.const(0, out_dtype)), name="compute")


def batch_matmul_nkkm(B, N, M, K, in_dtype="float32", out_dtype="float32"):
    """(X, Y, Z) of B products of [N, K] and [K, M]."""
    x, y = te.placeholder((B, N, K), in_dtype, name="X"), te.placeholder((B, K, M), in_dtype, name="Y")
    return x, y, _product((B, N, M), K, lambda t, b, i, j: x[b, i, t].astype(out_dtype) * y[b, t, j].astype(out_dtype),
                          "Z")


def conv2d_nhwc(N, H, W, CI, CO, kernel_size, stride=1, padding=0, dilation=1, groups=1, in_dtype="float32",
                out_dtype="float32"):
    """(inputs, weight, output) of a convolution "conv2d_nhwc" of an image that "PadInput" pads."""
    x = te.placeholder((N, H, W, CI), in_dtype, name="inputs")
    w = te.placeholder((kernel_size, kernel_size, CI // groups, CO), in_dtype, name="weight")
    padded = te.compute((N, H + 2 * padding, W + 2 * padding, CI), lambda n, h, v, c: te.if_then_else(
        te.all(h >= padding, h - padding < H, v >= padding, v - padding < W), x[n, h - padding, v - padding, c],
        te.const(0, in_dtype)), name="PadInput")
    seen = dilation * (kernel_size - 1) + 1
    rh, rw, rc = (te.reduce_axis((0, extent), name) for name, extent in (
        ("rh", kernel_size), ("rw", kernel_size), ("rc", CI // groups)))
    shape = (N, (H + 2 * padding - seen) // stride + 1, (W + 2 * padding - seen) // stride + 1, CO)
    out = te.compute(shape, lambda n, h, v, c: te.sum(
        padded[n, h * stride + rh * dilation, v * stride + rw * dilation,
               c // (CO // groups) * (CI // groups) + rc].astype(out_dtype) * w[rh, rw, rc, c].astype(out_dtype),
        axis=[rh, rw, rc]), name="conv2d_nhwc")
    return x, w, out


def _product(shape, terms, term, name):
    k = te.reduce_axis((0, terms), "k")
    return te.compute(shape, lambda *i: te.sum(term(k, *i), axis=k), name=name)
