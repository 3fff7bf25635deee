"""AdjustMatmulOrder, ExpandMatmulOfSum, ReorderPermuteDimsAfterConcat, ReorderTakeAfterMatmul: less to multiply, or
weights that a product of several takes at once."""
from __future__ import annotations

from ..expr import IntImm, Var, const
from ..relax import op
from ..relax.expr import TensorStructInfo
from ..relax.ops.common import same_dim, simplify
from .call_rules import apply_rule
from .model_params import computable_at_compile_time


# ---------------------------------------------------------------- order of products

def adjust_matmul_order(func):
    """A function in which (a @ b) @ c is a @ (b @ c), or the other way round, where that multiplies less for all sizes
    of symbolic dimensions up to attrs["tir_var_upper_bound"]. Products of weights alone (attrs["num_input"]), which are
    computed once, stay."""
    return apply_rule(func, _once(func, _other_order))


def _other_order(context, call, weights):
    for n, value in enumerate(call.args):
        parts = None if id(value) in weights else _parts(context, value, "matmul")
        if parts is None or not _same_dtypes(call, parts):
            continue
        parts = [*parts, (call.args[1], False)] if n == 0 else [(call.args[0], False), *parts]
        sizes, bounds = _sizes(*map(_shape, parts)), context.func.attrs.get("tir_var_upper_bound", {})
        if n == 0 and _is_positive(_left_minus_right, sizes, bounds):
            a, inner = parts[0], op.matmul(*(_made(context, p) for p in parts[1:]))
            return op.matmul(_made(context, a), context.emit(inner, _name(value)))
        if n == 1 and _is_positive(_right_minus_left, sizes, bounds):
            inner = context.emit(op.matmul(*(_made(context, p) for p in parts[:2])), _name(value))
            return op.matmul(inner, _made(context, parts[2]))
    return None


def _parts(context, value, name):
    """[(operand, whether it is transposed)] of the operator `name` that makes a matrix, transposed or not, or None."""
    turned = context.producer(value, "permute_dims")
    if turned is not None and (turned.args[0].struct_info.ndim != 2 or _axes(turned) != (1, 0)):
        return None
    made = context.producer(value if turned is None else turned.args[0], name)
    if made is None or not _is_plain(made) or any(_whole_shape(a) is None for a in made.args):
        return None
    if turned is None:
        return [(a, False) for a in made.args]
    if any(a.struct_info.ndim != 2 for a in made.args):
        return None
    return [(a, True) for a in (made.args[::-1] if name == "matmul" else made.args)]


def _made(context, part):
    value, transposed = part
    return context.emit(op.permute_dims(value), f"{_name(value)}_transpose") if transposed else value


def _shape(part):
    value, transposed = part
    shape = value.struct_info.shape
    return shape[::-1] if transposed else shape


def _is_plain(call):
    return call.attrs.get("b_layout", "KN") == "KN" and call.attrs.get("plan") is None


def _whole_shape(value):
    info = value.struct_info
    return info.shape if isinstance(info, TensorStructInfo) and isinstance(info.shape, tuple) and info.ndim else None


def _same_dtypes(call, parts):
    """Whether a product of a product is one of numbers of one kind, whatever the order."""
    values = [*call.args, call, *(value for value, _ in parts)]
    return _is_plain(call) and len({getattr(v.struct_info, "dtype", None) for v in values}) == 1 and all(
        _whole_shape(a) is not None for a in call.args)


def _sizes(a, b, c):
    """m, n, p, q of a product of tensors of these shapes: (m, n) @ (n, p) @ (p, q), of one matrix of each."""
    m, n = a[-2:] if len(a) > 1 else (1, a[0])
    p, q = c[-2:] if len(c) > 1 else (c[0], 1)
    return m, n, p, q


def _left_minus_right(m, n, p, q):
    """Multiplications of (a @ b) @ c less those of a @ (b @ c)."""
    return m * n * p + m * p * q - n * p * q - m * n * q


def _right_minus_left(*sizes):
    return -_left_minus_right(*sizes)


def _is_positive(f, sizes, bounds, least=1):
    """Whether f(*sizes) >= least whatever symbolic sizes are, from 1 up to bounds {name: size}. f is linear in each
    size, so it is least at an end: of a size without a bound, at 1 where it does not fall."""
    sizes = [d.value if isinstance(d, IntImm) else d for d in sizes]
    symbols = [d for d in sizes if not isinstance(d, int)]
    if not all(isinstance(d, Var) for d in symbols) or len({id(d) for d in symbols}) < len(symbols):
        return False
    if not symbols:
        return f(*sizes) >= least
    k = next(k for k, d in enumerate(sizes) if d is symbols[0])

    def at(n):
        return [*sizes[:k], n, *sizes[k + 1:]]
    if not _is_positive(f, at(1), bounds, least):
        return False
    if sizes[k].name in bounds:
        return _is_positive(f, at(int(bounds[sizes[k].name])), bounds, least)
    return _is_positive(lambda *v: f(*v[:k], 2, *v[k + 1:]) - f(*v[:k], 1, *v[k + 1:]), at(1), bounds, 0)


def _name(value):
    return getattr(value, "name", "lv")


# ---------------------------------------------------------------- sums

def expand_matmul_of_sum(func):
    """A function in which x @ (a + b) is x @ a + x @ b, but for sums of weights alone (attrs["num_input"])."""
    return apply_rule(func, _once(func, _expanded))


def _expanded(context, call, weights):
    x, weight = call.args
    parts = None if id(weight) in weights else _parts(context, weight, "add")
    if (parts is None or weight.struct_info.dtype != call.struct_info.dtype
            or not all(_is_whole(_shape(p), weight.struct_info.shape) for p in parts)):
        return None
    a, b = (context.emit(call.replace(args=(x, _made(context, p))), f"{_name(p[0])}_product") for p in parts)
    return op.add(a, b)


def _is_whole(shape, total):
    """Whether a term has the sum's own shape."""
    return len(shape) == len(total) and all(map(same_dim, shape, total))


def _once(func, rule):
    """A rule of matmul that knows the variables that weights alone decide."""
    weights = {id(v) for v in computable_at_compile_time(func)} if "num_input" in func.attrs else set()

    def of(context, call):
        return rule(context, call, weights) if call.op == "matmul" else None
    return of


# ---------------------------------------------------------------- transposed weights

def reorder_permute_dims_after_concat(func):
    """A function in which values that are permuted alike and joined are joined, then permuted."""
    return apply_rule(func, _permuted_once)


def _permuted_once(context, call):
    if call.op != "concat" or len(call.args) < 2:
        return None
    parts = [context.producer(a, "permute_dims") for a in call.args]
    if None in parts or any(p.args[0].struct_info.ndim < 0 for p in parts):
        return None
    axes = {_axes(p) for p in parts}
    if len(axes) > 1:
        return None
    axes, = axes
    joined = context.emit(op.concat([p.args[0] for p in parts], axis=axes[call.attrs.get("axis", 0)]), "concat")
    return op.permute_dims(joined, parts[0].attrs.get("axes"))


def _axes(call):
    ndim = call.args[0].struct_info.ndim
    axes = call.attrs.get("axes")
    return tuple(range(ndim))[::-1] if axes is None else tuple(int(a) % ndim for a in axes)


# ---------------------------------------------------------------- rows of a table

def reorder_take_after_matmul(func):
    """A function in which a product with chosen columns of a weight is chosen columns of the product, and one of a
    batch of known size with a chosen matrix each (one row each) the product with all, of which each takes its own."""
    return apply_rule(func, _taken_late)


def _taken_late(context, call):
    if call.op != "matmul" or not _is_plain(call):
        return None
    x, weight = call.args
    take = context.producer(weight, "take")
    if take is None or take.args[1].struct_info.ndim != 1:
        return None
    table, chosen = take.args
    infos = [v.struct_info for v in (x, table)]
    if not all(isinstance(i, TensorStructInfo) and isinstance(i.shape, tuple) for i in infos):
        return None
    ndim, axis = infos[1].ndim, take.attrs.get("axis")
    axis = None if axis is None else axis % ndim
    if ndim == 2 and axis == 1:
        product = context.emit(op.matmul(x, table, out_dtype=call.attrs.get("out_dtype")), f"{_name(table)}_product")
        return op.take(product, chosen, axis=infos[0].ndim - 1)
    shape, count = infos[0].shape, chosen.struct_info.dims
    if ndim == 3 and axis == 0 and len(shape) == 3 and isinstance(shape[0], IntImm) and count and same_dim(
            shape[0], count[0]) and same_dim(shape[1], const(1, "int64")):
        return _taken_matrices(context, call, table, chosen)
    return None


def _taken_matrices(context, call, table, chosen):
    """einsum("ijik->ijk") of rows taken of x @ all matrices of the table."""
    x, _ = call.args
    count, rows, columns = table.struct_info.shape
    batch, one, _ = x.struct_info.shape
    weight = context.emit(op.permute_dims(table, [1, 0, 2]), "weight")
    weight = context.emit(op.reshape(weight, (rows, simplify(count * columns))), "weight")
    product = context.emit(op.matmul(x, weight, out_dtype=call.attrs.get("out_dtype")), "product")
    product = context.emit(op.reshape(product, (batch, one, count, columns)), "product")
    product = context.emit(op.take(product, chosen, axis=2), "product")
    return op.einsum([product], "ijik->ijk")


__all__ = ["adjust_matmul_order", "expand_matmul_of_sum", "reorder_permute_dims_after_concat",
           "reorder_take_after_matmul"]
