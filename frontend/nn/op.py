"""The operators of modules, nn.op.*: relax.op's on nn.Tensors, each result bound to a variable named by `name`.

Most are rows of one table: the function as it is called, and relax.op's that it calls. What takes a thought is in
op_nn.py, op_calls.py and op_sampling.py.
"""
from __future__ import annotations

import ast
import inspect

from ...ir.relax import op as relax_op
from .op_calls import *  # noqa: F401,F403
from .op_calls import __all__ as _calls
from .op_nn import *  # noqa: F401,F403
from .op_nn import __all__ as _nn
from .op_sampling import *  # noqa: F401,F403
from .op_sampling import __all__ as _sampling
from .tensor import Tensor, wrap_nested

_ROWS = """
unsqueeze(x, dim) = expand_dims(x, dim)
concat(x, dim) = concat(x, dim)
chunk(x, chunks, dim=0) = split(x, chunks, dim)
split(ary, indices_or_sections, axis=0) = split(ary, indices_or_sections, axis)
add(a, b) = add(a, b)
subtract(a, b) = subtract(a, b)
multiply(a, b, name="mul") = multiply(a, b)
divide(a, b) = divide(a, b)
maximum(x1, x2) = maximum(x1, x2)
minimum(x1, x2) = minimum(x1, x2)
less(a, b) = less(a, b)
less_equal(a, b) = less_equal(a, b)
greater(a, b) = greater(a, b)
greater_equal(a, b) = greater_equal(a, b)
equal(a, b) = equal(a, b)
not_equal(a, b) = not_equal(a, b)
sum(x, axis=None, keepdims=False) = sum(x, axis, keepdims)
max(x, axis=None, keepdims=False) = max(x, axis, keepdims)
min(x, axis=None, keepdims=False) = min(x, axis, keepdims)
matmul(a, b, out_dtype=None) = matmul(a, b, out_dtype)
broadcast_to(x, shape) = broadcast_to(x, shape)
reshape(x, shape) = reshape(x, shape)
repeat(x, repeats, axis=None) = repeat(x, repeats, axis)
squeeze(x, axis=-1) = squeeze(x, axis)
permute(x, axes) = permute_dims(x, axes)
take(x, indices, axis=None) = take(x, indices, axis)
relu(x) = nn.relu(x)
silu(x) = nn.silu(x)
sigmoid(x) = sigmoid(x)
softmax(x, axis=-1) = nn.softmax(x, axis)
softplus(x, beta=1.0, threshold=20.0) = nn.softplus(x, beta, threshold)
tanh(x) = tanh(x)
exp(x) = exp(x)
square(x) = square(x)
sqrt(x) = sqrt(x)
negative(x, name="neg") = negative(x)
rms_norm(x, weight, axes, epsilon=1e-5) = nn.rms_norm(x, weight, axes, epsilon)
triu(x, diagonal=0) = triu(x, diagonal)
zeros(shape, dtype="float32") = zeros(shape, dtype)
ones(shape, dtype="float32") = ones(shape, dtype)
pad(x, pad, mode="constant", value=0.0) = nn.pad(x, pad_width=pad, pad_mode=mode, pad_value=value)
cumsum(data, axis=None, dtype=None, exclusive=None) = cumsum(data, axis, dtype, exclusive)
sort(x, axis=-1, descending=False) = sort(x, axis, descending)
argsort(data, axis=-1, descending=False, dtype="int32") = argsort(data, axis, descending, dtype)
topk(data, k=1, axis=-1, ret_type="both", largest=True, dtype="int32") = topk(data, k, axis, ret_type, largest, dtype)
ccl_allreduce(x, op_type="sum", in_group=True) = ccl.allreduce(x, op_type, in_group)
ccl_allgather(x, num_workers) = ccl.allgather(x, num_workers)
ccl_broadcast_from_worker0(x, name="broadcast_from_worker") = ccl.broadcast_from_worker0(x)
"""


def _expr(value):
    """A tensor's graph expression; others, also in lists and tuples, as they are."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(_expr, value))
    return value._expr if isinstance(value, Tensor) else value


def _function(row):
    """The function of a row."""
    called, calls = (ast.parse(side.strip(), mode="eval").body for side in row.split(" = "))
    name, target = ast.unparse(called.func), ast.unparse(calls.func)
    defaults = {k.arg: ast.literal_eval(k.value) for k in called.keywords}
    defaults.setdefault("name", name)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(a.id, kind) for a in called.args]
                                  + [inspect.Parameter(k, kind, default=v) for k, v in defaults.items()])
    places, keys = [a.id for a in calls.args], {k.arg: k.value.id for k in calls.keywords}

    def function(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = {k: _expr(v) for k, v in bound.arguments.items()}
        call = relax_op.call(target, *(given[p] for p in places), **{k: given[v] for k, v in keys.items()})
        return wrap_nested(call, given["name"])
    function.__name__ = function.__qualname__ = name
    function.__signature__ = signature
    function.__doc__ = f"relax.op.{ast.unparse(calls)} of nn.Tensors; `name`: of the variable that is bound."
    return function


_TABLE = {f.__name__: f for f in map(_function, _ROWS.strip().splitlines())}
globals().update(_TABLE)
__all__ = [*_calls, *_nn, *_sampling, *_TABLE]
