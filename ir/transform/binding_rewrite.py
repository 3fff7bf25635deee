"""DataflowBlockRewrite: the bindings of one dataflow block, changed one by one."""
from __future__ import annotations

from ..names import Names, unique_name
from ..node import collect
from ..relax.expr import DataflowBlock, DataflowVar, Function, MatchCast, RelaxVar, VarBinding
from .dead_code import remove_all_unused
from .graph import ReplaceVars

_VARS = (RelaxVar, DataflowVar)


class DataflowBlockRewrite:
    """A dataflow block of a function and what becomes of both: mutated_dfb(), mutated_root_fn(). The function that it
    began with stays as it was. ValueError for a block that is none of the function's."""

    def __init__(self, dfb, root_fn):
        if not isinstance(root_fn, Function) or not isinstance(dfb, DataflowBlock):
            raise TypeError("DataflowBlockRewrite takes a DataflowBlock and the function that it is of")
        self._at = next((n for n, block in enumerate(root_fn.body.blocks) if block is dfb), None)
        if self._at is None:
            raise ValueError("the dataflow block is none of the function's")
        self._first, self.dfb, self.root_fn = root_fn, dfb, root_fn
        self._names = Names(v.name for v in collect(root_fn, _VARS))

    # ------------------------------------------------------------ changes

    def add_binding(self, binding):
        """Add a binding at the end of the block. ValueError where its variable is bound already."""
        if any(binding.var is v for v in self._defined()):
            raise ValueError(f"{binding.var.name} is bound already")
        self._put(self.dfb.replace(bindings=(*self.dfb.bindings, binding)))

    def add(self, expr, name=None, is_dfvar=False):
        """Bind `expr` at the end of the block, to a DataflowVar or a Var of this name, tmp0, tmp1 ... where there is none."""
        name = unique_name(name, self._names) if name else unique_name("tmp", self._names, "")
        self.add_binding(VarBinding((DataflowVar if is_dfvar else RelaxVar)(name, expr.struct_info), expr))

    def replace_all_uses(self, old_var, new_var):
        """Use new_var wherever old_var is used. ValueError where that cannot be: before new_var is bound, or outside of
        the block of a DataflowVar."""
        new = ReplaceVars({id(old_var): new_var})

        def of(block):
            bindings = []
            for b in block.bindings:
                value = new.visit(b.value)
                bindings.append(b if value is b.value else b.replace(value=value))
            return block if all(a is b for a, b in zip(bindings, block.bindings)) else block.replace(
                bindings=tuple(bindings))
        seq = self.root_fn.body
        blocks = tuple(map(of, seq.blocks))
        made = self.root_fn.replace(body=seq.replace(blocks=blocks, body=new.visit(seq.body)))
        _check_uses(made, new_var)
        self.root_fn = made
        if self._at is not None:
            self.dfb = blocks[self._at]

    def remove_unused(self, var, allow_undef=False):
        """Leave out the binding of a variable that nothing uses. ValueError where something does, or where the block
        binds none, unless allow_undef."""
        if not any(b.var is var for b in self.dfb.bindings):
            if allow_undef:
                return
            raise ValueError(f"the block binds no {var.name}")
        seq = self.root_fn.body
        if any(v is var for v in collect([[b.value for block in seq.blocks for b in block.bindings], seq.body], _VARS)):
            raise ValueError(f"{var.name} is used: it cannot be left out")
        self._put(self.dfb.replace(bindings=tuple(b for b in self.dfb.bindings if b.var is not var)))

    def remove_all_unused(self):
        """Leave out all that nothing uses, in the other blocks of the function, too."""
        kept = {id(b.var) for b in self.dfb.bindings}
        self.root_fn = remove_all_unused(self.root_fn)
        blocks = self.root_fn.body.blocks
        self._at = next((n for n, block in enumerate(blocks) if isinstance(block, DataflowBlock) and any(
            id(b.var) in kept for b in block.bindings)), None)
        self.dfb = self.dfb.replace(bindings=()) if self._at is None else blocks[self._at]

    # ------------------------------------------------------------ what they made

    def mutated_dfb(self):
        return self.dfb

    def mutated_root_fn(self):
        return self.root_fn

    def mutate_irmodule(self, irmodule):
        """The module with the new function in the place of the one that it began with. ValueError where there is none."""
        names = [n for n, f in irmodule.functions.items() if f is self._first]
        if not names:
            raise ValueError("the function that is rewritten is none of the module's")
        for name in names:
            irmodule = irmodule.with_function(name, self.root_fn)
        return irmodule

    def _put(self, block):
        """Put a block in the place of the one at hand, which goes where it is empty."""
        blocks = list(self.root_fn.body.blocks)
        if self._at is None:
            raise ValueError("the block is empty, and no longer there")
        blocks[self._at:self._at + 1] = [block] if block.bindings else []
        self._at = self._at if block.bindings else None
        self.dfb = block
        self.root_fn = self.root_fn.replace(body=self.root_fn.body.replace(blocks=tuple(blocks)))

    def _defined(self):
        return [*self.root_fn.params, *(b.var for b in collect(self.root_fn, (VarBinding, MatchCast)))]


def _check_uses(func, var):
    """ValueError where a variable is used before it is bound, or a DataflowVar outside of its block."""
    known = any(p is var for p in func.params)
    for block in func.body.blocks:
        for b in block.bindings:
            if not known and any(v is var for v in collect(b.value, _VARS)):
                raise ValueError(f"{b.var.name} would use {var.name}, which is not bound there")
            known = known or b.var is var
        known = known and not (isinstance(block, DataflowBlock) and isinstance(var, DataflowVar))
    if not known and any(v is var for v in collect(func.body.body, _VARS)):
        raise ValueError(f"the result would be of {var.name}, which is not bound there")


__all__ = ["DataflowBlockRewrite"]
