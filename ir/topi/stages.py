"""The names that TVM's topi gives the stage which makes a result; scripts look blocks up by them."""
from __future__ import annotations

from dataclasses import replace

from ..te import Tensor

STAGES = {
    **{name: f"T_{name}" for name in (
        "add", "subtract", "multiply", "divide", "floor_divide", "mod", "floor_mod", "power", "maximum", "minimum",
        "left_shift", "right_shift", "bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or", "equal",
        "not_equal", "less", "less_equal", "greater", "greater_equal", "where", "cast", "transpose", "reshape",
        "squeeze", "expand_dims", "broadcast_to", "strided_slice", "take", "tile", "repeat", "gather", "matmul")},
    "concatenate": "T_concat", "nn.softmax": "T_softmax_norm", "nn.fast_softmax": "T_softmax_norm",
    "nn.layer_norm": "T_layer_norm", "nn.rms_norm": "T_rms_norm", "nn.dense": "T_matmul_NT", "nn.matmul": "T_matmul_NN",
    "nn.batch_matmul": "T_batch_matmul_NT", "nn.conv2d": "conv2d_nchw", "nn.conv2d_nchw": "conv2d_nchw",
    "nn.group_conv2d_nchw": "group_conv2d_nchw", "nn.depthwise_conv2d_nchw": "DepthwiseConv2d",
    "nn.relu": "compute", "exp": "compute", "tanh": "compute",
}


def named(name, result):
    """The result of topi's function `name`, with the name that TVM gives its stage."""
    stage = STAGES.get(name)
    if stage is None or not isinstance(result, Tensor) or result.op.num_outputs > 1:
        return result
    return Tensor(replace(result.op, name=stage), result.value_index)
