"""Layers: modules with TVM's names and arguments. Dimensions may be numbers, names or int64 expressions."""
from __future__ import annotations

from . import op
from .core import Module, ModuleList
from .effects import IOEffect, KVCache
from .tensor import Parameter


class ReLU(Module):
    def forward(self, x):
        return op.relu(x)


class SiLU(Module):
    def forward(self, x):
        return op.silu(x)


class GELU(Module):
    def forward(self, x):
        return op.gelu(x)


class Identity(Module):
    def forward(self, x):
        return x


class Linear(Module):
    """x [..., in_features] times the transpose of weight [out_features, in_features], plus bias [out_features].

    out_dtype: of the product and the bias.
    """

    def __init__(self, in_features, out_features, bias=True, dtype=None, out_dtype=None):
        self.in_features, self.out_features, self.out_dtype = in_features, out_features, out_dtype
        self.weight = Parameter((out_features, in_features), dtype)
        self.bias = Parameter((out_features,), out_dtype or dtype) if bias else None

    def forward(self, x):
        x = op.matmul(x, op.permute_dims(self.weight), out_dtype=self.out_dtype)
        return x if self.bias is None else x + self.bias

    def to(self, dtype=None):
        """Change the dtype; out_dtype, where given, stays that of the bias."""
        self.weight.to(dtype)
        if self.bias is not None and self.out_dtype is None:
            self.bias.to(dtype)


class _Conv(Module):
    """A convolution of `rank` axes: weight [out_channels, in_channels / groups, *kernel], bias [out_channels]."""

    rank, layout, function = 0, None, None

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 dtype=None, data_layout=None):
        self.in_channels, self.out_channels = in_channels, out_channels
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self.kernel_size = [kernel_size] * self.rank if isinstance(kernel_size, int) else list(kernel_size)
        self.data_layout = data_layout or self.layout
        self.weight = Parameter((out_channels, in_channels if groups == 1 else in_channels // groups,
                                 *self.kernel_size), dtype)
        self.bias = Parameter((out_channels,), dtype) if bias else None

    def forward(self, x):
        layout = {} if self.rank == 1 else {"data_layout": self.data_layout}
        return self.function(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups, **layout)


class Conv1D(_Conv):
    rank, layout, function = 1, "NCW", staticmethod(op.conv1d)


class Conv2D(_Conv):
    rank, layout, function = 2, "NCHW", staticmethod(op.conv2d)


class Conv3D(_Conv):
    rank, layout, function = 3, "NCDHW", staticmethod(op.conv3d)


class ConvTranspose1D(Module):
    """weight [in_channels, out_channels / groups, kernel_size], bias [out_channels]."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, dilation=1,
                 groups=1, bias=True, dtype=None):
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, kernel_size
        self.stride, self.padding, self.output_padding = stride, padding, output_padding
        self.dilation, self.groups = dilation, groups
        self.weight = Parameter((in_channels, out_channels // groups, kernel_size), dtype)
        self.bias = Parameter((out_channels,), dtype) if bias else None

    def forward(self, x):
        return op.conv1d_transpose(x, self.weight, self.bias, self.stride, self.padding, self.output_padding,
                                   self.dilation, self.groups)


class LayerNorm(Module):
    """Over the last dimension, of normalized_shape elements."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, dtype=None):
        self.normalized_shape, self.eps, self.elementwise_affine = normalized_shape, eps, elementwise_affine
        self.weight = Parameter((normalized_shape,), dtype) if elementwise_affine else None
        self.bias = Parameter((normalized_shape,), dtype) if elementwise_affine else None

    def forward(self, x):
        return op.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """Over `axes`: x / sqrt(mean(x^2) + epsilon) * weight, plus a bias where asked for."""

    def __init__(self, hidden_size, axes, epsilon=1e-5, bias=True, dtype=None):
        self.epsilon, self.axes = epsilon, axes
        self.weight = Parameter((hidden_size,), dtype)
        self.bias = Parameter((hidden_size,), dtype) if bias else None

    def forward(self, x):
        out = op.rms_norm(x, self.weight, self.axes, self.epsilon)
        return out if self.bias is None else op.add(out, self.bias)


class GroupNorm(Module):
    """Over groups of channels and, by default, the axes behind them."""

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, dtype=None):
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = Parameter((num_channels,), dtype) if affine else None
        self.bias = Parameter((num_channels,), dtype) if affine else None

    def forward(self, x, channel_axis=1, axes=None):
        return op.group_norm(x, self.num_groups, self.weight, self.bias, self.eps, channel_axis, axes)


class Embedding(Module):
    """Rows of weight [num, dim] by indices of any shape: [*shape, dim]."""

    def __init__(self, num, dim, dtype=None):
        self.num, self.dim = num, dim
        self.weight = Parameter((num, dim), dtype)

    def forward(self, x):
        if x.ndim == 1:
            return op.take(self.weight, x, axis=0)
        rows = op.take(self.weight, op.reshape(x, [-1]), axis=0)
        return op.reshape(rows, [*x.shape, self.weight.shape[1]])


class TimestepEmbedding(Module):
    """Two linear layers with SiLU between (and after them, with post_act_fn="silu"), of diffusion models."""

    def __init__(self, in_channels, time_embed_dim, act_fn="silu", out_dim=None, post_act_fn=None, cond_proj_dim=None):
        if act_fn != "silu" or post_act_fn not in (None, "silu"):
            raise ValueError(f"TimestepEmbedding: act_fn={act_fn!r} and post_act_fn={post_act_fn!r} must be 'silu'")
        self.linear_1 = Linear(in_channels, time_embed_dim)
        self.cond_proj = None if cond_proj_dim is None else Linear(cond_proj_dim, in_channels, bias=False)
        self.act = SiLU()
        self.linear_2 = Linear(time_embed_dim, time_embed_dim if out_dim is None else out_dim)
        self.post_act = None if post_act_fn is None else SiLU()

    def forward(self, sample, condition=None):
        if condition is not None:
            sample = sample + self.cond_proj(condition)
        sample = self.linear_2(self.act(self.linear_1(sample)))
        return sample if self.post_act is None else self.post_act(sample)


class Timesteps(Module):
    """Sinusoidal embeddings of steps; see op.get_timestep_embedding."""

    def __init__(self, num_channels, flip_sin_to_cos=False, downscale_freq_shift=1):
        self.num_channels, self.flip_sin_to_cos = num_channels, flip_sin_to_cos
        self.downscale_freq_shift = downscale_freq_shift

    def forward(self, x):
        return op.get_timestep_embedding(x, self.num_channels, self.flip_sin_to_cos, self.downscale_freq_shift)


class Attention(Module):
    """Multi-head attention of hidden_states [batch, rows, query_dim] to encoder_hidden_states, or to themselves."""

    def __init__(self, query_dim, cross_attention_dim=None, heads=8, dim_head=64, bias=False, norm_num_groups=None,
                 out_bias=True, scale_qk=True):
        self.query_dim, self.cross_attention_dim = query_dim, cross_attention_dim or query_dim
        self.heads, self.bias, self.norm_num_groups, self.out_bias = heads, bias, norm_num_groups, out_bias
        self.scale_qk, self.scale = scale_qk, dim_head ** -0.5 if scale_qk else 1.0
        self.inner_dim = dim_head * heads
        self.to_q = Linear(query_dim, self.inner_dim, bias=bias)
        self.to_k = Linear(self.cross_attention_dim, self.inner_dim, bias=bias)
        self.to_v = Linear(self.cross_attention_dim, self.inner_dim, bias=bias)
        self.group_norm = None if norm_num_groups is None else GroupNorm(norm_num_groups, query_dim)
        self.to_out = ModuleList([Linear(self.inner_dim, query_dim, bias=out_bias)])

    def forward(self, hidden_states, encoder_hidden_states=None, attention_mask=None):
        if attention_mask is not None:
            raise NotImplementedError("nn.Attention: attention_mask is not supported")
        if self.group_norm is not None:
            hidden_states = self.group_norm(hidden_states, channel_axis=2, axes=[1])
        query = self.to_q(hidden_states)
        other = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        key, value = self.to_k(other), self.to_v(other)
        query, key, value = (op.reshape(t, [0, -1, self.heads, self.inner_dim // self.heads])
                             for t in (query, key, value))
        out = op.scaled_dot_product_attention(query, key, value, scale=None if self.scale_qk else 1.0)
        return self.to_out[0](op.reshape(out, [0, -1, self.inner_dim]))


__all__ = ["Attention", "Conv1D", "Conv2D", "Conv3D", "ConvTranspose1D", "Embedding", "GELU", "GroupNorm", "IOEffect",
           "Identity", "KVCache", "LayerNorm", "Linear", "RMSNorm", "ReLU", "SiLU", "TimestepEmbedding", "Timesteps"]
