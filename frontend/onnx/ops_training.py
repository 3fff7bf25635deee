"""One step of an optimizer, of ai.onnx.preview.training: Adagrad, Adam, Momentum. Gradient, which differentiates a
graph, is not among them."""
from __future__ import annotations

from .converter import converts
from .run_places import Numbers

TRAINING = "ai.onnx.preview.training"


def _step(op_type, groups):
    """Register a converter. Inputs are R, T and `groups` lists, of as many tensors: first those that are optimized. The
    decorated function (node, r, t, one of each list) -> one new value of each list but the gradients, the second."""
    def register(function):
        def convert(node):
            rate, count = (Numbers(node, node.bind(node.reshape(x, []))) for x in node.inputs[:2])
            tensors = [Numbers(node, x) for x in node.inputs[2:]]
            if not tensors or len(tensors) % groups:
                raise node.error(f"has {len(tensors)} tensors after R and T, and must have {groups} for each that is "
                                 "optimized")
            each = len(tensors) // groups
            dtype = tensors[0].dtype
            rate, count = rate.astype(dtype.numpy), Numbers(node, node.bind(node.astype(count.value, str(dtype))))
            rows = [function(node, rate, count, *tensors[k::each]) for k in range(each)]
            return tuple(new.value for column in zip(*rows) for new in column)
        converts(op_type, domain=TRAINING)(convert)
        return function
    return register


def _regularized(node, x, gradient):
    return x * node.attr("norm_coefficient", 0.0) + gradient


@_step("Adagrad", 3)
def adagrad(node, rate, count, x, gradient, squares):
    rate = rate / (count * node.attr("decay_factor") + 1)
    gradient = _regularized(node, x, gradient)
    squares = squares + gradient * gradient
    return x - rate * gradient / (squares.call("sqrt") + node.attr("epsilon")), squares


@_step("Adam", 4)
def adam(node, rate, count, x, gradient, mean, squares):
    alpha, beta = node.attr("alpha"), node.attr("beta")
    gradient = _regularized(node, x, gradient)
    mean = mean * alpha + gradient * (1 - alpha)
    squares = squares * beta + gradient * gradient * (1 - beta)
    started = count > 0
    later = started.where(count, 1)  # what is not taken divides by no zero
    adjusted = rate * (1 - _power(beta, later)).call("sqrt") / (1 - _power(alpha, later))
    new = x - started.where(adjusted, rate) * mean / (squares.call("sqrt") + node.attr("epsilon"))
    return new * (1 - node.attr("norm_coefficient_post", 0.0)), mean, squares


def _power(base, exponent):
    node = exponent.node
    return Numbers(node, node.bind(node.call("power", node.const(base, exponent.dtype), exponent.value)))


@_step("Momentum", 3)
def momentum(node, rate, count, x, gradient, velocity):
    mode, alpha = node.choice("mode", "standard", "nesterov"), node.attr("alpha")
    gradient = _regularized(node, x, gradient)
    velocity = velocity * alpha + gradient * (count > 0).where(count * 0 + node.attr("beta"), 1)
    return x - rate * (velocity if mode == "standard" else gradient + velocity * alpha), velocity
