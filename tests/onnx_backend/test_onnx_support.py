"""docs/onnx.md is made from the tables of converters, and true: a model of every operator that it lists is imported,
and one of everything that it says is refused is refused, in one line that names the operator.

    INGOT_UPDATE_ONNX=1 python -m pytest tests/onnx_backend/test_onnx_support.py

writes the page anew."""
import json
import os
from functools import lru_cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from node_cases import node_cases
from onnx import helper, parser

import ingot
from ingot.frontend.onnx import OnnxImportError, UndeclaredInput, from_onnx
from ingot.frontend.onnx.captures import subgraphs
from ingot.frontend.onnx.converter import qualified
from ingot.frontend.onnx.load import MOST_OPSET
from ingot.frontend.onnx.msft_schemas import MICROSOFT
from ingot.frontend.onnx.support import LIMITS, REFUSED, page, refused, rows

PAGE = Path(ingot.__file__).parent / "docs" / "onnx.md"
LEDGER = Path(__file__).with_name("ledger.json")
KNOWN = MOST_OPSET == 28
needs_version = pytest.mark.skipif(not KNOWN, reason=f"the page is of an onnx that knows opset 28, not {MOST_OPSET}")
MAKER = 'ai.onnx.ml.TreeEnsemble{kind}<{part}_ids=[0,0],{part}_nodeids=[1,2],{part}_treeids=[0,0],{part}_weights=' \
    '[1.0,2.0],{more}nodes_falsenodeids=[2,0,0],nodes_featureids=[0,0,0],nodes_modes=["BRANCH_LEQ","LEAF","LEAF"],' \
    'nodes_nodeids=[0,1,2],nodes_treeids=[0,0,0],nodes_truenodeids=[1,0,0],nodes_values=[0.5,0.0,0.0]>(x)'
X, Q, S = "float[2,3] x", "uint8[2,4] q", "float s = {0.5}, uint8 z = {3}"  # q, and its scale and zero point
N, FOUR = "float[1,2,4] t", "float[4] b = {1,2,3,4}"
PACKED = f"float[1] s = {{0.5}}, uint8[1,1,16] w = {{{','.join(map(str, range(16)))}}}"
# operator that no node test has -> inputs, weights, the node
SAMPLES = {
    "ConcatFromSequence": (X, "", "w = SequenceConstruct(x, x) y = ConcatFromSequence<axis=0>(w)"),
    "SequenceErase": (X, "", "w = SequenceConstruct(x, x) v = SequenceErase(w) y = ConcatFromSequence<axis=0>(v)"),
    "Optional": (X, "", "w = Optional(x) y = OptionalGetElement(w)"),
    "RandomNormal": ("", "", "y = RandomNormal<shape=[2,3]>()"),
    "RandomUniform": ("", "", "y = RandomUniform<shape=[3]>()"),
    "RandomNormalLike": (X, "", "y = RandomNormalLike(x)"),
    "Multinomial": (X, "", "y = Multinomial<sample_size=4>(x)"),
    "MaxRoiPool": ("float[1,2,6,6] a, float[2,5] r", "", "y = MaxRoiPool<pooled_shape=[2,2]>(a, r)"),
    "GlobalLpPool": ("float[1,2,6,6] a", "", "y = GlobalLpPool(a)"),
    "ai.onnx.ml::Scaler": (X, "", "y = ai.onnx.ml.Scaler<offset=[1.0],scale=[2.0]>(x)"),
    "ai.onnx.ml::Normalizer": (X, "", 'y = ai.onnx.ml.Normalizer<norm="L2">(x)'),
    "ai.onnx.ml::Imputer": (X, "", "y = ai.onnx.ml.Imputer<imputed_value_floats=[1.0],replaced_value_float=0.0>(x)"),
    "ai.onnx.ml::FeatureVectorizer": (X, "", "y = ai.onnx.ml.FeatureVectorizer<inputdimensions=[3,3]>(x, x)"),
    "ai.onnx.ml::LinearRegressor": (X, "", "y = ai.onnx.ml.LinearRegressor<coefficients=[1.0,2.0,3.0]>(x)"),
    "ai.onnx.ml::LinearClassifier": (X, "", "v, y = ai.onnx.ml.LinearClassifier<classlabels_ints=[0,1],coefficients="
                                            "[1.0,2.0,3.0,4.0,5.0,6.0],intercepts=[0.0,0.0]>(x)"),
    "ai.onnx.ml::SVMRegressor": (
        X, "", "y = ai.onnx.ml.SVMRegressor<coefficients=[1.0],kernel_params=[0.0,0.0,0.0],"
        'kernel_type="LINEAR",n_supports=1,rho=[0.5],support_vectors=[1.0,2.0,3.0]>(x)'),
    "ai.onnx.ml::SVMClassifier": (
        X, "", "v, y = ai.onnx.ml.SVMClassifier<classlabels_ints=[0,1],coefficients=[1.0,2.0],"
        'kernel_params=[0.0,0.0,0.0],kernel_type="LINEAR",rho=[0.5],'
        "support_vectors=[1.0,2.0,3.0,4.0,5.0,6.0],vectors_per_class=[1,1]>(x)"),
    "ai.onnx.ml::TreeEnsembleRegressor": (X, "", "y = " + MAKER.format(kind="Regressor", part="target",
                                                                       more="n_targets=1,")),
    "ai.onnx.ml::TreeEnsembleClassifier": (X, "", "v, y = " + MAKER.format(kind="Classifier", part="class",
                                                                           more="classlabels_int64s=[0,1],")),
    "ai.onnx.ml::OneHotEncoder": ("int64[3] i", "", "y = ai.onnx.ml.OneHotEncoder<cats_int64s=[1,2]>(i)"),
    "ai.onnx.ml::LabelEncoder": ("int64[3] i", "", "y = ai.onnx.ml.LabelEncoder<keys_int64s=[1],values_int64s=[2]>(i)"),
    "ai.onnx.ml::CategoryMapper": ("int64[3] i", "",
                                   'w = ai.onnx.ml.CategoryMapper<cats_int64s=[1],cats_strings=["a"]>(i)'
                                   ' y = ai.onnx.ml.CategoryMapper<cats_int64s=[1],cats_strings=["a"]>(w)'),
    "ai.onnx.ml::ZipMap": (X, "", "y = ai.onnx.ml.ZipMap<classlabels_int64s=[0,1,2]>(x)"),
    **{f"{MICROSOFT}::{op}": (X, "", f"y = com.microsoft.{op}(x)") for op in ("Gelu", "FastGelu", "QuickGelu")},
    **{f"{MICROSOFT}::{op}": (X, "float[3] b = {1,2,3}", f"y = com.microsoft.{op}(x, b)") for op in ("BiasGelu",)},
    **{f"{MICROSOFT}::{op}": ("float[2,3] x, float[3,4] b", "", f"y = com.microsoft.{op}(x, b)")
       for op in ("FusedMatMul", "TransposeMatMul", "FusedGemm")},
    f"{MICROSOFT}::BiasAdd": ("float[1,2,4] t, float[1,2,4] u", FOUR, "y = com.microsoft.BiasAdd(t, b, u)"),
    f"{MICROSOFT}::BiasSplitGelu": (N, FOUR, "y = com.microsoft.BiasSplitGelu(t, b)"),
    f"{MICROSOFT}::FusedConv": ("float[1,1,4,4] a, float[1,1,2,2] w", "",
                                'y = com.microsoft.FusedConv<activation="Relu">(a, w)'),
    f"{MICROSOFT}::SkipLayerNormalization": (N, FOUR, "y = com.microsoft.SkipLayerNormalization(t, t, b)"),
    f"{MICROSOFT}::SkipSimplifiedLayerNormalization": (
        N, FOUR, "y = com.microsoft.SkipSimplifiedLayerNormalization(t, t, b)"),
    f"{MICROSOFT}::SimplifiedLayerNormalization": (N, FOUR, "y = SimplifiedLayerNormalization(t, b)"),
    f"{MICROSOFT}::EmbedLayerNormalization": (
        "int32[1,2] i, float[5,4] w, float[3,4] p", FOUR,
        "y, m = com.microsoft.EmbedLayerNormalization(i, , w, p, , b, b)"),
    f"{MICROSOFT}::RotaryEmbedding": ("float[1,2,2,4] a, int64[1,2] i, float[8,2] c", "",
                                      "y = com.microsoft.RotaryEmbedding(a, i, c, c)"),
    f"{MICROSOFT}::Attention": ("float[1,2,4] t, float[4,12] w", "", "y = com.microsoft.Attention<num_heads=2>(t, w)"),
    f"{MICROSOFT}::MultiHeadAttention": (N, "", "y = com.microsoft.MultiHeadAttention<num_heads=2>(t, t, t)"),
    f"{MICROSOFT}::GroupQueryAttention": (
        N, "int32[1] l = {1}, int32 n = {2}",
        "y = com.microsoft.GroupQueryAttention<num_heads=2,kv_num_heads=2>(t, t, t, , , l, n)"),
    f"{MICROSOFT}::QAttention": ("uint8[1,2,4] t, uint8[4,12] w, float[12] b", S,
                                 "y = com.microsoft.QAttention<num_heads=2>(t, w, b, s, s, , z, z)"),
    f"{MICROSOFT}::MatMulNBits": ("float[2,32] a", PACKED,
                                  "y = com.microsoft.MatMulNBits<K=32,N=1,bits=4,block_size=32>(a, w, s)"),
    f"{MICROSOFT}::DequantizeLinear": (Q, S, "y = com.microsoft.DequantizeLinear(q, s, z)"),
    f"{MICROSOFT}::QuantizeLinear": (X, S, "y = com.microsoft.QuantizeLinear(x, s, z)"),
    f"{MICROSOFT}::DynamicQuantizeMatMul": ("float[2,4] a, uint8[4,3] w", S,
                                            "y = com.microsoft.DynamicQuantizeMatMul(a, w, s, z)"),
    f"{MICROSOFT}::MatMulIntegerToFloat": ("uint8[2,4] q, uint8[4,3] w", S,
                                           "y = com.microsoft.MatMulIntegerToFloat(q, w, s, s, z, z)"),
    f"{MICROSOFT}::DynamicQuantizeLSTM": (
        "float[2,1,3] a, uint8[1,3,8] w, uint8[1,2,8] r", "float[1] v = {0.5}, uint8[1] k = {3}",
        "y = com.microsoft.DynamicQuantizeLSTM<hidden_size=2>(a, w, r, , , , , , v, k, v, k)"),
    f"{MICROSOFT}::NhwcMaxPool": ("uint8[1,4,4,2] a", "", "y = com.microsoft.NhwcMaxPool<kernel_shape=[2,2]>(a)"),
    f"{MICROSOFT}::QGemm": ("uint8[2,4] q, uint8[4,3] w", S, "y = com.microsoft.QGemm(q, s, z, w, s, z, , s, z)"),
    **{f"{MICROSOFT}::{op}": (Q, S, f"y = com.microsoft.{op}(q, s, z, q, s, z, s, z)")
       for op in ("QLinearAdd", "QLinearMul")},
    **{f"{MICROSOFT}::{op}": (Q, S, f"y = com.microsoft.{op}(q, s, z, s, z)") for op in (
        "QLinearLeakyRelu", "QLinearSigmoid")},
    f"{MICROSOFT}::QLinearSoftmax": (Q, S, "y = com.microsoft.QLinearSoftmax<opset=13>(q, s, z, s, z)"),
    f"{MICROSOFT}::QLinearConcat": (Q, S, "y = com.microsoft.QLinearConcat<axis=0>(s, z, q, s, z, q, s, z)"),
    f"{MICROSOFT}::QLinearWhere": ("bool[2,4] c, " + Q, S, "y = com.microsoft.QLinearWhere(c, q, s, z, q, s, z, s, z)"),
    f"{MICROSOFT}::QLinearConv": ("uint8[1,1,4,4] a, uint8[1,1,2,2] w", S,
                                  "y = com.microsoft.QLinearConv(a, s, z, w, s, z, s, z)"),
    f"{MICROSOFT}::QLinearAveragePool": ("uint8[1,1,4,4] a", S,
                                         "y = com.microsoft.QLinearAveragePool<kernel_shape=[2,2]>(a, s, z, s, z)"),
    f"{MICROSOFT}::QLinearGlobalAveragePool": ("uint8[1,1,4,4] a", S,
                                               "y = com.microsoft.QLinearGlobalAveragePool(a, s, z, s, z)"),
}
# operator with limits -> opset, inputs, weights, nodes of a model that is refused for it, and what the error says
REFUSALS = {
    "BatchNormalization": (7, "float[1,2,3] a, float[2] b", "", "y = BatchNormalization<spatial=0>(a, b, b, b, b)",
                           "spatial"),
    "If": (20, "float[2,3] x, bool c", "", "y = If(c) <then_branch = t () => (float[2,3] u) { u = Identity(x) }, "
           "else_branch = e () => (float v) { v = ReduceSum<keepdims=0>(x) }>",
           "one dtype and one number of dimensions"),
    "Loop": (20, "float[2] x, int64 n", "", "y = Loop(n, , x) <body = b (int64 i, bool g, float[m] v) => (bool h, "
             "float[m] w) { h = Identity(g) w = Concat<axis=0>(v, v) }>", "tensors of one shape"),
    "Scan": (8, "float[1,2] s, float[1,3,2] x, int64[1] l", "", "y = Scan(l, s, x) <num_scan_inputs=1, "
             "body = b (float[2] v, float[2] e) => (float[2] w) { w = Add(v, e) }>", "sequence_lens"),
    "SequenceAt": (20, "float[2] x, int64 n", "", "w = SequenceConstruct(x, x) y = SequenceAt(w, n)",
                   "position must be constant"),
    "SequenceInsert": (20, "float[2] x, int64 n", "", "w = SequenceConstruct(x, x) v = SequenceInsert(w, x, n) "
                       "y = ConcatFromSequence<axis=0>(v)", "position must be constant"),
    "SplitToSequence": (20, "float[4] x, int64 n", "", "w = SplitToSequence(x, n) y = ConcatFromSequence<axis=0>(w)",
                        "split must be constant"),
    "TfIdfVectorizer": (20, "int64[4] i", "", "y = TfIdfVectorizer<max_gram_length=1,max_skip_count=0,"
                        'min_gram_length=1,mode="TF",ngram_counts=[0],ngram_indexes=[0],pool_strings=["a"]>(i)',
                        "strings are not supported"),
    "Upsample": (1, "float[1,1,2,2] a", "", "y = Upsample<height_scale=2.0,width_scale=2.0>(a)", "opset 1"),
    "ai.onnx.ml::LabelEncoder": (20, "string[3] i", "", "y = ai.onnx.ml.LabelEncoder<"
                                 'keys_strings=["a"],values_int64s=[2]>(i)', "STRING"),
    "com.microsoft::MatMulNBits": (20, "float[2,32] a, int32[32] g", PACKED, "y = com.microsoft.MatMulNBits<K=32,N=1,"
                                   "bits=4,block_size=32>(a, w, s, , g)", "g_idx"),
}


def made(inputs, weights, nodes, opset=20):
    return parser.parse_model(
        f'<ir_version: 8, opset_import: ["": {opset}, "ai.onnx.ml": 3, "{MICROSOFT}": 1]>\n'
        f"g ({inputs}) => (float y) {f'<{weights}>' if weights else ''} {{ {nodes} }}")


@lru_cache(maxsize=1)
def examples():
    """{qualified operator: the least node test that passes and has it}."""
    found = {}
    for name in json.loads(LEDGER.read_text())["passes"]:
        case = node_cases().get(name)
        for domain, op in operators(case.model.graph) if case else ():
            key = qualified(op, domain)
            if key not in found or case.model.ByteSize() < found[key].model.ByteSize():
                found[key] = case
    return found


def operators(graph):
    for node in graph.node:
        yield node.domain, node.op_type
        for inner in subgraphs(node):
            yield from operators(inner)


def imported(proto, values=()):
    """Import a model for inputs of the shapes of `values`."""
    try:
        return from_onnx(proto)
    except UndeclaredInput:
        return from_onnx(proto, shapes={i.name: shape_of(v) for i, v in zip(proto.graph.input, values)})


def shape_of(value):
    if value is None:
        return None
    return list(map(np.shape, value)) if isinstance(value, list) else np.shape(value)


@needs_version
def test_the_page_is_made_from_the_tables():
    if os.environ.get("INGOT_UPDATE_ONNX") == "1":
        PAGE.write_text(page())
    assert PAGE.read_text() == page()


@needs_version
@pytest.mark.parametrize("part", range(8))
def test_every_operator_that_is_listed_is_imported(part):
    for row in rows()[part::8]:
        key = qualified(row.name, row.domain)
        if key in SAMPLES:
            imported(made(*SAMPLES[key]))
        else:
            assert key in examples(), f"no model has {key}: add one to SAMPLES"
            imported(examples()[key].model, examples()[key].data_sets[0][0])


@needs_version
def test_every_operator_that_is_refused_is_refused():
    assert {qualified(name, domain) for domain, name in refused()} == set(REFUSED)
    for domain, name in refused():
        schema = onnx.defs.get_schema(name, domain=domain)
        node = helper.make_node(name, [f"x{k}" for k in range(schema.min_input)], ["y"], domain=domain)
        for attribute in schema.attributes.values():
            if attribute.required:
                node.attribute.append(helper.make_attribute(
                    attribute.name, {"STRING": "a", "STRINGS": ["a"]}.get(attribute.type.name, [0])))
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(n, 1, [1]) for n in node.input],
                                  [helper.make_tensor_value_info("y", 1, None)])
        proto = helper.make_model(graph, ir_version=8, opset_imports=[
            helper.make_opsetid("", 20), *([helper.make_opsetid(domain, 1)] if domain else [])])
        with pytest.raises(OnnxImportError, match=name):
            from_onnx(proto)


@needs_version
@pytest.mark.parametrize("key", sorted(set(LIMITS) - {"ai.onnx.ml::ZipMap"}))
def test_what_is_refused_of_an_operator(key):
    opset, inputs, weights, nodes, text = REFUSALS[key]
    with pytest.raises(OnnxImportError, match=text) as error:
        from_onnx(made(inputs, weights, nodes, opset))
    assert key.split("::")[-1] in str(error.value) or text == "STRING"
