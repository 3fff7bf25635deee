"""Programs in blocked layout (N, blocks, H, W, lanes) as operators lower to: what the rules for them see."""
from functools import reduce

from ingot.ir import te
from ingot.ir.expr import const, logical_and
from ingot.ir.tir import intrin

PLACES = 5  # blocks of a gathered convolution's input: random places are 0 to 3


def conv2d(inputs, outputs, size, kernel=(1, 1), strides=(1, 1), dilation=(1, 1), lanes=16, batch=1, epilogue="relu",
           prologue=None, plain_input=False, groups=1):
    """A dense convolution of `inputs` blocks of channels into `outputs` blocks of images of `size`.

    groups: how many, of `inputs` blocks each. plain_input: `inputs` counts channels, which are not in blocks: a first
    layer. epilogue: None, "relu" (a bias too)
    or "residual" (a bias and another tensor, then relu). prologue: "scale" (batch norm and relu of the input)
    or "gate" (a factor for each channel).
    """
    x = te.placeholder((batch, groups * inputs, *input_size(size, kernel, strides, dilation),
                        *([] if plain_input else [lanes])), "float32", "x")
    w = te.placeholder((outputs, inputs, *kernel, *([] if plain_input else [lanes]), lanes), "float32", "w")
    args, data = [x], x
    if prologue == "scale":
        scale, shift = (te.placeholder((1, inputs, 1, 1, lanes), "float32", name) for name in ("scale", "shift"))
        args += [scale, shift]
        scaled = te.compute(x.shape, lambda n, c, y, i, l: x[n, c, y, i, l] * scale[0, c, 0, 0, l], name="multiply")
        shifted = te.compute(x.shape, lambda n, c, y, i, l: scaled[n, c, y, i, l] + shift[0, c, 0, 0, l], name="add_1")
        data = te.compute(x.shape, lambda *i: intrin.max(shifted[i], const(0.0, "float32")), name="relu_1")
    if prologue == "gate":
        gate = te.placeholder((1, inputs, 1, 1, lanes), "float32", "gate")
        args.append(gate)
        data = te.compute(x.shape, lambda n, c, y, i, l: x[n, c, y, i, l] * gate[0, c, 0, 0, l], name="multiply")
    axes = [te.reduce_axis((0, n), name) for n, name in zip((inputs, *kernel), ("ic", "kh", "kw"))]
    if not plain_input:
        axes.append(te.reduce_axis((0, lanes), "ii"))
    ic, kh, kw, *inner = (a.var for a in axes)

    def element(n, oo, y, i, oi):
        at = (y * strides[0] + kh * dilation[0], i * strides[1] + kw * dilation[1])
        block = ic if groups == 1 else oo // (outputs // groups) * inputs + ic
        return te.sum(data[(n, block, *at, *inner)] * w[(oo, ic, kh, kw, *inner, oi)], axes)

    conv = te.compute((batch, outputs, *size, lanes), element,
                      name="conv2d_packed" if plain_input else "conv2d_blocked",
                      attrs={"groups": groups} if groups > 1 else None)
    return te.create_prim_func([*args, w, *_epilogue(conv, epilogue)])


def gathered(groups, inputs, outputs, size, kernel=(1, 1), strides=(1, 1), lanes=16, batch=1, epilogue="relu"):
    """A convolution of `groups` of so many input channels, which lie anywhere in PLACES blocks, into `outputs` blocks
    each."""
    x = te.placeholder((batch, PLACES, *input_size(size, kernel, strides, (1, 1)), lanes), "float32", "x")
    w = te.placeholder((groups * outputs, inputs, *kernel, lanes), "float32", "w")
    places = te.placeholder((groups, inputs, 2), "int32", "places")
    axes = ic, kh, kw = [te.reduce_axis((0, n), name) for n, name in zip((inputs, *kernel), ("ic", "kh", "kw"))]

    def element(n, oo, y, i, oi):
        block, lane = (places[oo // outputs, ic.var, part] for part in (0, 1))
        source = x[n, block, y * strides[0] + kh.var, i * strides[1] + kw.var, lane]
        return te.sum(source * w[oo, ic.var, kh.var, kw.var, oi], axes)

    conv = te.compute((batch, groups * outputs, *size, lanes), element, name="conv2d_gathered",
                      attrs={"groups": groups})
    return te.create_prim_func([x, w, places, *_epilogue(conv, epilogue)])


def depthwise(blocks, size, kernel=(3, 3), strides=(1, 1), dilation=(1, 1), lanes=16, batch=1, epilogue="relu"):
    """A depthwise convolution of `blocks` blocks of channels."""
    x = te.placeholder((batch, blocks, *input_size(size, kernel, strides, dilation), lanes), "float32", "x")
    w = te.placeholder((blocks, 1, *kernel, lanes), "float32", "w")
    axes = kh, kw = [te.reduce_axis((0, n), name) for n, name in zip(kernel, ("kh", "kw"))]

    def element(n, c, y, i, l):
        at = (y * strides[0] + kh.var * dilation[0], i * strides[1] + kw.var * dilation[1])
        return te.sum(x[(n, c, *at, l)] * w[c, 0, kh.var, kw.var, l], axes)

    conv = te.compute((batch, blocks, *size, lanes), element, name="depthwise_blocked")
    return te.create_prim_func([x, w, *_epilogue(conv, epilogue)])


def pointwise_depthwise(inputs, blocks, size, kernel=(3, 3), strides=(1, 1), dilation=(1, 1), padding=(1, 1, 1, 1),
                        lanes=16, batch=1, between="relu", epilogue="relu"):
    """A 1x1 convolution of `inputs` blocks of channels into `blocks` and, of its result with zeros around, a depthwise
    convolution with a result of `size`. padding: (top, left, bottom, right). between: None or "relu" (a bias too)."""
    top, left, bottom, right = padding
    rows, columns = input_size(size, kernel, strides, dilation)
    height, width = rows - top - bottom, columns - left - right
    x = te.placeholder((batch, inputs, height, width, lanes), "float32", "x")
    w = te.placeholder((blocks, inputs, 1, 1, lanes, lanes), "float32", "w")
    v = te.placeholder((blocks, 1, *kernel, lanes), "float32", "v")
    shift = te.placeholder((1, blocks, 1, 1, lanes), "float32", "shift")
    zero = const(0.0, "float32")
    ic, qh, qw, ii = axes = [te.reduce_axis((0, n), name) for n, name in (
        (inputs, "ic"), (1, "kh"), (1, "kw"), (lanes, "ii"))]
    conv = middle = te.compute((batch, blocks, height, width, lanes), lambda n, o, y, i, l: te.sum(
        x[n, ic.var, y + qh.var, i + qw.var, ii.var] * w[o, ic.var, qh.var, qw.var, ii.var, l], axes),
        name="conv2d_blocked")
    if between:
        added = te.compute(conv.shape, lambda n, c, y, i, l: conv[n, c, y, i, l] + shift[0, c, 0, 0, l], name="add_1")
        middle = te.compute(conv.shape, lambda *i: intrin.max(added[i], zero), name="relu_1")

    def padded(n, c, y, i, l, m=middle):
        sides = (y - top, height, top, bottom), (i - left, width, left, right)
        inside = [test for index, extent, before, after in sides
                  for test in ([index >= 0] if before else []) + ([index < extent] if after else [])]
        value = m[n, c, y - top, i - left, l]
        return intrin.if_then_else(reduce(logical_and, inside), value, zero)

    if any(padding):
        middle = te.compute((batch, blocks, rows, columns, lanes), padded, name="pad")
    kh, kw = axes = [te.reduce_axis((0, n), name) for n, name in zip(kernel, ("kh", "kw"))]
    depthwise = te.compute((batch, blocks, *size, lanes), lambda n, c, y, i, l: te.sum(
        middle[n, c, y * strides[0] + kh.var * dilation[0], i * strides[1] + kw.var * dilation[1], l]
        * v[c, 0, kh.var, kw.var, l], axes), name="depthwise_blocked")
    return te.create_prim_func([x, w, *([shift] if between else []), v, *_epilogue(depthwise, epilogue)])


def input_size(size, kernel, strides, dilation):
    """The height and width of the input whose valid windows give an output of `size`."""
    return tuple((n - 1) * s + (k - 1) * d + 1 for n, k, s, d in zip(size, kernel, strides, dilation))


def _epilogue(conv, kind):
    """The tensors that come last among a function's arguments."""
    if kind is None:
        return [conv]
    blocks, lanes = conv.shape[1], conv.shape[4]
    bias = te.placeholder((1, blocks, 1, 1, lanes), "float32", "bias")
    args = [bias]
    value = te.compute(conv.shape, lambda n, c, y, i, l: conv[n, c, y, i, l] + bias[0, c, 0, 0, l], name="add")
    if kind == "residual":
        skip, sum_ = te.placeholder(conv.shape, "float32", "skip"), value
        args.append(skip)
        value = te.compute(conv.shape, lambda *i: sum_[i] + skip[i], name="add_skip")
    out = te.compute(conv.shape, lambda *i: intrin.max(value[i], const(0.0, "float32")), name="relu")
    return [*args, out]
