"""The operators of the domain com.microsoft, which onnx.defs does not hold: inputs, outputs and attributes of each.

A row is `NAME: INPUTS -> OUTPUTS | ATTRIBUTES`, and goes on in lines that are indented. An input or output that may be
absent ends in `?`, one that stands for any number in `*`. An attribute is `name:type`, with `!` when the operator needs
it, or `=default`.
"""
from __future__ import annotations

from functools import cache

from onnx import defs, helper

MICROSOFT = "com.microsoft"

_ROWS = """
Attention: input weights bias? mask_index? past? attention_bias? past_sequence_length? -> output present? |
    do_rotary:int mask_filter_value:float num_heads:int! past_present_share_buffer:int qkv_hidden_sizes:ints
    rotary_embedding_dim:int scale:float unidirectional:int=0
BiasAdd: X bias skip -> Y
BiasGelu: A B -> C
BiasSplitGelu: X bias -> Y
DequantizeLinear: x x_scale x_zero_point? -> y | axis:int
DynamicQuantizeLSTM: X W R B? sequence_lens? initial_h? initial_c? P? W_scale W_zero_point R_scale R_zero_point ->
    Y? Y_h? Y_c? | activation_alpha:floats activation_beta:floats activations:strings clip:float
    direction:string=forward hidden_size:int input_forget:int=0
DynamicQuantizeMatMul: A B b_scale b_zero_point? bias? -> Y
EmbedLayerNormalization: input_ids segment_ids? word_embedding position_embedding segment_embedding? gamma beta
    mask? position_ids? -> output mask_index? embedding_sum? | epsilon:float=1e-12 mask_index_type:int
FastGelu: X bias? -> Y
FusedConv: X W B? Z? -> Y | activation:string activation_params:floats auto_pad:string=NOTSET dilations:ints
    group:int=1 kernel_shape:ints pads:ints strides:ints
FusedGemm: A B C? -> Y | activation:string activation_alpha:float activation_beta:float activation_gamma:float
    alpha:float=1.0 beta:float=1.0 transA:int=0 transB:int=0
FusedMatMul: A B -> Y | alpha:float=1.0 transA:int=0 transB:int=0 transBatchA:int=0 transBatchB:int=0
Gelu: X -> Y
GroupQueryAttention: query key? value? past_key? past_value? seqlens_k total_sequence_length cos_cache? sin_cache?
    position_ids? attention_bias? head_sink? k_scale? v_scale? q_norm_weight? k_norm_weight? query_seqlens? ->
    output present_key? present_value? output_qk? | causal:int=1 do_rotary:int k_norm_epsilon:float
    k_quant_type:string=NONE kv_cache_bit_width:int kv_num_heads:int! local_window_size:int=-1 num_heads:int!
    q_norm_epsilon:float qk_norm_epsilon:float=1e-6 qk_output:int=0 rotary_interleaved:int scale:float
    sliding_window_cache:int=0 smooth_softmax:int=-1 softcap:float v_quant_type:string=NONE
MatMulIntegerToFloat: A B a_scale b_scale a_zero_point? b_zero_point? bias? -> Y
MatMulNBits: A B scales zero_points? g_idx? bias? -> Y | K:int! N:int! accuracy_level:int=0 bits:int=4
    block_size:int! weight_prepacked:int=0
MultiHeadAttention: query key? value? bias? key_padding_mask? attention_bias? past_key? past_value?
    past_sequence_length? cache_indirection? -> output present_key? present_value? qk? | mask_filter_value:float
    num_heads:int! scale:float unidirectional:int=0
NhwcMaxPool: x -> y | auto_pad:string=NOTSET ceil_mode:int=0 dilations:ints kernel_shape:ints! pads:ints
    strides:ints
QAttention: input weight bias input_scale weight_scale mask_index? input_zero_point? weight_zero_point? past? ->
    output present? | do_rotary:int mask_filter_value:float num_heads:int! past_present_share_buffer:int scale:float
    unidirectional:int=0
QGemm: A a_scale a_zero_point B b_scale b_zero_point C? y_scale? y_zero_point? -> Y | alpha:float=1.0 transA:int=0
    transB:int=0
QLinearAdd: A A_scale A_zero_point? B B_scale B_zero_point? C_scale C_zero_point? -> C
QLinearAveragePool: X x_scale x_zero_point? y_scale y_zero_point? -> Y | auto_pad:string=NOTSET ceil_mode:int=0
    channels_last:int=0 count_include_pad:int=0 kernel_shape:ints! pads:ints strides:ints
QLinearConcat: Y_scale Y_zero_point inputs* -> Y | axis:int!
QLinearConv: x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B? -> y | auto_pad:string=NOTSET
    channels_last:int=0 dilations:ints group:int=1 kernel_shape:ints pads:ints strides:ints
QLinearGlobalAveragePool: X x_scale x_zero_point y_scale y_zero_point -> Y | channels_last:int=0
QLinearLeakyRelu: X X_scale X_zero_point? Y_scale Y_zero_point? -> Y | alpha:float=0.01
QLinearMul: A A_scale A_zero_point? B B_scale B_zero_point? C_scale C_zero_point? -> C
QLinearSigmoid: X X_scale X_zero_point? Y_scale Y_zero_point? -> Y
QLinearSoftmax: X X_scale x_zero_point? y_scale y_zero_point -> Y | axis:int=-1 opset:int!
QLinearWhere: condition X x_scale x_zero_point Y y_scale y_zero_point z_scale z_zero_point -> Z
QuantizeLinear: x y_scale y_zero_point? -> y | axis:int
QuickGelu: X -> Y | alpha:float=1.702
RotaryEmbedding: input position_ids cos_cache sin_cache -> output | interleaved:int is_packed_batching:int
    num_heads:int rotary_embedding_dim:int scale:float
SimplifiedLayerNormalization: X scale -> Y inv_std_var? | axis:int=-1 epsilon:float=1e-5 stash_type:int=1
SkipLayerNormalization: input skip gamma beta? bias? -> output mean? inv_std_var? input_skip_bias_sum? |
    epsilon:float=1e-12
SkipSimplifiedLayerNormalization: input skip gamma bias? -> output mean? inv_std_var? input_skip_bias_sum? |
    epsilon:float=1e-12
TransposeMatMul: A B -> Y | alpha:float=1.0 transA:int=0 transB:int=0
"""

# Operators that onnxruntime added to the standard's own domain.
IN_STANDARD_DOMAIN = ("SimplifiedLayerNormalization",)
_OPTIONS = {"?": "Optional", "*": "Variadic"}
_CONVERSIONS = {"int": int, "float": float, "string": str}


@cache
def schemas():
    """{operator: its OpSchema}, version 1 of the domain."""
    return {schema.name: schema for schema in map(_schema, _ROWS.replace("\n    ", " ").strip().splitlines())}


def _schema(row):
    name, _, rest = row.partition(": ")
    interface, _, attributes = rest.partition("|")
    inputs, outputs = interface.split("->")
    return defs.OpSchema(
        name, MICROSOFT, 1, inputs=list(map(_parameter, inputs.split())),
        outputs=list(map(_parameter, outputs.split())), type_constraints=[("T", ["tensor(float)"], "")],
        attributes=list(map(_attribute, attributes.split())))


def _parameter(text):
    """A formal parameter; converters look at the dtypes, which the type here does not say."""
    name = text.rstrip("?*")
    option = getattr(defs.OpSchema.FormalParameterOption, _OPTIONS.get(text[len(name):], "Single"))
    return defs.OpSchema.FormalParameter(name, "T", param_option=option)


def _attribute(text):
    name, _, kind = text.partition(":")
    kind, _, default = kind.partition("=")
    if default:
        return defs.OpSchema.Attribute(name, helper.make_attribute(name, _CONVERSIONS[kind](default)))
    required = kind.endswith("!")
    return defs.OpSchema.Attribute(name, getattr(defs.OpSchema.AttrType, kind.rstrip("!").upper()), required=required)
