"""Packed functions that programs call: functions of C that whoever builds or loads a program supplies."""
from __future__ import annotations

from dataclasses import dataclass

from ..ir.expr import Call
from ..ir.node import collect
from ..ir.transform.packed_calls import RETURNED
from .c_names import LIBRARY
from .c_types import identifier


@dataclass(frozen=True)
class Packed:
    """name: by which it is registered; symbol: its C name; results: how many of its last tensors a function of Python
    returns as arrays, 0 where it writes into them."""

    name: str
    symbol: str
    results: int = 0

    @property
    def declaration(self):
        return f"void {self.symbol}(const ingot_arg *args, int32_t n_args)"


def packed_symbol(name):
    """The C name of a packed function: its own with _ for what no identifier has."""
    symbol = identifier(name, "f")
    return symbol + "_" * (symbol in LIBRARY or symbol.startswith("ingot_"))


def packed_calls(func):
    """The Packed functions that a lowered PrimFunc calls, each once."""
    names = dict.fromkeys(c.args[0].value for c in collect(func.body, Call) if c.op.endswith("call_packed"))
    return tuple(Packed(n, packed_symbol(n), func.attrs.get(RETURNED, 0)) for n in names)


def packed_of(functions):
    """The Packed functions of several CFunctions. Raises ValueError where two need one C name, or one is called both
    for what it returns and for what it writes."""
    found = {}
    for packed in dict.fromkeys(p for f in functions for p in f.packed):
        other = found.setdefault(packed.symbol, packed)
        if other.name != packed.name:
            raise ValueError(f"the packed functions {other.name!r} and {packed.name!r} are both {packed.symbol} in C: "
                             "register one under another name")
        if other != packed:
            raise ValueError(f"the packed function {packed.name!r} is called by call_packed and by call_dps_packed, or "
                             "for different numbers of results: register one of them under another name")
    return tuple(found.values())
