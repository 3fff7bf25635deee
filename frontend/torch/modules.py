"""Layers that a graph of torch.fx calls, as the functions that they are.

A row is "Class: function(x, attribute ...)": attributes of the layer, weights among them; a number stands for itself.
"""
from __future__ import annotations

_CONV = "x weight bias stride padding dilation groups"
_TRANSPOSED = "x weight bias stride padding output_padding groups dilation"
_POOL = "x kernel_size stride padding"
_ROWS = f"""
CELU: celu x alpha
ELU: elu x alpha
GELU: gelu x approximate
GLU: glu x dim
Hardsigmoid: hardsigmoid x
Hardswish: hardswish x
Hardtanh: hardtanh x min_val max_val
Hardshrink: hardshrink x lambd
LeakyReLU: leaky_relu x negative_slope
LogSigmoid: logsigmoid x
Mish: mish x
PReLU: prelu x weight
ReLU: relu x
ReLU6: relu6 x
SELU: selu x
Sigmoid: sigmoid x
SiLU: silu x
Softmin: softmin x dim
Softplus: softplus x beta threshold
Softshrink: softshrink x lambd
Softsign: softsign x
Tanh: tanh x
Tanhshrink: tanhshrink x
LogSoftmax: log_softmax x dim
Softmax: softmax x dim
Conv1d: conv1d {_CONV}
Conv2d: conv2d {_CONV}
Conv3d: conv3d {_CONV}
ConvTranspose1d: conv_transpose1d {_TRANSPOSED}
ConvTranspose2d: conv_transpose2d {_TRANSPOSED}
ConvTranspose3d: conv_transpose3d {_TRANSPOSED}
Linear: linear x weight bias
BatchNorm1d: batch_norm_layer x running_mean running_var weight bias training eps
BatchNorm2d: batch_norm_layer x running_mean running_var weight bias training eps
BatchNorm3d: batch_norm_layer x running_mean running_var weight bias training eps
InstanceNorm1d: instance_norm_layer x running_mean running_var weight bias training eps
InstanceNorm2d: instance_norm_layer x running_mean running_var weight bias training eps
GroupNorm: group_norm x num_groups weight bias eps
LayerNorm: layer_norm x normalized_shape weight bias eps
RMSNorm: rms_norm x normalized_shape weight eps
LocalResponseNorm: local_response_norm x size alpha beta k
Embedding: embedding x weight
MaxPool1d: max_pool1d {_POOL} dilation ceil_mode return_indices
MaxPool2d: max_pool2d {_POOL} dilation ceil_mode return_indices
MaxPool3d: max_pool3d {_POOL} dilation ceil_mode return_indices
AvgPool1d: avg_pool1d {_POOL} ceil_mode count_include_pad
AvgPool2d: avg_pool2d {_POOL} ceil_mode count_include_pad divisor_override
AvgPool3d: avg_pool3d {_POOL} ceil_mode count_include_pad divisor_override
AdaptiveAvgPool1d: adaptive_avg_pool1d x output_size
AdaptiveAvgPool2d: adaptive_avg_pool2d x output_size
AdaptiveAvgPool3d: adaptive_avg_pool3d x output_size
AdaptiveMaxPool1d: adaptive_max_pool1d x output_size return_indices
AdaptiveMaxPool2d: adaptive_max_pool2d x output_size return_indices
AdaptiveMaxPool3d: adaptive_max_pool3d x output_size return_indices
Upsample: interpolate x size scale_factor mode align_corners recompute_scale_factor
Flatten: flatten x start_dim end_dim
Unflatten: unflatten x dim unflattened_size
PixelShuffle: pixel_shuffle x upscale_factor
ChannelShuffle: channel_shuffle x groups
ZeroPad2d: pad x padding
ConstantPad1d: pad x padding "constant" value
ConstantPad2d: pad x padding "constant" value
ReflectionPad2d: pad x padding "reflect"
ReplicationPad2d: pad x padding "replicate"
Identity: clone x
Dropout: clone x
Dropout1d: clone x
Dropout2d: clone x
AlphaDropout: clone x
StochasticDepth: clone x
CrossEntropyLoss: cross_entropy x y weight None ignore_index None reduction label_smoothing
"""


def _row(line):
    name, _, call = line.partition(": ")
    return name, call.split()


MODULES = dict(map(_row, _ROWS.strip().splitlines()))
_WORDS = {"None": None, '"constant"': "constant", '"reflect"': "reflect", '"replicate"': "replicate"}


def call_of(module, inputs):
    """(the function's name, its arguments) of a layer of MODULES; tensors among them are torch's."""
    function, *words = MODULES[type(module).__name__]
    given = dict(zip(("x", "y"), inputs))
    return function, [given[w] if w in given else _WORDS[w] if w in _WORDS else getattr(module, w) for w in words]


__all__ = ["MODULES", "call_of"]
