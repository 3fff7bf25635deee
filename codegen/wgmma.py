"""The header of the asynchronous products of a warpgroup: one function for each shape that kernels call."""
from __future__ import annotations

import re

from .render import render

# operand dtype -> (terms of a product: 32 bytes of them, their PTX type, whether either operand may be transposed)
OPERANDS = {"f16": (16, "f16", True), "bf16": (16, "bf16", True), "tf32": (8, "tf32", False), "s8": (32, "s8", False)}
SUMS = {"f32": ("float", "f", "f32"), "s32": ("int32_t", "r", "s32")}
NAME = re.compile(r"ingot_wgmma_m64n(\d+)k(\d+)_(\w+?)_(f32|s32)(_ra)?")
LINE = 84  # letters of an operand list's line


def wgmma_header(names):
    """The text of ingot_wgmma.h with the functions of these names. Raises ValueError for one that no device has."""
    return render("cuda/ingot_wgmma.h", products=[_product(name) for name in sorted(set(names), key=_order)])


def wgmma_calls(text):
    """The names of the products that the text of a kernel calls."""
    return sorted({m[0] for m in NAME.finditer(text)}, key=_order)


def _order(name):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _product(name):
    match = NAME.fullmatch(name)
    columns, depth, operand, total, registers = match.groups() if match else (0, 0, "", "", "")
    step = 8 if total == "f32" or int(columns) <= 24 else 16
    terms, ptx, transposable = OPERANDS.get(operand, (0, "", False))
    if int(depth) != terms or not terms or int(columns) not in range(step, 257, step) or (total == "s32") != (
            operand == "s8"):
        raise ValueError(f"there is no product {name}: wgmma has f16, bf16 (k 16), tf32 (k 8) into f32 and s8 (k 32) "
                         "into s32, of 8, 16, 24 ... 256 columns")
    ctype, letter, dtype = SUMS[total]
    count = int(columns) // 2
    a = [f"%{count + i}" for i in range(4 if registers else 1)]
    b, add = f"%{count + len(a)}", count + len(a) + 1
    scales = (", 1, 1" if total == "f32" else "") + ((", 0" if registers else ", 0, 0") if transposable else "")
    first = "{" + ", ".join(a) + "}" if registers else a[0]
    inputs = ", ".join(f'"r"(x[{i}])' for i in range(4)) if registers else '"l"(a)'
    return {
        "name": name, "ctype": ctype, "registers": bool(registers), "add": add,
        "a": "const void *a" if registers else "uint64_t a",
        "ptx": f"m64n{columns}k{depth}.{dtype}.{ptx}.{ptx}", "places": _lines([f"%{i}" for i in range(count)]),
        "operands": f"}}, {first}, {b}, p{scales}",
        "sums": _lines([f'"+{letter}"(d[{i}])' for i in range(count)]), "inputs": f'{inputs}, "l"(b)'}


def _lines(parts):
    """The parts of a list with commas between, in lines."""
    lines = [""]
    for n, part in enumerate(parts):
        text = part + (", " if n + 1 < len(parts) else "")
        if len(lines[-1]) + len(text) > LINE:
            lines.append("")
        lines[-1] += text
    return lines
