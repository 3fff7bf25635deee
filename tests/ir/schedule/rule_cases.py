"""Small networks for the tests of the schedule rules: CASES maps a name to a function that makes a module.

`kernels(name, cpu)` are its PrimFuncs as they reach the rules, with the graph optimized for `cpu`.
"""
import functools

import numpy as np
from compiled_batch import same_results

from ingot.ir.expr import Var
from ingot.ir.node import structural_equal
from ingot.ir.relax import Constant, RelaxVar, TensorStructInfo, TupleGetItem, call_op
from ingot.ir.relax.accuracy import FLOAT32
from ingot.ir.relax.block_builder import BlockBuilder
from ingot.ir.relax.arithmetic import ARITHMETICS
from ingot.ir.relax.ops.conv_layouts import pack_weights
from ingot.ir.relax.ops.conv_winograd import pack_transformed
from ingot.ir.relax.ops.pointwise import kernel_matrix
from ingot.ir.relax.ops.winograd import transform_weights
from ingot.ir.schedule import Schedule
from ingot.ir.schedule.rules import follow
from ingot.ir.tir.function import PrimFunc
from ingot.ir.tir.verifier import verify
from ingot.ir.transform.lower_ops import lower_ops
from ingot.ir.transform.pipeline import graph_passes

CASES = {}


def case(name, *shapes, dtype="float32", dtypes=None):
    """Decorator: build(*parameters of these shapes) -> output is the network `name`. "n" is a symbolic dimension."""
    def register(build):
        CASES[name] = functools.partial(network, build, shapes, dtypes or [dtype] * len(shapes))
        return build
    return register


def network(build, shapes, dtypes=None):
    """The module of build(op, *parameters); op(name, *args, **attrs) binds a call."""
    dims, dtypes = {}, dtypes or ["float32"] * len(shapes)
    params = [RelaxVar(f"x{k}", TensorStructInfo(tuple(
        dims.setdefault(d, Var(d, "int64")) if isinstance(d, str) else d for d in shape), dtype))
        for k, (shape, dtype) in enumerate(zip(shapes, dtypes))]
    bb = BlockBuilder()
    with bb.function("main", params):
        bb.emit_func_output(build(lambda op, *args, **attrs: bb.emit(call_op(op, *args, **attrs)), *params))
    return bb.get()


def const(*shape, dtype="float32"):
    values = np.random.default_rng(shape).standard_normal(shape)
    return Constant((values * 8 if dtype.startswith("int") else values).astype(dtype), "w")


def kernels(case, cpu, accuracy=FLOAT32):
    """The PrimFuncs of a case (a name, or a function that makes a module), optimized for `cpu` and an accuracy with all
    convolutions direct, in order, but those that only change layouts."""
    mod = CASES[case]() if isinstance(case, str) else case()
    for run in graph_passes(2, cpu, accuracy):
        mod = mod if run.info.name == "ChooseConvolution" else run(mod)
    return [f for name, f in lower_ops(mod).functions.items()
            if isinstance(f, PrimFunc) and not name.startswith("layout_transform")]


def followed(op, y, epilogue, residual, bias):
    """A convolution's result and what follows it: nothing ("none"), or a bias and an activation, or "residual"."""
    if epilogue == "none":
        return y
    y = op("add", y, bias)
    return op("nn.relu", op("add", y, residual)) if epilogue == "residual" else op("nn." + epilogue, y)


def product_by(arithmetic, cpu, rows, depth, columns):
    """The PrimFunc of a product by an arithmetic, a bias and a ReLU."""
    row = ARITHMETICS[arithmetic]
    w = np.random.default_rng(0).standard_normal((depth, columns)).astype(np.float32)
    parts = [Constant(part, "w") for part in row.pack(w)]

    def build(op, x, bias):
        y = op("matmul", x, *parts, arithmetic=arithmetic, b_layout="operands", n_size=columns)
        return op("nn.relu", op("add", y, bias))

    func, = kernels(lambda: network(build, [(*rows, -(-depth // row.block) * row.block), (columns,)]), cpu, "relaxed")
    return func


def pointwise_by(arithmetic, cpu, shape, outputs, strides=(1, 1), before=None):
    """The PrimFunc of a 1x1 convolution of an image [batch, blocks, height, width], a residual and a ReLU."""
    w = np.random.default_rng(0).standard_normal((outputs, shape[1] * 16, 1, 1)).astype(np.float32)
    parts = [Constant(part, "w") for part in ARITHMETICS[arithmetic].pack(kernel_matrix(pack_weights(w, 16, 1, 16)))]
    sizes = (-(-d // s) for d, s in zip(shape[2:], strides))

    def build(op, x, residual):
        x = op(before, x) if before else x
        y = op("nn.conv2d_pointwise", x, *parts, arithmetic=arithmetic, out_channels=outputs, strides=strides)
        return op("nn.relu", op("add", y, residual))

    func, = kernels(lambda: network(build, [(*shape, 16), (shape[0], -(-outputs // 16), *sizes, 16)]), cpu, "relaxed")
    return func


def winograd_by(arithmetic, cpu, size, channels=16, outputs=32, tile=2, stride=1, batch=1, epilogue="relu",
                padding=(1, 1, 1, 1), scale=1):
    """The PrimFunc of a 3x3 Winograd convolution by an arithmetic, and of what follows it."""
    w = np.random.default_rng(0).standard_normal((outputs, channels * stride ** 2, 3, 3)).astype(np.float32) * scale
    u = transform_weights(w, tile, 16)
    parts = [Constant(part, "u") for part in pack_transformed(ARITHMETICS[arithmetic], u, tile)]
    out = [-(-s // stride) + padding[k] + padding[k + 2] - 2 for k, s in enumerate(size)]
    blocks = -(-outputs // 16)
    shapes = [(batch, -(-channels // 16), *size, 16), (batch, blocks, *out, 16), (1, blocks, 1, 1, 16)]

    def build(op, x, residual, bias):
        y = op("nn.conv2d_winograd", x, *parts, arithmetic=arithmetic, tile=tile, stride=stride, padding=padding,
               out_channels=outputs, data_layout="NCHW16c")
        return followed(op, y, epilogue, residual, bias)

    func, = kernels(lambda: network(build, shapes), cpu, "relaxed")
    return func


def scheduled(rule, func, cpu):
    """The Schedule of a function after one rule alone, which is well-formed and whose trace gives the same again."""
    sch, again = Schedule(func), Schedule(func)
    assert follow(rule, sch, cpu, func.attrs.get("plan"))
    verify(sch.func)
    sch.trace.apply(again)
    assert structural_equal(again.func, sch.func)
    return sch


def checked(rule, func, cpu, inputs=None):
    """The lowered function, after one rule alone: its results are those of `func`, as compiled_batch finds when the
    module's tests have run. Of loops that the rule would have threads share none is refused. inputs: what `arguments`
    gives where they are None."""
    sch = scheduled(rule, func, cpu)
    assert not sch.refused
    return same_results(func, sch.func, inputs, rtol=1e-4, atol=5e-4)


# ---------------------------------------------------------------- convolutions

def _conv(name, shape, out_channels, kernel=3, groups=1, epilogue=None, **attrs):
    weight = (out_channels, shape[1] // groups, kernel, kernel)

    @case(name, shape)
    def build(op, x):
        y = op("nn.conv2d", x, const(*weight), groups=groups, **attrs)
        return y if epilogue is None else epilogue(op, x, y)


def _bias_relu(op, x, y):
    return op("nn.relu", op("add", y, const(1, y.struct_info.shape[1].value, 1, 1)))


def _silu(op, x, y):
    return op("multiply", y, op("sigmoid", y))


_conv("conv_3x3", (1, 3, 7, 9), 32, padding=(1, 1, 1, 1), epilogue=_bias_relu)
_conv("conv_3x3_odd_channels", (1, 5, 6, 7), 19, padding=(1, 1, 1, 1), epilogue=_bias_relu)
_conv("conv_3x3_strided", (1, 3, 9, 11), 20, strides=(2, 2))
_conv("conv_3x3_dilated", (1, 4, 9, 9), 16, dilation=(2, 2), epilogue=_silu)
_conv("conv_1x1", (1, 8, 5, 5), 48, 1, epilogue=_bias_relu)
_conv("conv_1x1_odd_channels", (1, 7, 4, 6), 13, 1)
_conv("conv_1x1_one_pixel", (1, 12, 1, 1), 33, 1, epilogue=_silu)
_conv("conv_grouped", (1, 8, 6, 6), 64, groups=4, epilogue=_bias_relu)
_conv("conv_grouped_odd", (1, 6, 6, 6), 15, groups=3)
_conv("conv_grouped_narrow", (1, 8, 5, 6), 16, groups=2)
_conv("conv_depthwise", (1, 10, 8, 9), 10, groups=10, padding=(1, 1, 1, 1), epilogue=_bias_relu)
_conv("conv_depthwise_strided", (1, 6, 9, 9), 12, groups=6, strides=(2, 2))
_conv("conv_symbolic_batch", ("n", 3, 5, 5), 18, padding=(1, 1, 1, 1), epilogue=_bias_relu)
_conv("conv_symbolic_size", (1, 3, "h", "w"), 16, epilogue=_bias_relu)
_conv("conv_batch", (3, 4, 4, 5), 16)


@case("conv_residual", (1, 16, 6, 5), (1, 32, 6, 5))
def _residual(op, x, skip):
    y = op("nn.conv2d", x, const(32, 16, 3, 3), padding=(1, 1, 1, 1))
    return op("nn.relu", op("add", op("add", y, const(1, 32, 1, 1)), skip))


@case("conv_residual_odd", (1, 6, 6, 5), (1, 21, 6, 5))
def _residual_odd(op, x, skip):
    y = op("nn.conv2d", x, const(21, 6, 3, 3), padding=(1, 1, 1, 1))
    return op("nn.relu", op("add", op("add", y, const(1, 21, 1, 1)), skip))


@case("conv_computed_weight", (1, 4, 6, 6), (8, 4, 3, 3))
def _computed(op, x, w):
    return op("nn.conv2d", x, w)


@case("conv1d", (1, 4, 20))
def _conv1d(op, x):
    return op("nn.relu", op("nn.conv1d", x, const(8, 4, 3)))


@case("conv3d", (1, 2, 5, 5, 6))
def _conv3d(op, x):
    return op("nn.conv3d", x, const(4, 2, 3, 3, 3))


def _transposed(name, shape, outputs, kernel, epilogue=None, **attrs):
    @case(name, shape)
    def build(op, x):
        y = op("nn.conv2d_transpose", x, const(shape[1], outputs, *kernel), **{"strides": (2, 2), **attrs})
        return y if epilogue is None else epilogue(op, x, y)


_transposed("conv_transpose", (1, 4, 4, 5), 6, (3, 3))
_transposed("conv_transpose_whole", (1, 8, 4, 6), 32, (4, 4), _bias_relu, padding=(1, 1, 1, 1))
_transposed("conv_transpose_odd", (2, 5, 3, 7), 19, (3, 3), _bias_relu, padding=(1, 1, 1, 1))
_transposed("conv_transpose_uneven", (1, 4, 3, 4), 8, (5, 2), strides=(2, 3), padding=(2, 0, 1, 1))
_transposed("conv_transpose_symbolic", ("n", 4, "h", "h"), 8, (3, 3), padding=(1, 1, 1, 1), output_padding=(1, 1))
_transposed("conv_transpose_dilated", (1, 4, 4, 5), 6, (3, 2), dilation=(2, 3))
_transposed("conv_transpose_few", (1, 20, 4, 5), 1, (4, 4), _bias_relu, padding=(1, 1, 1, 1))
_transposed("conv_transpose_depthwise", (1, 18, 4, 5), 1, (4, 4), padding=(1, 1, 1, 1), groups=18)
_transposed("conv_transpose_grouped", (1, 4, 4, 5), 6, (3, 2), groups=2)


@case("conv_int32", (1, 3, 6, 6), dtype="int32")
def _conv_int(op, x):
    return op("nn.conv2d", x, const(16, 3, 3, 3, dtype="int32"))


# ---------------------------------------------------------------- products

def _dense(name, shape, columns, epilogue=None):
    @case(name, shape)
    def build(op, x):
        y = op("add", op("matmul", x, const(shape[-1], columns)), const(columns))
        return y if epilogue is None else op(epilogue, y)


_dense("dense", (14, 24), 64, "nn.relu")
_dense("dense_odd_columns", (13, 10), 37, "nn.relu")
_dense("dense_few_columns", (9, 8), 3)
_dense("dense_one_row", (1, 40), 50, "tanh")
_dense("dense_one_row_whole", (1, 16), 32)
_dense("dense_3d", (2, 5, 12), 24, "nn.gelu")
_dense("dense_symbolic_batch", ("n", 12), 20, "nn.relu")
_dense("dense_symbolic_sequence", (2, "n", 8), 32, "nn.relu")
_dense("dense_sinh", (6, 8), 32, "sinh")


def _product(name, *shapes, dtype="float32", epilogue=None):
    @case(name, *shapes, dtype=dtype)
    def build(op, a, b):
        y = op("matmul", a, b)
        return y if epilogue is None else op(epilogue, y)


_product("matmul", (12, 9), (9, 32))
_product("matmul_odd", (11, 7), (7, 37), epilogue="nn.relu")
_product("matmul_narrow", (11, 7), (7, 3))
_product("matmul_one_row", (1, 9), (9, 32))
_product("matmul_one_row_odd", (2, 1, 9), (2, 9, 35), epilogue="nn.relu")
_product("matmul_sinh", (6, 9), (9, 32), epilogue="sinh")
_product("matmul_sinh_odd", (6, 9), (9, 35), epilogue="sinh")
_product("matmul_batched", (2, 3, 6, 5), (2, 3, 5, 18))
_product("matmul_broadcast", (2, 1, 6, 5), (3, 5, 16))
_product("matmul_vector", (9,), (9, 20))
_product("matmul_by_vector", (6, 9), (9,))
_product("matmul_dot", (9,), (9,))
_product("matmul_symbolic_rows", ("n", 9), (9, 24))
_product("matmul_symbolic", ("n", "k"), ("k", "m"))
_product("matmul_symbolic_batch", ("n", 5, 6), ("n", 6, 20))
_product("matmul_int32", (6, 5), (5, 16), dtype="int32")
_product("matmul_float64", (6, 5), (5, 16), dtype="float64")


def _permuted_product(name, a, b, a_axes=None, b_axes=None, scale=False, epilogue="nn.relu"):
    """A product that reads operands through permutations of their axes."""
    @case(name, a, b)
    def build(op, *operands):
        operands = [x if axes is None else op("permute_dims", x, axes=axes)
                    for x, axes in zip(operands, (a_axes, b_axes))]
        if scale:
            operands[1] = op("multiply", operands[1], const(operands[1].struct_info.shape[-1].value))
        return op(epilogue, op("matmul", *operands))


_permuted_product("matmul_transposed_columns", (40, 33), (48, 33), None, (1, 0))
_permuted_product("matmul_transposed_rows", (70, 35), (70, 32), (1, 0))
_permuted_product("matmul_transposed_small", (20, 35), (20, 19), (1, 0))
_permuted_product("matmul_transposed_both", (130, 37), (64, 130), (1, 0), (1, 0), epilogue="sinh")
_permuted_product("matmul_transposed_odd", (40, 33), (35, 33), None, (1, 0))
_permuted_product("matmul_transposed_batch", (2, 66, 33), (3, 2, 32, 66), (0, 2, 1), (0, 1, 3, 2))
_permuted_product("matmul_scaled", (40, 80), (128, 80), None, (1, 0), scale=True)
_permuted_product("matmul_heads", (2, 33, 3, 20), (2, 32, 3, 20), (0, 2, 1, 3), (0, 2, 3, 1))
_permuted_product("matmul_of_heads", (2, 3, 33, 16), (2, 16, 3, 32), None, (0, 2, 1, 3))
_permuted_product("matmul_dots", (5, 64), (35, 64), None, (1, 0))
_permuted_product("matmul_dots_odd", (9, 75), (7, 75), None, (1, 0), epilogue="sinh")
_permuted_product("matmul_dots_one_row", (2, 1, 3, 48), (2, 20, 3, 48), (0, 2, 1, 3), (0, 2, 3, 1))
_permuted_product("matmul_symbolic_transposed", ("n", 33), (48, 33), None, (1, 0))


# ---------------------------------------------------------------- reductions and windows

def _unary(name, op_name, *shape, dtype="float32", **attrs):
    @case(name, shape, dtype=dtype)
    def build(op, x):
        return op(op_name, x, **attrs)


_unary("softmax", "nn.softmax", 4, 33)
_unary("softmax_whole", "nn.softmax", 2, 3, 48)
_unary("softmax_long", "nn.softmax", 3, 149)
_unary("mean_whole", "mean", 1, 5, 4, 8, axis=(2, 3))
_unary("mean_uneven", "mean", 1, 3, 4, 3, axis=(2, 3))
_unary("max_all_but_last", "max", 4, 6, 8, axis=(0, 1))
_unary("sum_all_whole", "sum", 4, 8, 8)
_unary("softmax_middle", "nn.softmax", 2, 5, 6, axis=1)
_unary("softmax_symbolic", "nn.softmax", "n", 10)
_unary("softmax_vector", "nn.softmax", 40)
_unary("log_softmax", "nn.log_softmax", 3, 17)
_unary("max_pool", "nn.max_pool2d", 1, 3, 9, 11, pool_size=(3, 3), strides=(2, 2), padding=(1, 1, 1, 1))
_unary("max_pool_whole", "nn.max_pool2d", 2, 3, 4, 4, pool_size=(4, 4))
_unary("max_pool1d", "nn.max_pool1d", 1, 3, 20, pool_size=(3,))
_unary("max_pool_symbolic", "nn.max_pool2d", "n", 3, 8, 8, pool_size=(2, 2), strides=(2, 2))
_unary("avg_pool", "nn.avg_pool2d", 1, 3, 9, 11, pool_size=(3, 3), strides=(2, 2), padding=(1, 1, 1, 1))
_unary("mean", "mean", 1, 6, 5, 7, axis=(2, 3))
_unary("mean_kept", "mean", 1, 6, 5, 7, axis=(2, 3), keepdims=True)
_unary("mean_channels", "mean", 2, 6, 5, 7, axis=(1,))
_unary("mean_first", "mean", 6, 9, axis=(0,))
_unary("sum_all", "sum", 3, 4, 5)
_unary("sum_all_kept", "sum", 3, 4, keepdims=True)
_unary("sum_vector", "sum", 30, axis=(0,))
_unary("max_symbolic", "max", "n", 7, axis=(1,))
_unary("mean_symbolic", "mean", 3, "n", axis=(1,))
_unary("argmax", "argmax", 3, 9, axis=1)
_unary("lrn", "nn.lrn", 1, 7, 4, 5, size=5)


@case("layer_norm", (3, 5, 24))
def _layer_norm(op, x):
    return op("nn.layer_norm", x, const(24), const(24))


@case("layer_norm_long", (3, 135))
def _layer_norm_long(op, x):
    return op("nn.layer_norm", x, const(135), const(135))


@case("rms_norm", (4, 37))
def _rms_norm(op, x):
    return op("nn.rms_norm", x, const(37))


def _attention(name, queries, keys, mask=(), heads=2, size=16, lanes=16):
    width = heads * size
    shapes = [(1, queries, width + 3), (1, keys, width), (1, keys, width + 1)] + ([mask] if mask else [])

    @case(name, *shapes)
    def build(op, *x):
        return op("nn.attention", *x, heads=heads, head_size=size, offsets=(3, 0, 1), scale=0.25, lanes=lanes)


_attention("attention", 4, 32, heads=1)
_attention("attention_odd", 7, 37, (7, 37), heads=1)
_attention("attention_rows", 61, 37, heads=1)
_attention("attention_narrow", 5, 14, (1, 1, 14), size=4, lanes=4)
_attention("attention_8", 5, 21, size=8, lanes=8)
_attention("attention_any_length", "n", "n", ("n", "n"), heads=1)
_attention("attention_any_keys", 7, "n", (1, 1, "n"), size=8, lanes=8)
_attention("attention_any_queries", "n", 33, size=4, lanes=4)


def _cached_attention(name, queries, keys):
    @case(name, (1, 4, queries, 16), (1, 2, keys, 16), (1, 2, keys, 16), (queries, keys))
    def build(op, *x):
        return op("nn.attention", *x, heads=4, kv_heads=2, head_size=16, scale=0.25, lanes=16, by_head=queries != 1)


_cached_attention("attention_step", 1, 37)
_cached_attention("attention_prompt", 9, 37)
_cached_attention("attention_cached", "n", "m")


@case("instance_norm", (2, 4, 5, 6))
def _instance_norm(op, x):
    return op("nn.relu", op("nn.instance_norm", x, const(4), const(4)))


@case("mean_then_map", (2, 6, 10))
def _mean_map(op, x):
    return op("sqrt", op("abs", op("mean", op("square", x), axis=(2,))))


# ---------------------------------------------------------------- maps and copies

_unary("relu", "nn.relu", 2, 3, 4)
_unary("relu_symbolic", "nn.relu", "n", 3, 4)
_unary("relu_scalar", "nn.relu")
_unary("logical_not", "logical_not", 5, 6, dtype="bool")
_unary("transpose", "permute_dims", 2, 3, 4, axes=(0, 2, 1))
_unary("register_transpose", "permute_dims", 2, 37, 21, axes=(0, 2, 1))
_unary("transpose_symbolic", "permute_dims", "n", 3, 4, axes=(2, 0, 1))
_unary("broadcast_slice", "strided_slice", 4, 9, axes=(1,), begin=(8,), end=(0,), strides=(-2,))
_unary("pad", "nn.pad", 2, 3, 4, 5, pad_width=(0, 0, 0, 0, 1, 2, 0, 3), pad_value=1.5)
_unary("pad_channels", "nn.pad", 1, 3, 4, pad_width=(0, 0, 1, 2, 0, 0))
_unary("pad_symbolic", "nn.pad", "n", 2, 4, "w", pad_width=(0, 0, 0, 0, 1, 1, 2, 0))
_unary("pad_reflect", "nn.pad", 1, 1, 4, 5, pad_width=(0, 0, 0, 0, 1, 2, 2, 1), pad_mode="reflect")
_unary("split", "split", 4, 10, sections=(3, 7), axis=1)


def _layouts(name, shape, source, target):
    @case(name, shape)
    def build(op, x):
        return op("nn.relu", op("layout_transform", x, src_layout=source, dst_layout=target))


# Rows and columns of an image, too short alone, are one run of memory in both layouts; 35 is no multiple of 16.
_layouts("layout_to_blocks", (2, 32, 5, 7), "NCHW", "NCHW16c")
_layouts("layout_to_plain", (2, 2, 5, 7, 16), "NCHW16c", "NCHW")


@case("transpose_and_add", (17, 3, 32), (3, 32, 17))
def _transpose_and_add(op, x, y):
    return op("nn.relu", op("add", op("permute_dims", x, axes=(1, 2, 0)), y))


@case("chain", (2, 5, 6), (5, 6))
def _chain(op, x, y):
    a = op("tanh", op("add", x, y))
    return op("multiply", a, op("exp", op("negative", a)))


@case("broadcast_rows", (4, 6), (4, 1))
def _broadcast_rows(op, x, y):
    return op("multiply", op("add", x, y), const(6))


@case("concat", (2, 3, 4), (2, 5, 4))
def _concat(op, x, y):
    return op("concat", x, y, x, axis=1)


@case("concat_symbolic", ("n", 3), ("m", 3))
def _concat_symbolic(op, x, y):
    return op("concat", x, y, axis=0)


@case("concat_last", (3, 2), (3, 4))
def _concat_last(op, x, y):
    return op("nn.relu", op("concat", op("nn.relu", x), y, axis=-1))


@case("gather", (6, 4), (2, 3), dtypes=["float32", "int64"])
def _gather(op, x, indices):
    return op("nn.relu", op("take", x, indices, axis=0))


# ---------------------------------------------------------------- recurrences

def _recurrent(name, cell, steps, batch, size, hidden, directions=1, gates=3, **attrs):
    @case(name, (steps, batch, size))
    def build(op, x):
        start = [const(directions, batch, hidden)] * (2 if cell == "nn.lstm" else 1)
        kind = "bidirectional" if directions == 2 else "forward"
        y = op(cell, x, const(directions, gates * hidden, size), const(directions, gates * hidden, hidden),
               const(directions, 2 * gates * hidden), *start, hidden_size=hidden, direction=kind, **attrs)
        return TupleGetItem(y, 0)


_recurrent("gru", "nn.gru", 3, 1, 5, 16)
_recurrent("gru_batch", "nn.gru", 3, 4, 2, 32)
_recurrent("gru_reset_later", "nn.gru", 4, 1, 4, 32, linear_before_reset=True)
_recurrent("gru_odd", "nn.gru", 2, 3, 3, 7, directions=2)
_recurrent("lstm", "nn.lstm", 3, 2, 4, 12, gates=4)
_recurrent("lstm_both_ways", "nn.lstm", 4, 1, 3, 20, directions=2, gates=4)
_recurrent("rnn_both_ways", "nn.rnn", 3, 3, 3, 16, directions=2, gates=1, activations=("Tanh", "Relu"))
