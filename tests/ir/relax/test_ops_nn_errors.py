"""One test per message: arguments of network operators that contradict each other."""
import pytest
from ops_nn_check import call_of

from ingot.ir.expr import Var
from ingot.ir.op import InferError

K = Var("k", "int64")
X, W = (1, 3, 8, 8), (4, 3, 3, 3)
PACKED = dict(kernel_layout="OIHW4o", out_channels=5)

CONV = [
    ([(1, 3, 8), W], {}, r"argument 0 must have 4 dimensions, its shape is \(1, 3, 8\)"),
    ([X, (4, 3, 3)], {}, r"argument 1 must have 4 dimensions"),
    ([X, W], dict(strides=(1,)), r"strides \(1,\) must be 2 integers of at least 1"),
    ([X, W], dict(strides=(1, 0)), r"strides \(1, 0\) must be 2 integers of at least 1"),
    ([X, W], dict(padding=(1, 1)), r"padding \(1, 1\) must be 4 integers of at least 0"),
    ([X, W], dict(dilation=(0, 1)), r"dilation \(0, 1\) must be"),
    ([X, W], dict(groups=0), r"groups=0 must be at least 1"),
    ([X, W], dict(kernel_layout="HWIO"), r"kernel_layout 'HWIO' must be OIHW or OIHW\{n\}o"),
    ([(1, 6, 8, 8), (4, 2, 3, 3)], dict(groups=3),
     r"groups=3 does not divide the 4 output channels of weight \(4, 2, 3, 3\) \(dim 0\)"),
    ([X, (4, 2, 3, 3)], {}, r"input \(1, 3, 8, 8\) has 3 channels \(dim 1\), but weight \(4, 2, 3, 3\) with groups=1 "
                            r"takes 2 \* 1"),
    ([X, (4, 3, 3, K)], {}, r"weight \(4, 3, 3, k\) must have static kernel dimensions"),
    ([(1, 3, 8, 2), W], dict(padding=(1, 0, 1, 0)),
     r"window \(3, 3\) with dilation \(1, 1\) does not fit the input's spatial shape \(8, 2\) with padding "
     r"\(1, 0, 1, 0\): spatial axis 1 needs 3, there are 2"),
    ([X, (2, 3, 3, 3, 4)], dict(PACKED, groups=3),
     r"kernel_layout 'OIHW4o' needs attribute out_channels, a multiple of groups=3; got 5"),
    ([X, (2, 3, 3, 3, 4)], dict(kernel_layout="OIHW4o"), r"needs attribute out_channels"),
    ([X, (3, 3, 3, 3, 4)], PACKED, r"packed weight \(3, 3, 3, 3, 4\) does not hold out_channels=5 in blocks of 4: "
                                   r"dim 0 must be 2 and dim 4 must be 4"),
]

TRANSPOSE = [
    ([X, (3, 2, 3, 3)], dict(kernel_layout="OIHW"), r"kernel_layout 'OIHW' must be IOHW"),
    ([X, (3, 2, 3, 3)], dict(output_padding=(1, 0)), r"output_padding \(1, 0\) must be 2 integers .* below strides "
                                                     r"\(1, 1\) or dilation"),
    ([X, (4, 2, 3, 3)], {}, r"input \(1, 3, 8, 8\) has 3 channels \(dim 1\), but weight \(4, 2, 3, 3\) takes 4"),
    ([X, (3, 2, 3, 3)], dict(groups=2), r"groups=2 does not divide the 3 input channels of weight \(3, 2, 3, 3\)"),
    ([(1, 3, 1, 8), (3, 2, 3, 3)], dict(padding=(2, 0, 1, 0)),
     r"padding \(2, 0, 1, 0\) leaves nothing of the output of an input of spatial shape \(1, 8\) .* \(0, 10\)"),
]

MATMUL = [
    ([(), (3, 4)], {}, r"at least 1 dimension, got shapes \(\) and \(3, 4\)"),
    ([(2, 3), (4, 5)], {},
     r"shapes \(2, 3\) and \(4, 5\) do not multiply: dim 1 of the first is 3, dim 0 of the second is 4"),
    ([(2, 3), (3, 5)], dict(b_layout="MK"), r"b_layout 'MK' must be KN, NK or KN\{n\}n"),
    ([(2, 3), (2, 5, 3)], dict(b_layout="NK"), r"b_layout 'NK' is of a matrix, not \(2, 5, 3\)"),
    ([(2, 3), (5, 4)], dict(b_layout="NK"), "do not multiply: dim 1 of the first is 3, dim 1 of the second is 4"),
    ([(2, 4, 3), (5, 3, 4)], {}, r"batch dimensions .* of \(2, 4, 3\) and \(5, 3, 4\): .* 2 against 5"),
    ([(2, 3), (2, 3, 4)], dict(b_layout="KN4n"), r"b_layout 'KN4n' needs attribute n_size"),
    ([(2, 3), (2, 3, 4)], dict(b_layout="KN4n", n_size=9),
     r"packed operand \(2, 3, 4\) does not hold n_size=9 in blocks of 4: it must be \(3, 3, 4\)"),
]

POOL = [
    ([X], dict(pool_size=(2,)), r"pool_size \(2,\) must be 2 integers of at least 1"),
    ([X], dict(pool_size=(2, 2), padding=(0, 2, 0, 0)),
     r"padding \(0, 2, 0, 0\) must be below the window \(2, 2\) with dilation \(1, 1\)"),
    ([X], dict(pool_size=(9, 2)),
     r"window \(9, 2\) .* does not fit .* \(8, 8\) .*: spatial axis 0 needs 9, there are 8"),
    ([X], {}, r"needs attribute pool_size"),
]

NORM = [
    ("nn.softmax", [(2, 3)], dict(axis=2), r"axis 2 is outside a tensor of 2 dimensions"),
    ("nn.layer_norm", [(2, 3, 4), (3,), (4,)], {},
     r"gamma has shape \(3,\), it must be \(4,\): the axes \(2,\) of input \(2, 3, 4\)"),
    ("nn.layer_norm", [(2, 3, 4), (3, 4), (4, 3)], dict(axes=(1, 2)), r"beta has shape \(4, 3\), it must be \(3, 4\)"),
    ("nn.batch_norm", [X, (3,), (3,), (3,), (8,)], {},
     r"var has shape \(8,\), it must be \(3,\): one value per channel \(dim 1\) of input \(1, 3, 8, 8\)"),
    ("nn.instance_norm", [X, (3, 1), (3,)], {}, r"gamma has shape \(3, 1\), it must be \(3,\)"),
    ("nn.lrn", [(4,)], dict(size=3), r"at least 2 dimensions \(N, C, ...\), got \(4,\)"),
    ("nn.lrn", [X], dict(size=0), r"size 0 must be at least 1"),
]

CASES = ([("nn.conv2d", *c) for c in CONV] + [("nn.conv2d_transpose", *c) for c in TRANSPOSE]
         + [("matmul", *c) for c in MATMUL] + [("nn.max_pool2d", *c) for c in POOL] + NORM)


@pytest.mark.parametrize("name, shapes, attrs, message", CASES)
def test_contradiction(name, shapes, attrs, message):
    with pytest.raises(InferError, match=message) as caught:
        call_of(name, shapes, attrs)
    assert name in str(caught.value)


@pytest.mark.parametrize("name, shapes, attrs, dtype, message", [
    ("nn.conv2d", [X, W], {}, ["float32", "float16"], "operands differ in dtype: float32, float16"),
    ("nn.conv2d", [X, W], {}, "bool", "takes a tensor of numbers, got bool"),
    ("matmul", [(2, 3), (3, 4)], {}, ["uint8", "int8"], "operands differ in dtype: uint8, int8"),
    ("nn.avg_pool2d", [X], dict(pool_size=(2, 2)), "int8", "takes a floating-point tensor, got int8"),
    ("nn.softmax", [X], {}, "int32", "takes a floating-point tensor, got int32"),
    ("nn.batch_norm", [X, (3,), (3,), (3,), (3,)], {}, ["float16"] + ["float32"] * 4, "operands differ in dtype"),
])
def test_wrong_dtype(name, shapes, attrs, dtype, message):
    with pytest.raises(InferError, match=message):
        call_of(name, shapes, attrs, dtype)
