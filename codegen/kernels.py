"""Kernels as text: names from the model, a comment with nodes, shapes and schedule, and how they spread over files."""
from __future__ import annotations

import difflib
import re
import textwrap
from dataclasses import dataclass
from itertools import zip_longest
from math import prod

from ..ir.dtype import DataType
from ..ir.expr import IntImm
from ..ir.names import ending
from ..ir.tir.hints import MOST_ITERATIONS, UNROLL
from ..ir.tir.stmt import For
from ..ir.tir.stored import ATTRIBUTE as STORED
from ..ir.transform.walk import statements
from .c_function import CFunction, print_function
from .c_names import INTERFACE
from .c_types import MOST_LETTERS, c_comment, identifier, shortened
from .describe import error_bounds, summary
from .imported import together
from .stack import stack_bytes
from .tiles import without_tile

STATEMENTS_PER_FILE = 400
# Operators that passes take out of another one.
PARTS = ("pad", "permute_dims", "copy", "layout_transform", "space_to_depth", "gather_channels")
WIDTH = 114  # of a comment's text, beside " * " and " */"


# kind of target -> function (lowered PrimFunc, name) -> CFunction; dialects of devices add theirs
PRINTERS = {"c": print_function}


@dataclass(frozen=True)
class Kernel:
    """function: its C; comment: the block comment before it; imports: C sources that it needs (attrs["import_c"]);
    nodes: what it computes of the model; work: see estimate_work, expressions of the symbolic dimensions `dims`;
    statements: see count_statements; stack: bytes of its arrays, and of the functions of the runtime that it calls;
    bounds: of the errors of what it is made by, but for FMAs; spans: of each parameter the elements from its first to
    its last, an expression of `dims`, or None where it is no array."""

    function: CFunction
    comment: str
    imports: tuple = ()
    nodes: str = ""
    work: tuple = (0, ())
    dims: tuple = ()
    statements: int = 1
    stack: int = 0
    bounds: tuple = ()
    spans: tuple = ()

    @property
    def signature(self):
        return self.function.signature

    @property
    def body(self):
        return self.function.body

    @property
    def tiles(self):
        return self.function.tiles


def kernel_names(functions, prefix):
    """{function name in the module: C name}: the prefix and the first model node that the kernel computes."""
    names, taken = {}, {f"{prefix}_{suffix}" for suffix in INTERFACE}
    for gv, func in functions.items():
        origin = func.attrs.get("origin") or ()
        part = _part(gv, origin)
        most = MOST_LETTERS - len(prefix) - len(part) - 1
        base = f"{prefix}_{identifier(ending(origin[0].name, most), 'k') if origin else identifier(gv)}{part}"
        base = name = without_tile(shortened(base))
        n = 1
        while name in taken:
            n += 1
            name = f"{base}_{n}"
        taken.add(name)
        names[gv] = name
    return names


def find_kernels(functions, prefix, wanted):
    """{name: functions that it names}, of names that are `wanted`: one by its own name, by its name in the C, with or
    without the prefix, or all that compute a node of the model. Raises ValueError for a name that none has."""
    c_names, names = kernel_names(functions, prefix), {}
    for n, f in functions.items():
        for o in f.attrs.get("origin") or ():
            names.setdefault(o.name, {})[n] = None
    for n in functions:  # a kernel's own name is its alone
        names.update(dict.fromkeys((n, c_names[n], c_names[n].removeprefix(f"{prefix}_")), {n: None}))
    for name in wanted:
        if name not in names:
            near = difflib.get_close_matches(str(name), names, 5)
            raise ValueError(f"no kernel is called {name!r}; "
                             + (f"close are {', '.join(near)}" if near else f"there are {', '.join(c_names.values())}"))
    return {name: list(names[name]) for name in wanted}


def _part(gv, origin):
    """The operator's name where a kernel computes a part of its node: "_pad" for the padding of a Conv."""
    operator = re.sub(r"_\d+$", "", gv)
    whole = operator.startswith("fused_") or any(operator.replace("_", "") in o.op.lower() for o in origin[:1])
    return f"_{operator}" if origin and operator in PARTS and not whole else ""


def print_kernel(func, name, kind="c"):
    """The Kernel of a lowered PrimFunc, in the dialect of a kind of target."""
    dims = tuple(p.name for p in func.params if p not in func.buffer_map)
    return Kernel(PRINTERS[kind](func, name), _comment(func), tuple(func.attrs.get("import_c") or ()),
                  _nodes(func.attrs.get("origin") or ()), func.attrs.get("work", (0, ())), dims,
                  count_statements(func.body), stack_bytes(func), func.attrs.get("bounds", ()),
                  tuple(str(prod(func.buffer_map[p].shape)) if p in func.buffer_map else None for p in func.params))


def count_statements(stmt):
    """How many statements a C compiler works on once it has unrolled the loops that say so."""
    inner = sum(map(count_statements, statements(stmt)))
    if not isinstance(stmt, For):
        return max(inner, 1)
    unrolled = stmt.kind == "unrolled" and isinstance(stmt.extent, IntImm)
    most = stmt.annotations.get(MOST_ITERATIONS, stmt.annotations.get(UNROLL, 1))
    return 1 + inner * (stmt.extent.value if unrolled else int(most))


def imports_of(kernels):
    """The C sources that kernels need, what these repeat once."""
    return together(source for k in kernels for source in k.imports)


def includes_of(uses, *own, packed=()):
    """What templates/includes.c prints for the headers in use, the system's, then `own` and the runtime's, and for
    Packed functions."""
    return {"system_headers": sorted(uses & {"math.h"}), "headers": [*own, *sorted(uses - {"math.h"})],
            "packed": packed}


def bounds_of(kernels):
    """{the bound of an arithmetic that is not FMAs alone: [C names of the kernels that it makes]}."""
    found = {}
    for name, kernel in kernels.items():
        for bound in kernel.bounds:
            found.setdefault(bound, []).append(name)
    return found


def _comment(func):
    origin = func.attrs.get("origin")
    lines = _wrapped("", _nodes(origin)) if origin else []
    shapes = func.attrs.get("shapes")
    if shapes:
        lines += _wrapped("", shapes.strip())
    if words := summary(func):
        lines += _wrapped("", words)
    for bound in error_bounds(func):
        lines += _wrapped("accuracy: ", bound)
    if func.attrs.get("schedule"):
        lines += _wrapped("schedule: ", func.attrs["schedule"])
    if func.attrs.get("refused"):
        lines += _wrapped("refused to rule ", func.attrs["refused"])
    return "/* " + "\n * ".join(lines or ["kernel"]) + " */"


def _nodes(origins, most=12):
    """'conv1 (Conv) + relu1 (Relu)', shortened when a kernel serves many nodes."""
    text = [str(o) for o in dict.fromkeys(str(o) for o in origins)]
    more = f" and {len(text) - most} more" if len(text) > most else ""
    return " + ".join(text[:most]) + more


def _wrapped(head, text):
    text = c_comment(head + text)
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_long_words=False) or [head.rstrip()]


def shape_summary(func):
    """'x float32[1, 64, 56, 56], w ... -> y ...' of a PrimFunc, before its buffers are flattened."""
    buffers = func.buffers
    outputs, stored = func.attrs.get("num_outputs", 1), func.attrs.get(STORED, ())

    def text(b, form=""):
        shape = ", ".join(str(getattr(s, "value", s)) for s in b.shape)
        return f"{b.name} {DataType(b.dtype)}[{shape}]" + (f" in {form}" if form else "")

    inputs = [text(*pair) for pair in zip_longest(buffers[:-outputs], stored, fillvalue="")]
    return ", ".join(inputs) + " -> " + ", ".join(map(text, buffers[-outputs:]))


def split_files(kernels):
    """Kernels in order, cut into lists of about STATEMENTS_PER_FILE once unrolled, so that a build can use several
    cores: the time of a file is that of its statements, and no file takes much longer than another unless one kernel
    alone does."""
    files, size = [[]], 0
    for k in kernels:
        if files[-1] and size + k.statements > STATEMENTS_PER_FILE:
            files.append([])
            size = 0
        files[-1].append(k)
        size += k.statements
    return files if files[0] else []
