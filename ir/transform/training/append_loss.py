"""AppendLoss: a loss behind a model, in one function."""
from __future__ import annotations

from ...node import structural_equal
from ...relax.expr import DataflowBlock, DataflowVar, Function, RelaxTuple, RelaxVar, SeqExpr
from ..fresh_vars import copy_with_new_vars
from ..graph import ReplaceVars

_VARS = (RelaxVar, DataflowVar)


def append_loss(mod, func_name, loss_function, num_backbone_outputs=1, new_func_name=None):
    """A module with a function more, new_func_name or `func_name`_loss. It takes what func_name takes, then the targets
    that loss_function takes behind the first num_backbone_outputs results of func_name; it gives the loss, then the
    other results of func_name, such as states. Both functions must be one dataflow block, the loss a scalar."""
    backbone = mod[func_name]
    if not isinstance(backbone, Function):
        raise ValueError(f"AppendLoss: {func_name} is no graph function")
    for name, f in ((func_name, backbone), ("the loss", loss_function)):
        if len(f.body.blocks) != 1 or not isinstance(f.body.blocks[0], DataflowBlock):
            raise ValueError(f"AppendLoss: {name} must be one dataflow block")
    backbone, loss = copy_with_new_vars(backbone), copy_with_new_vars(loss_function)
    results = _results(func_name, backbone.body.body)
    taken, others = results[:num_backbone_outputs], results[num_backbone_outputs:]
    _require_fit(func_name, taken, loss, num_backbone_outputs)
    inner = {id(v): DataflowVar(v.name, v.struct_info, v.origin) for v in taken if not any(v is o for o in others)}
    replace = ReplaceVars({**inner, **{id(p): inner.get(id(v), v) for p, v in zip(loss.params, taken)}})
    bindings = [replace.visit(b) for f in (backbone, loss) for b in f.bindings]
    result = loss.body.body if not others else RelaxTuple((loss.body.body, *others))
    body = SeqExpr((DataflowBlock(tuple(bindings)),), result)
    name = new_func_name or f"{func_name}_loss"
    return mod.with_function(name, Function(
        (*backbone.params, *loss.params[num_backbone_outputs:]), body, body.struct_info,
        {**backbone.attrs, "global_symbol": name}, backbone.is_pure))


def _results(name, result):
    results = list(result.fields) if isinstance(result, RelaxTuple) else [result]
    if not all(isinstance(v, _VARS) for v in results):
        raise ValueError(f"AppendLoss: {name} must return a variable, or a tuple of variables")
    return results


def _require_fit(name, taken, loss, count):
    if len(taken) < count or len(loss.params) < count:
        raise ValueError(f"AppendLoss: num_backbone_outputs is {count}, {name} has {len(taken)} results and the loss "
                         f"{len(loss.params)} parameters")
    for n, (p, v) in enumerate(zip(loss.params, taken)):
        if not structural_equal(p.struct_info, v.struct_info):
            raise ValueError(f"AppendLoss: result {n} of {name} is {v.struct_info}, the loss takes {p.struct_info}")
    out = loss.body.body
    if not isinstance(out, _VARS) or getattr(out.struct_info, "ndim", None) != 0:
        raise ValueError(f"AppendLoss: the loss must be a variable without dimensions, it is {out.struct_info}")


__all__ = ["append_loss"]
