"""Which function converts which operator of torch.

A converter is f(b, *args, **kwargs): `b` the Importer, the arguments torch's, with graph expressions for tensors. It
has torch's parameters, so that calls by position and by name are bound as torch binds them. CONVERTERS has the names
that ATen, torch.nn.functional, torch and methods of tensors share; ATEN those of ATen that take other arguments, or
where an overload has its own, FUNCTIONS those of Python.
"""
from __future__ import annotations

CONVERTERS, ATEN, FUNCTIONS = {}, {}, {}


def converts(*names, table=CONVERTERS):
    """Enter the decorated function under torch's names."""
    def enter(function):
        table.update(dict.fromkeys(names, function))
        return function
    return enter


def find(name):
    """The converter of "add.Tensor", "relu_", "conv2d", or None."""
    base, _, overload = name.partition(".")
    special = ATEN if overload else FUNCTIONS
    for key in dict.fromkeys((name, base, base.removeprefix("_"))):
        found = special.get(key) or CONVERTERS.get(key)
        if found:
            return found
    if base.endswith("_") and not base.startswith("__"):
        plain = base[:-1]
        return special.get(f"{plain}.{overload}") or special.get(plain) or CONVERTERS.get(plain)
    return None


# Operators along an axis. torch has them of tensors without dimensions too, as of one element.
_ALONG = frozenset("""all amax amin any aminmax argmax argmin argsort cummax cummin cumprod cumsum flip gather
index_copy index_fill index_select kthvalue linalg_vector_norm log_softmax logcumsumexp logsumexp max mean median
min mode nanmedian nansum norm normalize prod scatter scatter_add scatter_reduce softmax softmin sort squeeze
squeeze_copy std std_mean sum take_along_dim topk transpose var var_mean""".split())


def takes_axis(name):
    """Whether an operator computes along an axis."""
    return name.partition(".")[0].removeprefix("_").removesuffix("_") in _ALONG


def has_shape_of_others(name):
    """Whether an operator along an axis may have the shape of another operand than its first: of indices, or of what
    it is compared with."""
    return name.partition(".")[0] in ("gather", "max", "min")


IN_PLACE = {"iadd", "isub", "imul", "itruediv", "ifloordiv", "iand", "ior", "ixor", "ipow", "imod", "copy_", "setitem"}
__all__ = ["ATEN", "CONVERTERS", "FUNCTIONS", "converts", "find", "has_shape_of_others", "takes_axis"]
