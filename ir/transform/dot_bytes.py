"""DotBytes: products of words that are the same in all lanes take the numbers in them one by one."""
from __future__ import annotations

from ..expr import Broadcast, Call
from ..node import Mutator
from ..tir.intrinsics import INTEGER_DOTS, SHORT_DOTS
from .lower_intrin import LOADS


def dot_bytes(func, dots=()):
    """Requires flat buffers and tir.fma (LowerIntrin). Ensures that

        dot(broadcast(load_word(B[at])), w, c)    are dot_at(B[at], w, c)

    for the products `dots`, of which instructions multiply a vector by one number: no word is put together to be taken
    apart."""
    return func.replace(body=_DotBytes(dots).visit(func.body)) if dots else func


def dots_by_number(target):
    """The names of the products that a target makes so."""
    return tuple(INTEGER_DOTS if target.by_number else (name for name in SHORT_DOTS if name in target.dots_by_lane))


class _DotBytes(Mutator):
    def __init__(self, dots):
        self.dots = {f"tir.{name}": f"tir.{name}_at" for name in dots}

    def visit_Call(self, call):
        call = self.generic_visit(call)
        if call.op not in self.dots or not isinstance(call.args[0], Broadcast):
            return call
        word = call.args[0].value
        if not (isinstance(word, Call) and word.op in LOADS.values()):
            return call
        return call.replace(op=self.dots[call.op], args=(*word.args, *call.args[1:]))
