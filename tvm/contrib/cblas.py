"""tvm.contrib.cblas: products by a BLAS library, as tensor expressions that call it. In Python numpy's does their work,
which is registered here; a program of C is linked with functions of these names."""
import numpy as np

from ...ir import te, tir
from ...runtime.registry import register_func


def matmul(lhs, rhs, transa=False, transb=False, **kwargs):
    """lhs @ rhs of matrices, either transposed first, by the packed function tvm.contrib.cblas.matmul."""
    return _product("matmul", (), lhs, rhs, transa, transb, kwargs)


def batch_matmul(lhs, rhs, transa=False, transb=False, iterative=False, **kwargs):
    """The same of batches of matrices, by tvm.contrib.cblas.batch_matmul. iterative: matrix by matrix, by
    batch_matmul_iterative."""
    name = "batch_matmul_iterative" if iterative else "batch_matmul"
    return _product(name, lhs.shape[:1], lhs, rhs, transa, transb, kwargs)


def _product(name, batch, lhs, rhs, transa, transb, kwargs):
    shape = (*batch, lhs.shape[-1 if transa else -2], rhs.shape[-2 if transb else -1])
    return te.extern(shape, [lhs, rhs], lambda ins, outs: tir.call_packed(
        f"tvm.contrib.cblas.{name}", ins[0], ins[1], outs[0], transa, transb), dtype=lhs.dtype, name="C", **kwargs)


def _multiply(lhs, rhs, out, transa=False, transb=False):
    a, b = (np.swapaxes(t.numpy(), -1, -2) if transposed else t.numpy() for t, transposed in ((lhs, transa), (rhs, transb)))
    out.copyfrom(a @ b)


for _name in ("matmul", "batch_matmul", "batch_matmul_iterative"):
    register_func(f"tvm.contrib.cblas.{_name}", _multiply, override=True)
