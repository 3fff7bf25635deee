"""The external generator "cblas": products of matrices by a BLAS library, with a bias or without."""
from __future__ import annotations

from ..ir.relax.expr import RelaxCall, TupleStructInfo
from .external import External, composites, has_constants, pointers, register_generator

GEMM = {"float32": ("cblas_sgemm", "float"), "float64": ("cblas_dgemm", "double")}


@register_generator("cblas")
def cblas(func, symbol, options):
    """C that calls cblas_sgemm, or cblas_dgemm, for x @ w of w [k, n], or [n, k] transposed, x of any dimensions before
    its last, and a bias [n] or none.

    options: "library" (openblas) that programs are linked with. Raises ValueError for a function of several products,
    of several results or with constants inside.
    """
    parts = composites(func)
    if isinstance(func.ret_struct_info, TupleStructInfo):
        raise ValueError(f"{symbol}: cblas gives one tensor, not {func.ret_struct_info}: the pattern's check refuses a "
                         "match of which an inner value is used outside (has_leaking_intermediate_variables)")
    if len(parts) != 1 or has_constants(func):
        raise ValueError(f"{symbol}: cblas takes functions of one product without constants: "
                         "FuseOpsByPattern(patterns, bind_constants=False, annotate_codegen=True), without "
                         "MergeCompositeFunctions")
    inner, args, _ = parts[0]
    values = {b.var: b.value for b in inner.bindings}
    product = next(v for v in values.values() if v.op == "matmul")
    transposed = isinstance(values.get(product.args[1]), RelaxCall)
    weight = values[product.args[1]].args[0] if transposed else product.args[1]
    bias = next((a for v in values.values() if v.op == "add" for a in v.args if a not in values), None)
    place = {p: func.params.index(a) for p, a in zip(inner.params, args)}
    gemm, ctype = GEMM[str(product.struct_info.dtype)]
    n, k = (int(d) for d in weight.struct_info.shape) if transposed else (
        int(d) for d in weight.struct_info.shape[::-1])
    x, w = place[product.args[0]], place[weight]
    lines = [f"const ingot_tensor *x = args[{x}].value.tensor;", *pointers(func), "int m = 1;", "(void)n_args;",
             "for (int32_t d = 0; d + 1 < x->ndim; ++d) {", "    m *= (int)x->shape[d];", "}"]
    if bias is not None:
        lines += ["for (int i = 0; i < m; ++i) {", f"    for (int j = 0; j < {n}; ++j) {{",
                  f"        out0[(int64_t)i * {n} + j] = p{place[bias]}[j];", "    }", "}"]
    kind = "CblasTrans" if transposed else "CblasNoTrans"
    suffix = ".0f" if ctype == "float" else ".0"
    one, beta = f"1{suffix}", f"{int(bias is not None)}{suffix}"
    lines += ["if (m > 0) {", f"    {gemm}(CblasRowMajor, CblasNoTrans, {kind}, m, {n}, {k}, {one}, p{x}, {k}, "
              f"p{w}, {k if transposed else n},", f"        {beta}, out0, {n});", "}"]
    body = "".join(f"    {line}\n" for line in lines)
    return External(symbol, f"void {symbol}(const ingot_arg *args, int32_t n_args)\n{{\n{body}}}", ("cblas.h", ),
                    (options.get("library", "openblas"),))


__all__ = ["cblas"]
