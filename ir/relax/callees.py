"""Calls of functions as TVM has them: what is called stands first among the arguments, and is an attribute here."""
from __future__ import annotations

CALLEES = {**dict.fromkeys(("call_tir", "call_tir_inplace", "call_tir_with_grad"), "gv"), "call_dps_packed": "func",
           "call_pure_packed": "func"}  # operator: the attribute that says what is called


def apart(op, args, attrs):
    """(args, attrs) of call_tir(f, (x, y), dims) and its like, f and the dimensions as attributes. TypeError where f is
    of the other kind, or no tuple follows."""
    key, callee, rest = CALLEES[op], args[0], args[1:]
    if key in attrs:
        return args, attrs
    if hasattr(callee, "global_symbol") is (key == "gv"):
        raise TypeError(f"{op} calls {'a function of the module' if key == 'gv' else 'an ExternFunc'}, not {callee}")
    if not rest and op != "call_pure_packed":
        raise TypeError(f"{op} of {callee} takes the tuple of its arguments behind it")
    attrs = {**attrs, key: callee if key == "gv" else callee.global_symbol}
    if key == "gv":
        attrs["sym_args"] = tuple(rest[1].values) if len(rest) > 1 else ()
    return rest if op == "call_pure_packed" else tuple(getattr(rest[0], "fields", rest[:1])), attrs


__all__ = ["CALLEES", "apart"]
