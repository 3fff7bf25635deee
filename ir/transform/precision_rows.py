"""Which operators are computed in 16 bits, in one table: for ToMixedPrecision of scripts, as TVM has it, and for that of
the pipeline (to_mixed_precision.py).

ALWAYS: operands are cast. FOLLOW: where all operands are of 16 bits. NEVER: operands keep their dtype, as they do of
all operators that have no row. The pipeline lets follow those whose results stay in range and near; left out are those
whose results leave the range of float16 (exp, powers, sums), whose operands are places (resizing, sampling), or that no
weight's product is behind.
"""
from __future__ import annotations

ALWAYS, FOLLOW, NEVER = "always", "follow", "never"

# operators, of scripts, of the pipeline
_TABLE = (
    ("matmul nn.conv1d nn.conv2d nn.conv3d", ALWAYS, ALWAYS),
    ("nn.conv2d_transpose", NEVER, ALWAYS),
    ("nn.attention nn.attention_bias nn.attention_var_len", ALWAYS, NEVER),
    ("add subtract multiply maximum minimum negative abs sigmoid tanh erf nn.relu nn.gelu nn.gelu_tanh nn.silu "
     "nn.layer_norm nn.rms_norm nn.group_norm nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.avg_pool1d nn.avg_pool2d "
     "nn.avg_pool3d reshape expand_dims squeeze permute_dims broadcast_to concat split strided_slice", FOLLOW, FOLLOW),
    ("divide floor_divide power mod floor_mod equal greater greater_equal less less_equal not_equal logical_and "
     "logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not left_shift right_shift "
     "acos acosh asin asinh atan atanh ceil cos cosh exp floor log round rsqrt sign sin sinh square sqrt tan isfinite "
     "isinf isnan nn.selu nn.dropout nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d nn.adaptive_avg_pool3d flatten "
     "layout_transform ewise_fma astype image.resize2d full full_like ones zeros eye arange", FOLLOW, NEVER),
    ("clip where nn.leaky_relu nn.prelu nn.hard_sigmoid nn.hard_swish nn.softmax nn.log_softmax nn.instance_norm mean "
     "nn.pad take flip repeat tile depth_to_space space_to_depth", NEVER, FOLLOW),
)
SCRIPTS, PIPELINE = ({name: row[column] for row in _TABLE for name in row[0].split()} for column in (1, 2))

__all__ = ["ALWAYS", "FOLLOW", "NEVER", "PIPELINE", "SCRIPTS"]
