"""AttachAttrLayoutFreeBuffers and SplitLayoutRewritePreproc: weights that may lie as a kernel wants them."""
from __future__ import annotations

from ...expr import Var
from ...node import collect
from ...relax.block_builder import BlockBuilder
from ...relax.expr import Constant, Function, TensorStructInfo, TupleGetItem, call_tir
from ...schedule.index import blocks_below, sequence
from ...tir.function import PrimFunc
from ...tir.renew import renew_defs
from ...tir.stmt import BlockRealize, BufferLoad, BufferStore, seq
from ..call_rules import CallRules
from ..dead_code import dead_code_elimination
from ..walk import StmtMutator
from .layout_rewrite import HINT

FREE = "layout_free_buffers"  # the parameters, by number, whose layout the caller may change


def attach_attr_layout_free_buffers(mod):
    """A module whose PrimFuncs, where R.call_tir gives them constants or parameters behind the first num_input ones, say
    so in the attribute layout_free_buffers, a list of numbers. One that is called in several ways becomes several."""
    def rule_of(func, builder):
        free = {id(p) for p in func.params[int(func.attrs["num_input"]):]} if "num_input" in func.attrs else set()

        def rule(context, call):
            callee = _called(mod, call)
            if callee is None:
                return None
            numbers = [n for n, a in enumerate(call.args) if isinstance(a, Constant) or id(a) in free]
            gv = builder.add_func(renew_defs(callee.with_attr(FREE, numbers)), call.attrs["gv"].name)
            return call.replace(attrs={**call.attrs, "gv": gv})
        return rule
    return _by_rules(mod, rule_of)


def split_layout_rewrite_preproc(mod):
    """A module in which what lays out weights, blocks with the annotation meta_schedule.layout_rewrite_preproc, is a
    PrimFunc NAME_weight_prepack of its own, so that LiftTransformParams finds it, and NAME_prepacked takes the weights
    as it leaves them. Functions stay whose blocks copy no parameter, or one that is needed otherwise, too."""
    plans = {}

    def rule_of(func, builder):
        def rule(context, call):
            callee, name = _called(mod, call), call.attrs["gv"].name if call.op == "call_tir" else None
            if callee is None:
                return None
            if name not in plans:
                plans[name] = _split(callee)
            if plans[name] is None:
                return None
            numbers, buffers, prepack, rest = plans[name]
            infos = [TensorStructInfo(b.shape, b.dtype) for b in buffers]
            made = context.emit(call_tir(builder.add_func(prepack, f"{name}_weight_prepack"),
                                         [call.args[n] for n in numbers], infos if len(infos) > 1 else infos[0]))
            laid_out = [context.emit(TupleGetItem(made, k)) for k in range(len(infos))] if len(infos) > 1 else [made]
            args = list(call.args)
            for n, value in zip(numbers, laid_out):
                args[n] = value
            gv = builder.add_func(rest, f"{name}_prepacked")
            return context.emit(call.replace(args=tuple(args), attrs={**call.attrs, "gv": gv}))
        return rule
    return _by_rules(mod, rule_of)


def _called(mod, call):
    """The PrimFunc that a R.call_tir calls, else None."""
    callee = mod.functions.get(call.attrs["gv"].name) if call.op == "call_tir" else None
    return callee if isinstance(callee, PrimFunc) else None


def _by_rules(mod, rule_of):
    """The module with rule_of(func, builder)'s rule for calls in each graph function; the builder takes new PrimFuncs."""
    builder = BlockBuilder(mod)
    for name, func in mod.functions.items():
        if isinstance(func, Function) and func.body is not None:
            builder.update_func(name, CallRules(func, rule_of(func, builder)).visit(func))
    made = builder.get()
    return mod if set(made.functions) == set(mod.functions) else dead_code_elimination(made)


# ---------------------------------------------------------------- two functions of one

def _split(func):
    """(the numbers of the weights among the parameters, the buffers of their new layouts, the function that makes these,
    that which takes them); None where there is nothing to split."""
    if not isinstance(func.body, BlockRealize):
        return None
    root = func.body.block
    numbers = {id(func.buffer_map[p]): n for n, p in enumerate(func.params) if p in func.buffer_map}
    before, after, moved = [], [], []
    for stmt in sequence(root.body):
        blocks = blocks_below(stmt)
        if blocks and all(HINT in b.block.annotations for b in blocks):
            copies = {(loads.buffer, stores.buffer) for loads in collect(stmt, BufferLoad)
                      for stores in collect(stmt, BufferStore)}
            if len(copies) != 1:
                return None
            (old, new), = copies
            if id(old) not in numbers or not any(new is b for b in root.alloc_buffers):
                return None
            moved.append((old, new))
            before.append(stmt)
        else:
            after.append(stmt)
    olds, news = {id(old) for old, _ in moved}, {id(new) for _, new in moved}
    used = {id(access.buffer) for access in collect(seq(*after), (BufferLoad, BufferStore))} if after else set()
    if not moved or len(olds) < len(moved) or len(news) < len(moved) or olds & used:
        return None
    attrs = {k: v for k, v in func.attrs.items() if k not in (FREE, "global_symbol")}
    params = {id(old): Var(new.name, "handle") for old, new in moved}
    laid_out = {params[id(old)]: new for old, new in moved}
    given = [func.params[numbers[id(old)]] for old, _ in moved]
    prepack = func.replace(
        params=(*given, *laid_out), buffer_map={**{p: func.buffer_map[p] for p in given}, **laid_out}, attrs=attrs,
        body=_within(func.body, (), _Plain().visit(seq(*before))))
    kept = tuple(params.get(id(func.buffer_map.get(p)), p) for p in func.params)
    rest = func.replace(
        params=kept, buffer_map={p: laid_out[p] if p in laid_out else func.buffer_map[p] for p in kept
                                 if p in laid_out or p in func.buffer_map}, attrs=attrs,
        body=_within(func.body, tuple(b for b in root.alloc_buffers if id(b) not in news), seq(*after)))
    return [numbers[id(old)] for old, _ in moved], [new for _, new in moved], renew_defs(prepack), renew_defs(rest)


def _within(realize, alloc_buffers, body):
    """The root block around other statements."""
    return realize.replace(block=realize.block.replace(alloc_buffers=alloc_buffers, body=body))


class _Plain(StmtMutator):
    """Takes the annotation off blocks."""

    def visit_Block(self, block):
        kept = {k: v for k, v in block.annotations.items() if k != HINT}
        return block.replace(annotations=kept)


__all__ = ["attach_attr_layout_free_buffers", "split_layout_rewrite_preproc"]
