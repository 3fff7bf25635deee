"""One call per operator of the table, for tests over all: (shapes, or values that are no tensors; attributes)."""
from ingot.ir.op import OPS
from ingot.ir.relax import PrimValue, RelaxVar, ShapeExpr, TensorStructInfo, call_op

_X, _IMAGE = (3, 5, 7), (2, 6, 9, 8)
BOOLS = ("all", "any", "logical_and", "logical_or", "logical_xor", "logical_not")
INTS = ("one_hot", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "left_shift", "right_shift")
_OWN = {
    "where": ([("bool", _X), _X, _X], {}), "matmul": ([(4, 5), (5, 6)], {}),
    "broadcast_to": ([(5, 1), (2, 5, 3)], {}), "reshape": ([_X, (7, 15)], {}), "expand_dims": ([_X], {"axis": (1,)}),
    "squeeze": ([(3, 1, 2)], {"axis": (1,)}), "concat": ([_X, _X], {"axis": 1}), "memory.join": ([_X, _X], {"axis": 1}),
    "memory.border": ([(5, 6)], {"pad_width": (1, 0, 2, 1)}),
    "memory.inlay": ([(3, 6, 9), _X], {"pad_width": (0, 0, 1, 0, 1, 1)}),
    "memory.update": ([_X, (3, 2, 7)], {"axis": 1, "begin": 2}),
    "update_slice": ([_X, (3, 2, 7)], {"axis": 1, "begin": 2}),
    "memory.part": ([_X], {"axis": 1, "begin": 2, "extent": 3}),
    "tile": ([_X], {"repeats": (1, 2, 1)}),
    "slice_at": ([_X, (1, 2), (2, 3)], {"axes": (1, 2), "strides": (2, 1)}), "list_unique": ([(4, 3)], {}),
    "ml.tree_ensemble": ([(5, 4), ("int16", (2,)), ("int16", (6,)), (6,), ("int16", (6, 2)), (9,), ("uint8", (6,)),
                          ("int16", (9,))], {"count": 3, "tables": ("flags", "targets"), "marks": True}),
    "ml.tree_branches": ([(5, 4), (3, 2)], {"count": 2, "roots": (0, -3), "features": (1,), "splits": (0.5,),
                                            "children": (-1, -2), "kinds": (4,)}),
    "ml.lookup": ([_X, (4,), ("int64", (4,)), ("int64", (1,))], {}), "ml.squared_distance": ([(5, 4), (3, 4)], {}),
    "ml.coupled_probabilities": ([(5, 3, 3)], {}),
    "image.list_boxes": ([(2, 6, 4), (2, 3, 6), ("int64", ()), (), ()], {"most": 2}),
    "split": ([_X], {"sections": (2, 3), "axis": 1}), "repeat": ([_X], {"repeats": 2, "axis": 1}),
    "strided_slice": ([_X], {"axes": (1, 2), "begin": (4, 1), "end": (-1, 6), "strides": (-2, 1)}),
    "take": ([_X, ("int32", (2, 2))], {"axis": 1}), "gather_elements": ([_X, ("int64", _X)], {"axis": 1}),
    "nn.pad": ([_X], {"pad_width": (0, 0, 1, 2, 0, 0)}), "flip": ([_X], {"axis": 1}), "one_hot": ([(4,)], {"depth": 3}),
    "full": ([(2, 3), ()], {"dtype": "int8"}), "arange": ([0, 9, 2], {"dtype": "int64"}),
    "cumsum": ([_X], {"axis": 1, "dtype": "float64"}), "cumprod": ([_X], {"axis": -1, "exclusive": True}),
    **{name: ([_X], {"axis": 1}) for name in ("logcumsumexp", "cummax", "cummin")},
    "argmax": ([_X], {"axis": 1}), "argmin": ([_X], {}), "astype": ([_X], {"dtype": "float16"}),
    "nn.conv1d": ([(2, 6, 9), (4, 3, 3)], {"groups": 2, "padding": (1, 1)}),
    "nn.conv2d": ([_IMAGE, (4, 6, 3, 2)], {"strides": (2, 1), "padding": (1, 0, 1, 0)}),
    "nn.conv3d": ([(1, 2, 5, 4, 4), (3, 2, 2, 2, 2)], {}),
    "nn.conv2d_transpose": ([_IMAGE, (6, 4, 3, 3)], {"strides": (2, 2), "output_padding": (1, 0)}),
    **{f"nn.{kind}_pool{n}d": ([(2, 3) + (6,) * n], {"pool_size": (2,) * n, "strides": (2,) * n})
       for kind in ("max", "avg") for n in (1, 2, 3)},
    "nn.adaptive_avg_pool2d": ([_IMAGE], {"output_size": (4, 3)}),
    "nn.adaptive_max_pool2d": ([_IMAGE], {"output_size": (1, 1)}),
    "nn.conv2d_pointwise": ([(2, 2, 3, 4, 16), (1, 11, 3, 16), (16,), (16,)],
                            {"arithmetic": "inner_product", "out_channels": 9}),
    "nn.conv2d_winograd": ([(2, 2, 7, 5, 4), (2, 16, 2, 4, 4)],
                           {"tile": 2, "padding": (1, 1, 1, 1), "out_channels": 6, "data_layout": "NCHW4c"}),
    "nn.conv2d_phases": ([(2, 2, 3, 4, 4), (1, 3, 3, 2, 4, 4)], {"data_layout": "NCHW4c", "out_channels": 3,
                                                                  "strides": (2, 2), "padding": (1, 1, 1, 1)}),
    "nn.conv2d_gathered": ([(2, 3, 7, 5, 4), (4, 5, 3, 2, 4), ("int32", (2, 5, 2))], {"data_layout": "NCHW4c"}),
    "layout_transform": ([_IMAGE], {"src_layout": "NCHW", "dst_layout": "NCHW4c"}),
    "space_to_depth": ([_IMAGE], {"block": 2, "layout": "NCHW4c"}),
    "gather_channels": ([(1, 2, 3, 3, 4), ("int32", (3, 4))], {"layout": "NCHW4c"}),
    "image.resize2d": ([_IMAGE], {"size": (5, 12)}), "nn.lrn": ([_IMAGE], {"size": 3}),
    "nn.batch_norm": ([_IMAGE] + [(6,)] * 4, {}), "nn.instance_norm": ([_IMAGE, (6,), (6,)], {}),
    "nn.layer_norm": ([_X, (5, 7), (5, 7)], {"axes": (1, 2)}), "nn.rms_norm": ([_X, (7,)], {}),
    "nn.attention": ([_X, (3, 4, 7), (3, 4, 7), (5, 4)],
                     {"heads": 2, "head_size": 3, "offsets": (1, 0, 1), "lanes": 4}),
    "nn.gru": ([(4, 2, 3), (1, 15, 3), (1, 15, 5), (1, 30), (1, 2, 5)], {"hidden_size": 5}),
    "nn.rnn": ([(4, 2, 3), (1, 5, 3), (1, 5, 5), (1, 10), (1, 2, 5)], {"hidden_size": 5}),
    "nn.gru_steps": ([(4, 2, 15), (1, 5, 15), (1, 15), (1, 2, 5)], {"hidden_size": 5}),
    "nn.rnn_steps": ([(4, 2, 5), (1, 5, 5), (1, 5), (1, 2, 5)], {"hidden_size": 5}),
    "nn.lstm_steps": ([(4, 2, 20), (1, 5, 20), (1, 20), (1, 2, 5), (1, 2, 5)], {"hidden_size": 5}),
    "matmul_quantized": ([(5, 8), ("int4", (6, 8)), (6, 2)], {}),
    "nn.dense": ([_X, (4, 7)], {}),
    "lookup": ([("int8", (2, 3)), ("uint8", (256,))], {}),
    "qnn.words": ([("int8", (2, 6, 5))], {"panel": 4}),
    "qnn.requantize": ([("int32", (2, 3)), ("int32", (3,)), ("int32", ())], {}),
    "qnn.matmul": ([("uint8", (4, 5)), ("int8", (5, 6)), ("uint8", (4, 1)), ("int8", (6,))], {}),
    "qnn.conv2d": ([("uint8", _IMAGE), ("int8", (4, 6, 3, 2)), ("uint8", ()), ("int8", (4, 1, 1, 1))],
                   {"padding": (1, 0, 1, 0)}),
    "qnn.conv3d": ([("int8", (1, 2, 5, 4, 4)), ("int8", (3, 2, 2, 2, 2)), ("int8", ()), ("int8", ())], {}),
    "bitcast": ([_X], {"dtype": "int32"}), "det": ([(2, 3, 3)], {}), "topk": ([_X], {"k": 2, "axis": 1}),
    "gather_nd": ([_X, ("int64", (4, 2))], {}), "scatter_nd": ([_X, ("int64", (4, 2)), (4, 7)], {"reduction": "add"}),
    "scatter_elements": ([_X, ("int64", (3, 2, 7)), (3, 2, 7)], {"axis": 1}),
    "random_normal": ([(2, 3)], {"seed": 1, "dtype": "float32"}),
    "random_uniform": ([(2, 3)], {"seed": 1, "dtype": "float32"}),
    "resample": ([_X, ("int32", (4, 2)), (4, 2)], {"axis": 1}),
    "nn.col2im": ([(2, 12, 8)], {"image_shape": (5, 3), "block_shape": (2, 2), "strides": (1, 1),
                                 "padding": (0, 0, 0, 0), "dilation": (1, 1)}),
    "nn.pool_positions": ([_IMAGE, (2, 6, 4, 4)], {"pool_size": (2, 2), "strides": (2, 2), "padding": (0, 0, 0, 0),
                                                   "dilation": (1, 1)}),
    "nn.grid_sample": ([_IMAGE, (2, 3, 4, 2)], {}),
    "nn.deform_conv2d": ([_IMAGE, (4, 6, 3, 3), (2, 18, 7, 6), (2, 9, 7, 6)], {}),
    "nn.roi_align": ([_IMAGE, (3, 4), ("int64", (3,))], {"output_size": (2, 3), "sampling_ratio": 2}),
    "nn.max_roi_pool": ([_IMAGE, (3, 4), ("int64", (3,))], {"output_size": (2, 3)}),
    "nn.lstm": ([(4, 2, 3), (1, 20, 3), (1, 20, 5), (1, 40), (1, 2, 5), (1, 2, 5)], {"hidden_size": 5}),
}
_SHAPES = {"memory.border": (0,), "broadcast_to": (1,), "reshape": (1,), "full": (0,), "shape_to_tensor": (0,),
           "random_normal": (0,), "random_uniform": (0,),
           "slice_at": (1, 2)}  # the arguments that are shapes


def call_of(name):
    """A RelaxCall of the operator on variables a0, a1 ..."""
    spec = OPS[name]
    args, attrs = _OWN.get(name, ([_X] * (spec.arity[1] or 2), {}))
    return call_op(name, *(_argument(name, n, a) for n, a in enumerate(args)), **attrs)


def _argument(name, n, arg):
    if isinstance(arg, int):
        return PrimValue(arg)
    if n in _SHAPES.get(name, ()):
        return ShapeExpr(arg)
    dtype, shape = arg if arg and isinstance(arg[0], str) else (
        "bool" if name in BOOLS else "int32" if name in INTS else "float32", arg)
    return RelaxVar(f"a{n}", TensorStructInfo(shape, dtype))
