"""ConvertSSA: each variable and each buffer of a module is defined once."""
from __future__ import annotations

from ...expr import IterVar, Var
from ...node import Mutator
from ...tir.function import PrimFunc


def convert_ssa(mod):
    """Ensures that every variable is defined in one place of one function: what defines one that has been defined
    before has a variable of its own, and so have the buffers over it. Uses mean the innermost definition."""
    rewrite = _ConvertSSA()
    made = {n: rewrite.function(f) if isinstance(f, PrimFunc) else f for n, f in mod.functions.items()}
    return mod if all(f is mod[n] for n, f in made.items()) else mod.with_functions(made)


def with_own_variables(func):
    """The function with each variable and buffer defined once."""
    return _ConvertSSA().function(func)


class _ConvertSSA(Mutator):
    def __init__(self):
        self.defined = set()  # variables that have a definition
        self.now = {}         # variable -> what it means here
        self.buffers = {}     # (id(buffer), its data here) -> (buffer, the one in its place)

    def function(self, func):
        self.now = {}
        params = tuple(map(self.define, func.params))
        for b in func.buffer_map.values():
            self._define_layout(b)
        buffer_map = {self.visit(p): self.visit(b) for p, b in func.buffer_map.items()}
        made = func.replace(params=params, buffer_map=buffer_map, body=self.visit(func.body))
        same = all(a is b for a, b in zip(params, func.params)) and made.body is func.body and all(
            a is b for a, b in zip(buffer_map.values(), func.buffer_map.values()))
        return func if same else made

    def define(self, v):
        """The variable of a definition of `v`."""
        self.now[v] = v.renewed() if v in self.defined else v
        self.defined.add(v)
        return self.now[v]

    def _define_layout(self, b):
        """Variables of a parameter's layout are defined by it where nothing defines them before."""
        for v in (b.data, *b.shape, *b.strides, b.elem_offset):
            if isinstance(v, Var) and v not in self.now:
                self.define(v)

    def visit_Var(self, v):
        return self.now.get(v, v)

    def visit_Buffer(self, b):
        key = id(b), self.now.get(b.data, b.data), *(self.visit(e) for e in b.shape if isinstance(e, Var))
        if key not in self.buffers:
            new = b.replace(**{f: self.visit(getattr(b, f)) for f in ("shape", "strides", "elem_offset", "data")})
            same = all(getattr(new, f) is getattr(b, f) for f in b._fields)
            self.buffers[key] = b, b if same else new
        return self.buffers[key][1]

    def _over(self, node, variables, visit):
        """`visit(node)` with definitions of the variables, which end with it."""
        before = dict(self.now)
        for v in variables:
            self.define(v)
        node = visit(node)
        self.now = before
        return node

    def visit_LetStmt(self, let):
        value = self.visit(let.value)
        return self._over(let, [let.var], lambda n: n.replace(
            var=self.now[n.var], value=value, body=self.visit(n.body)))

    visit_Let = visit_LetStmt

    def visit_For(self, loop):
        low, extent = self.visit(loop.min), self.visit(loop.extent)
        return self._over(loop, [loop.loop_var], lambda n: n.replace(
            loop_var=self.now[n.loop_var], min=low, extent=extent, body=self.visit(n.body)))

    def visit_DeclBuffer(self, decl):
        return self._over(decl, [decl.buffer.data], self.generic_visit)

    def visit_AttrStmt(self, attr):
        """The axis of a thread is defined by the first attribute of a function that names it; others name the same."""
        iv = attr.target
        if isinstance(iv, IterVar) and iv.var not in self.now:
            self.define(iv.var)
        return self.generic_visit(attr)

    def visit_BlockRealize(self, realize):
        values, block = self.visit(realize.iter_values), realize.block
        variables = [iv.var for iv in block.iter_vars] + [b.data for b in block.alloc_buffers] + [
            m.buffer.data for m in block.match_buffers]
        return self._over(realize, variables, lambda n: n.replace(
            iter_values=values, predicate=self.visit(n.predicate), block=self.generic_visit(block)))
