"""What training adds to modules, and gradients of PrimFuncs."""
from ....ir.transform.classic import GRAPHS
from ....ir.transform.training.gradient_rows import TE_GRADIENTS

AppendLoss = GRAPHS["AppendLoss"]


def register_te_gradient(te_grad_name, te_grad_func=None):
    """Let R.call_tir_with_grad(..., te_grad_name=...) be differentiated by te_grad_func(gradient, operands ...,
    options), which gives a te.Tensor for each operand, in a list. Without it, a decorator of one. A name that is known is given
    a new meaning."""
    def register(function):
        TE_GRADIENTS[te_grad_name] = function
        return function
    return register if te_grad_func is None else register(te_grad_func)


__all__ = ["AppendLoss", "register_te_gradient"]
