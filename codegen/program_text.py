"""A program as text, for readers: tensors, buffers with their lives and places, and the trees of init and run.

Each leaf of the run has its number, the moment that lives of buffers are intervals of.
"""
from __future__ import annotations

from ..ir.script.relax_printer import RelaxPrinter
from .lives import lives
from .tree import Call, Check, Copy, If, Launch, Let, Read, Seq, Wait, While, is_leaf

INDENT = "    "


def program_text(program):
    """The text of a Program."""
    alive = lives(program.run)
    lines = [f"program {program.name}({', '.join(d.name for d in program.dims)}):"]
    for kind, tensors in (("input", program.inputs), ("output", program.outputs)):
        lines += [f"{INDENT}{kind} {t.name}: {t.dtype}[{', '.join(map(str, t.shape))}]" for t in tensors]
    lines += [f"{INDENT}weight {w.name}: {w.data.dtype.name}{list(w.data.shape)} at {w.offset}"
              for w in program.weights]
    lines += [f"{INDENT}scratch of each thread: {program.scratch} bytes"] if program.scratch else []
    for n, b in enumerate(program.plan.buffers):
        life = ", ".join(f"{first} to {last}" for first, last in alive.get(n, ())) or "init"
        lines.append(f"{INDENT}buffer {n} {b.name}: {_text(b.bytes)} bytes of {b.memory} memory at "
                     f"{_text(program.plan.offset(n))}, alive {life}")
    for name, tree in (("init", program.init), ("run", program.run)):
        if tree.items:
            lines += [f"{INDENT}{name}:", *_Printer().lines(tree, 2)]
    return "\n".join(lines) + "\n"


def _text(e):
    return RelaxPrinter().expr(e)


def _operand(o):
    shift = "" if _text(o.offset) == "0" else f" + {_text(o.offset)}"
    return f"{o.kind} {o.index if o.kind == 'scratch' or not o.name else o.name}{shift}"


class _Printer:
    """Prints one tree, and counts its leaves."""

    def __init__(self):
        self.moment = 0

    def lines(self, node, depth):
        if isinstance(node, Seq):
            inner = [line for n in node.items for line in self.lines(n, depth + bool(node.threads))]
            return [INDENT * depth + f"{node.threads}:", *inner] if node.threads else inner
        if is_leaf(node):
            self.moment += 1
            return [f"{INDENT * depth}{self.moment - 1}: {_LEAVES[type(node)](node)}"]
        if isinstance(node, If):
            return [*self._around(f"if {_text(node.cond)}", node.then, depth),
                    *(self._around("else", node.otherwise, depth) if node.otherwise.items else [])]
        if isinstance(node, While):
            return self._around(f"while {_text(node.cond)}", node.body, depth)
        return self._around(f"for {node.var.name} < {_text(node.extent)}", node.body, depth)

    def _around(self, head, body, depth):
        return [f"{INDENT * depth}{head}:", *self.lines(body, depth + 1)]


def _called(node):
    arguments = ", ".join([*map(_operand, node.operands[:node.reads]), *map(_text, node.dims)])
    results = ", ".join(map(_operand, node.operands[node.reads:]))
    comment = f"  # {node.comment}" if node.comment else ""
    return f"{node.kernel}({arguments}) -> {results}{comment}"


def _launched(node):
    grid, block = (" x ".join(map(_text, extents)) for extents in (node.grid, node.block))
    return f"launch <{grid}, {block}, {_text(node.shared)} shared> in {node.memory} memory: {_called(node)}"


def _set(node):
    value = f"read {_operand(node.value.operand)}" if isinstance(node.value, Read) else _text(node.value)
    return f"let {node.dim.name} = {value}" + (f", at most {_text(node.most)}" if node.most is not None else "")


_LEAVES = {
    Check: lambda n: f"check {_text(n.cond)}", Wait: lambda n: "wait for weights", Call: _called, Launch: _launched,
    Let: _set, Copy: lambda n: f"copy {_text(n.bytes)} bytes: {_operand(n.src)} -> {_operand(n.dst)}"}
