"""Names: an ONNX name is any string, a name in the graph IR is an identifier of C, C++ and Python."""
from __future__ import annotations

import keyword
import re

C_KEYWORDS = frozenset("""
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const constexpr
    const_cast continue decltype default delete do double dynamic_cast else enum explicit export extern false
    float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq
    private protected public register reinterpret_cast restrict return short signed sizeof static static_assert
    static_cast struct switch template this thread_local throw true try typedef typeid typename typeof union
    unsigned using virtual void volatile wchar_t while xor xor_eq""".split())


def printable(name):
    """A name as a part of one line: control characters are escaped."""
    return name if name.isprintable() else repr(name)[1:-1]


def identifier(text, fallback="x"):
    """`text` as an identifier: "gpu_0/data_0" -> "gpu_0_data_0", "12" -> "x12", "int" -> "int_"."""
    name = re.sub(r"[^0-9A-Za-z_]+", "_", text).strip("_") or fallback
    if name[0].isdigit():
        name = fallback + name
    if name in C_KEYWORDS or keyword.iskeyword(name) or keyword.issoftkeyword(name):
        name += "_"
    return name
