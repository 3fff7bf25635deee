"""Losses: each makes a graph function of predictions and targets, which AppendLoss puts behind a model."""
from __future__ import annotations

from ....ir.relax.block_builder import BlockBuilder
from ....ir.relax.expr import DataflowVar, RelaxVar, StructInfo
from ....ir.relax import op


def _parameter(given, name):
    """A new variable of a struct info, or like another."""
    if isinstance(given, (RelaxVar, DataflowVar)):
        return RelaxVar(given.name, given.struct_info)
    if not isinstance(given, StructInfo):
        raise TypeError(f"{name} must be a variable or struct info, not a {type(given).__name__}")
    return RelaxVar(name, given)


class Loss:
    """loss(predictions, targets) is a graph function; arguments are struct info, or variables like its parameters.

    reduction: how elements become one, "mean" or "sum"; "none": they stay. num_backbone_outputs: how many results of a
    model the function takes.
    """

    _valid_reductions = ["mean", "sum", "none"]

    def __init__(self, loss_name, num_backbone_outputs, reduction="mean"):
        if reduction not in self._valid_reductions:
            raise ValueError(f"reduction={reduction!r} is none of {', '.join(self._valid_reductions)}")
        self._loss_name, self._num_backbone_outputs, self._reduction = loss_name, num_backbone_outputs, reduction

    @property
    def num_backbone_outputs(self):
        return self._num_backbone_outputs

    def _with_reduction(self, expr):
        """An expression with its elements reduced."""
        return {"sum": op.sum, "mean": op.mean, "none": lambda x: x}[self._reduction](expr)

    def _function(self, parameters, compute):
        """The graph function of (name, given) parameters; those that are None are left out. compute(builder, variables)
        gives its result."""
        variables = [given and _parameter(given, name) for name, given in parameters]
        builder = BlockBuilder()
        with builder.function(self._loss_name, [v for v in variables if v is not None]):
            with builder.dataflow():
                out = builder.emit_output(compute(builder, *variables))
            builder.emit_func_output(out)
        return builder.get()[self._loss_name]


class _OfDifference(Loss):
    def __call__(self, predictions, targets):
        return self._function((("predictions", predictions), ("targets", targets)), lambda builder, x, y: (
            self._with_reduction(self._of(builder.emit(op.subtract(x, y))))))


class L1Loss(_OfDifference):
    """Of each difference the absolute value."""

    _of = staticmethod(lambda difference: op.abs(difference))

    def __init__(self, reduction="mean"):
        super().__init__("l1_loss", 1, reduction)


class MSELoss(_OfDifference):
    """Of each difference the square."""

    _of = staticmethod(lambda difference: op.multiply(difference, difference))

    def __init__(self, reduction="mean"):
        super().__init__("mse_loss", 1, reduction)


class CrossEntropyLoss(Loss):
    """The negative log likelihood of classes, after log_softmax: targets are numbers of classes.

    ignore_index: a class that does not count. The function takes weights of classes, too, where they are given.
    """

    def __init__(self, reduction="mean", ignore_index=-100):
        super().__init__("cross_entropy_loss", 1, reduction)
        self.ignore_index = ignore_index

    def __call__(self, predictions, targets, weights=None):
        def compute(builder, x, y, w):
            return self._of_classes(builder.emit(op.nn.log_softmax(x)), y, w)
        return self._function((("predictions", predictions), ("targets", targets), ("weights", weights)), compute)

    def _of_classes(self, logits, classes, weights):
        return op.nn.nll_loss(logits, classes, weights, self._reduction, self.ignore_index)


class CategoricalCrossEntropyLoss(CrossEntropyLoss):
    """As CrossEntropyLoss; targets are integers, of each class 1 where it is meant and else 0.

    Without a class to ignore, of each prediction and class the product is taken: "mean" is over all of these.
    """

    def __init__(self, reduction="mean", ignore_index=-100):
        super().__init__(reduction, ignore_index)
        self._loss_name = "categorical_cross_entropy_loss"

    def __call__(self, predictions, targets, weights=None):
        dtype = getattr(targets, "struct_info", targets).dtype
        if "int" not in str(dtype):
            raise TypeError(f"targets must be integers, they are {dtype}")

        def compute(builder, x, y, w):
            logits = builder.emit(op.nn.log_softmax(x))
            if self.ignore_index >= 0:
                classes = op.reshape(op.argmax(y, axis=1), (y.struct_info.shape[0],))
                return self._of_classes(logits, builder.emit(classes), w)
            each = builder.emit(-logits * y.astype(str(x.struct_info.dtype)))
            return self._with_reduction(each if w is None else builder.emit(each * w))
        return self._function((("predictions", predictions), ("targets", targets), ("weights", weights)), compute)


__all__ = ["CategoricalCrossEntropyLoss", "CrossEntropyLoss", "L1Loss", "Loss", "MSELoss"]
