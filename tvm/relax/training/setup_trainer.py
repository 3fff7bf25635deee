"""SetupTrainer: a model becomes a module that learns."""
from __future__ import annotations

from ....ir.relax.expr import RelaxTuple
from ....ir.transform.classic import GRAPHS
from ....ir.transform.context import module_pass
from ..analysis import well_formed
from .utils import AppendLoss

BACKBONE, LOSS, ADJOINT, OPTIMIZER = "backbone", "backbone_loss", "backbone_loss_adjoint", "optimizer"


@module_pass(opt_level=0, name="SetupTrainer")
class SetupTrainer:
    """A pass over modules with a function "backbone"(inputs ..., parameters ..., states ...) -> (predictions ..., new
    states ...) and the attributes param_num and state_num. The module that it gives has these functions, too:

        backbone_loss(inputs, parameters, states, targets) -> (loss, new states ...)
        backbone_loss_adjoint(the same) -> (what backbone_loss gives, gradients of parameters)
        optimizer(parameters, gradients, optimizer's state) -> (parameters, optimizer's state)

    and the attributes input_num and optim_state, the optimizer's first state. loss: a Loss, called with loss_args;
    optimizer: an Optimizer. legalize: whether operators become calls of PrimFuncs. ValueError where the module is not
    of this form.
    """

    BACKBONE_FUNC, BACKBONE_LOSS_FUNC, ADJOINT_FUNC, OPTIMIZER_FUNC = BACKBONE, LOSS, ADJOINT, OPTIMIZER
    PARAM_NUM_ATTR_KEY, STATE_NUM_ATTR_KEY = "param_num", "state_num"

    def __init__(self, loss, optimizer, loss_args, legalize=True):
        self._loss, self._optimizer, self._loss_args, self._legalize = loss, optimizer, loss_args, legalize

    def transform_module(self, mod, ctx):
        param_num, state_num = _counts(mod)
        mod = AppendLoss(BACKBONE, self._loss(*self._loss_args), self._loss.num_backbone_outputs, LOSS)(mod)
        mod = GRAPHS["DecomposeOpsForInference"](BACKBONE)(mod)
        mod = GRAPHS["DecomposeOpsForTraining"](LOSS)(mod)
        input_num = len(mod[BACKBONE].params) - param_num - state_num
        params = list(mod[LOSS].params[input_num:input_num + param_num])
        mod = GRAPHS["Gradient"](LOSS, require_grads=params, target_index=0)(mod)
        self._optimizer.init(params)
        mod = mod.with_function(OPTIMIZER, self._optimizer.get_function().with_attr("global_symbol", OPTIMIZER))
        mod = mod.with_attrs({"input_num": input_num, "optim_state": self._optimizer.state})
        return GRAPHS["LegalizeOps"]()(mod) if self._legalize else mod


def _counts(mod):
    """(number of parameters, number of states) of a model. ValueError where the module has no such form."""
    if not well_formed(mod):
        raise ValueError("SetupTrainer: the module is not well formed")
    if BACKBONE not in mod:
        raise ValueError(f"SetupTrainer: the module has no function {BACKBONE}; it has {', '.join(mod.functions)}")
    counts = [getattr(mod.attrs.get(key), "value", mod.attrs.get(key)) for key in ("param_num", "state_num")]
    for key, count in zip(("param_num", "state_num"), counts):
        if not isinstance(count, int):
            raise ValueError(f"SetupTrainer: the module needs the attribute {key}, an integer; it is {count!r}")
    func, result = mod[BACKBONE], mod[BACKBONE].body.body
    if len(func.params) < sum(counts):
        raise ValueError(f"SetupTrainer: {BACKBONE} has {len(func.params)} parameters, fewer than param_num + "
                         f"state_num, {sum(counts)}")
    if counts[1] and not (isinstance(result, RelaxTuple) and len(result) > counts[1]):
        raise ValueError(f"SetupTrainer: {BACKBONE} must return predictions and {counts[1]} states, a tuple")
    return counts


__all__ = ["SetupTrainer"]
