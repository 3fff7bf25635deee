"""A small network that reads handwritten digits, trained in seconds: scikit-learn's 8 x 8 pictures, numpy, ONNX.

    python examples/digits.py            trains it, and rewrites digits.onnx and pictures/ beside this file

The pictures are those of the UCI repository's "Optical Recognition of Handwritten Digits" (E. Alpaydin and C. Kaynak,
CC BY 4.0), which scikit-learn ships. The network: two 3x3 convolutions of 16 and 32 channels, each with a ReLU and a
2x2 maximum pool, and a fully connected layer with a softmax; 6,090 parameters.
"""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save

HERE = Path(__file__).resolve().parent
SIDE, LEVELS, CLASSES = 8, 16, 10  # pixels of an edge, the brightest pixel, digits
CHANNELS = (1, 16, 32)
EPOCHS, BATCH, RATE, SEED = 40, 32, 3e-3, 0
HELD_OUT = 360  # pictures that training never sees: a fifth
SHADES = " .:-=+*#%@"


@dataclass(frozen=True)
class Pictures:
    """images: float32 [count, 1, 8, 8] in [0, 1]; labels: int64 [count]."""

    images: np.ndarray
    labels: np.ndarray


def load_pictures():
    """(training set, held-out set) of Pictures, shuffled by SEED."""
    from sklearn.datasets import load_digits
    digits = load_digits()
    order = np.random.default_rng(SEED).permutation(len(digits.target))
    images = (digits.images[order] / LEVELS).astype(np.float32)[:, None]
    labels = digits.target[order].astype(np.int64)
    return Pictures(images[HELD_OUT:], labels[HELD_OUT:]), Pictures(images[:HELD_OUT], labels[:HELD_OUT])


# ---- training: forward, backward, Adam ------------------------------------------------------------------------------

def initial_weights(rng):
    """{name: float32 array}, normal with the variance that keeps a ReLU network's signals (He et al. 2015)."""
    weights = {}
    for n, (c_in, c_out) in enumerate(zip(CHANNELS, CHANNELS[1:]), 1):
        weights[f"conv{n}_w"] = rng.standard_normal((c_out, c_in, 3, 3)) * np.sqrt(2 / (9 * c_in))
        weights[f"conv{n}_b"] = np.zeros(c_out)
    features = CHANNELS[-1] * (SIDE // 4) ** 2
    weights["dense_w"] = rng.standard_normal((features, CLASSES)) * np.sqrt(1 / features)
    weights["dense_b"] = np.zeros(CLASSES)
    return {name: value.astype(np.float32) for name, value in weights.items()}


def windows(x):
    """The 3x3 windows of images [N, C, H, W] with a border of zeros: [N, H, W, C * 9]."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    view = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return view.transpose(0, 2, 3, 1, 4, 5).reshape(*x.shape[:1], *x.shape[2:], -1)


def layer(x, w, b):
    """(2x2 maximum pool of relu(convolution), what `layer_gradients` needs)."""
    columns = windows(x)
    y = np.maximum(columns @ w.reshape(len(w), -1).T + b, 0).transpose(0, 3, 1, 2)
    n, c, h, width = y.shape
    blocks = y.reshape(n, c, h // 2, 2, width // 2, 2)
    pooled = blocks.max((3, 5))
    return pooled, (columns, blocks == pooled[:, :, :, None, :, None], y > 0)


def layer_gradients(gradient, w, kept, need_input):
    """(gradient of the input or None, of the weights, of the bias) for the gradient of the layer's result."""
    columns, largest, positive = kept
    spread = (gradient[:, :, :, None, :, None] * largest).reshape(positive.shape) * positive
    rows = spread.transpose(0, 2, 3, 1)
    grad_w = np.tensordot(rows, columns, ((0, 1, 2), (0, 1, 2))).reshape(w.shape)
    grad_x = None
    if need_input:  # the convolution with the mirrored kernel
        mirrored = w[:, :, ::-1, ::-1].transpose(1, 0, 2, 3).reshape(w.shape[1], -1)
        grad_x = (windows(spread) @ mirrored.T).transpose(0, 3, 1, 2)
    return grad_x, grad_w, rows.sum((0, 1, 2))


def forward(weights, images):
    """(scores before the softmax [N, 10], what the backward pass needs)."""
    first, kept1 = layer(images, weights["conv1_w"], weights["conv1_b"])
    second, kept2 = layer(first, weights["conv2_w"], weights["conv2_b"])
    features = second.reshape(len(images), -1)
    return features @ weights["dense_w"] + weights["dense_b"], (kept1, kept2, features, second.shape)


def gradients(weights, images, labels):
    """{name: gradient of the mean cross entropy}."""
    scores, (kept1, kept2, features, shape) = forward(weights, images)
    shares = np.exp(scores - scores.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    shares[np.arange(len(labels)), labels] -= 1
    shares /= np.float32(len(labels))
    found = {"dense_w": features.T @ shares, "dense_b": shares.sum(0)}
    gradient = (shares @ weights["dense_w"].T).reshape(shape)
    gradient, found["conv2_w"], found["conv2_b"] = layer_gradients(gradient, weights["conv2_w"], kept2, True)
    _, found["conv1_w"], found["conv1_b"] = layer_gradients(gradient, weights["conv1_w"], kept1, False)
    return found


def train(pictures, epochs=EPOCHS, seed=SEED):
    """{name: float32 array} after `epochs` of Adam (Kingma and Ba 2015) on pictures moved by up to a pixel."""
    from threadpoolctl import threadpool_limits  # comes with scikit-learn
    with threadpool_limits(1):  # products so small are slower on several threads, much slower on a busy machine
        return _train(pictures, epochs, seed)


def _train(pictures, epochs, seed):
    rng = np.random.default_rng(seed)
    weights = initial_weights(rng)
    mean, square = ({name: np.zeros_like(w) for name, w in weights.items()} for _ in range(2))
    step = 0
    for epoch in range(epochs):
        order = rng.permutation(len(pictures.labels))
        for start in range(0, len(order), BATCH):
            some = order[start:start + BATCH]
            dy, dx = rng.integers(-1, 2, 2)
            images = np.roll(pictures.images[some], (dy, dx), (2, 3)) if step % 2 else pictures.images[some]
            step += 1
            rate = RATE * (1 - epoch / epochs) * np.sqrt(1 - 0.999 ** step) / (1 - 0.9 ** step)
            for name, gradient in gradients(weights, images, pictures.labels[some]).items():
                mean[name] += np.float32(0.1) * (gradient - mean[name])
                square[name] += np.float32(0.001) * (gradient * gradient - square[name])
                weights[name] -= np.float32(rate) * mean[name] / (np.sqrt(square[name]) + np.float32(1e-8))
    return weights


# ---- the ONNX model, and pictures as files --------------------------------------------------------------------------

def onnx_model(weights):
    """The trained network as an onnx.ModelProto: image float32 [1, 1, 8, 8] in [0, 1] -> scores float32 [1, 10]."""
    def conv(n, x, y):
        return [helper.make_node("Conv", [x, f"conv{n}_w", f"conv{n}_b"], [f"c{n}"], name=f"conv{n}", pads=[1] * 4),
                helper.make_node("Relu", [f"c{n}"], [f"r{n}"], name=f"relu{n}"),
                helper.make_node("MaxPool", [f"r{n}"], [y], name=f"pool{n}", kernel_shape=[2, 2], strides=[2, 2])]

    nodes = [*conv(1, "image", "half"), *conv(2, "half", "quarter"),
             helper.make_node("Flatten", ["quarter"], ["features"], name="flatten"),
             helper.make_node("Gemm", ["features", "dense_w", "dense_b"], ["logits"], name="dense"),
             helper.make_node("Softmax", ["logits"], ["scores"], name="softmax", axis=1)]
    graph = helper.make_graph(
        nodes, "digits", [helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 1, SIDE, SIDE))],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, (1, CLASSES))],
        [numpy_helper.from_array(value, name) for name, value in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model, full_check=True)
    return model


def accuracy(scores, labels):
    """The share of pictures whose largest score is their label's."""
    return float((scores.argmax(1) == labels).mean())


def write_pgm(path, image):
    """Write an image [8, 8] in [0, 1] as a plain portable graymap (P2), which is text."""
    rows = "\n".join(" ".join(f"{int(round(float(v) * LEVELS)):2d}" for v in row) for row in image)
    Path(path).write_text(f"P2\n{SIDE} {SIDE}\n{LEVELS}\n{rows}\n")


def read_pgm(path):
    """The image of a plain portable graymap as float32 [1, 1, height, width] in [0, 1]."""
    words = Path(path).read_text().split()
    if words[0] != "P2":
        raise ValueError(f"{path} is not a plain portable graymap (P2)")
    width, height, most, *values = map(int, words[1:])
    return (np.array(values, np.float32) / most).reshape(1, 1, height, width)


def ascii_picture(image):
    """An image [8, 8] in [0, 1] as eight lines, two letters a pixel, in a frame."""
    rows = ["".join(SHADES[min(int(v * len(SHADES)), len(SHADES) - 1)] * 2 for v in row) for row in image]
    edge = f"+{'-' * 2 * SIDE}+"
    return "\n".join([edge, *(f"|{row}|" for row in rows), edge])


def main():
    seen, unseen = load_pictures()
    weights = train(seen)
    scores = forward(weights, unseen.images)[0]
    print(f"{accuracy(scores, unseen.labels):.1%} of {len(unseen.labels)} pictures that training did not see are right")
    save(onnx_model(weights), HERE / "digits.onnx")
    for digit in range(CLASSES):
        first = int(np.flatnonzero(unseen.labels == digit)[0])
        write_pgm(HERE / "pictures" / f"{digit}.pgm", unseen.images[first, 0])


if __name__ == "__main__":
    main()
