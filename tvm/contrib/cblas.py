"""tvm.contrib.cblas: products by a BLAS library, as tensor expressions that call it."""
from ...ir import te, tir


def matmul(lhs, rhs, transa=False, transb=False, **kwargs):
    """lhs @ rhs of matrices, either transposed first, by the packed function tvm.contrib.cblas.matmul."""
    rows = lhs.shape[1] if transa else lhs.shape[0]
    columns = rhs.shape[0] if transb else rhs.shape[1]
    return te.extern((rows, columns), [lhs, rhs], lambda ins, outs: tir.call_packed(
        "tvm.contrib.cblas.matmul", ins[0], ins[1], outs[0], transa, transb), dtype=lhs.dtype, name="C", **kwargs)
