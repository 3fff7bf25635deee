"""The C entry point of a function: its description, and code that checks arguments and solves symbolic dimensions
before the kernel runs (what TVM calls MakePackedAPI). What is constant is checked by runtime_c/ingot_entry.h from the
description; the entry holds what depends on the arguments.

A buffer's alignment is checked where it is not the default 64, which kernels do not rely on; else its element's.
"""
from __future__ import annotations

import re
from dataclasses import dataclass

from ..ir.expr import IntImm, Var, cast, const, free_vars, is_const_int
from ..ir.node import Mutator, collect
from ..ir.tir.buffer import Buffer
from ..ir.tir.effects import has_effect
from ..ir.tir.stmt import AssertStmt
from ..ir.transform.lower_intrin import lower_dim
from ..ir.transform.store_result import RETURNS
from .c_expr import COMMA, CExpr
from .c_function import Names, outputs_of
from .c_types import c_type, dlpack_type
from .kernels import Kernel, print_kernel

DEFAULT_ALIGNMENT = 64
WORKSPACE_ALIGN = 64
RETURNED = 2  # of ingot_param.is_output: the number that the function returns
_LOCALS = ("f", "args", "n_args", "workspace", "workspace_bytes", "error", "status", "broken", "call")


class EntryError(ValueError):
    """A function that C could not call; the message names the parameter, the reason and the way out."""


@dataclass(frozen=True)
class Entry:
    """The data that templates/module.c prints for one function.

    name: the function's, symbol: its C name; params: rows of its description, as dicts of C text; solved: lines that
    define symbolic dimensions; checks: expressions of an ingot_status; workspace: its bytes as C text, "" for none, and
    workspace_solved: the part of `solved` that it needs; call: the kernel's call. has_effects: whether that does more
    than write to outputs.
    """

    name: str
    symbol: str
    kernel: Kernel
    params: tuple
    solved: tuple
    checks: tuple
    workspace: str
    workspace_solved: tuple
    call: str
    has_effects: bool = False


def signature_of(func):
    """The parameters that callers see, Buffers and scalar Vars: of a lowered function, those it had before."""
    return func.signature or tuple(func.buffer_map.get(p, p) for p in func.params)


def make_entry(lowered, name, symbol):
    """The Entry of a lowered PrimFunc. Raises EntryError."""
    return _Builder(lowered, name, symbol).build()


class _Widened(Mutator):
    """Expressions of dimensions in int64, where no product of checked extents overflows."""

    def __init__(self, wide):
        self.wide = wide

    def visit_Var(self, v):
        return self.wide[id(v)]

    def visit_IntImm(self, e):
        return const(e.value, "int64") if e.dtype.is_int else e

    def visit_Cast(self, e):
        return cast(self.visit(e.value), "int64") if e.dtype.is_int else self.generic_visit(e)


class _Builder:
    def __init__(self, lowered, name, symbol):
        self.func, self.name, self.symbol = lowered, name, symbol
        self.signature = signature_of(lowered)
        handles = [p for p in lowered.params if p in lowered.buffer_map]
        count = len(handles) - lowered.attrs.get("num_workspace", 0)
        self.spaces = [lowered.buffer_map[p] for p in handles[count:]]
        flat = iter(lowered.buffer_map[p] for p in handles[:count])
        self.flat = {id(x): next(flat) for x in self.signature if isinstance(x, Buffer)}
        self.outputs = outputs_of(lowered)
        self.returns = self.signature[-1] if lowered.attrs.get(RETURNS) else None
        self.names, self.wide, self.defined = Names(), {}, {}
        self.names.taken.update((*_LOCALS, symbol, f"{symbol}_kernel", f"{symbol}_info"))
        self.expr = CExpr(self.names, set())
        self.tensors = {}  # id(buffer) -> C name of its argument
        for k, x in enumerate(self.signature):
            if isinstance(x, Buffer):
                name = self.tensors[id(x)] = self.names.define(x, x.name)
                self.defined[name] = f"const ingot_tensor *const {name} = args[{k}].value.tensor;"

    def build(self):
        for x in self.signature:
            if isinstance(x, Var) and x.dtype.is_float and x.dtype.bits < 32:
                raise EntryError(f"{self.name}: parameter {x.name} is a {x.dtype}, which C has no number of; make it a "
                                 "float32, or a buffer of one element")
            if x.dtype == "handle":
                raise EntryError(f"{self.name}: parameter {x.name} is a handle without a buffer, which callers have no "
                                 "argument for; match a buffer to it")
        places = [place for k, x in enumerate(self.signature) if isinstance(x, Buffer) for place in self._places(k, x)]
        checks = tuple(self._check(*place) for place in self._solve(places))
        params = tuple(self._param(x) for x in self.signature)
        self._pass_dimensions()
        commented = self.func.with_attr("shapes", f"{self.name}: {description(params)}")
        kernel = print_kernel(commented, f"{self.symbol}_kernel")
        workspace, offsets = self._workspace()
        worker = ["&worker"] if kernel.function.team else []
        call = f"{kernel.function.name}({', '.join([*worker, *self._arguments(offsets)])})"
        return Entry(
            self.name, self.symbol, kernel, params, self._used(*checks, call, workspace), checks, workspace,
            self._used(workspace), call, has_effect(self.func.body) or bool(collect(self.func.body, AssertStmt)))

    # ------------------------------------------------------------ symbolic dimensions

    def _places(self, k, buffer):
        """(argument number, "dimension" or "stride", axis, C text of the value, what is declared) of a buffer."""
        offset = buffer.elem_offset
        if not (offset is None or is_const_int(offset, 0) or isinstance(offset, Var)):
            raise EntryError(f"{self.name}: buffer {buffer.name} starts at element {offset} of its argument; leave "
                             "elem_offset out, or declare it as a variable of its own")
        tensor = self.tensors[id(buffer)]
        for i, extent in enumerate(buffer.shape):
            if not isinstance(extent, IntImm):
                yield k, "dimension", i, f"{tensor}->shape[{i}]", extent
        for i, stride in enumerate(buffer.strides):
            yield k, "stride", i, f"ingot_stride({tensor}, {i})", stride

    def _solve(self, places):
        """Define the variables that scalars, dimensions and strides are; returns the other places, to be checked."""
        for k, x in enumerate(self.signature):
            if isinstance(x, Var) and not x.dtype.is_float:
                self._define(x, f"args[{k}].value.integer")
        rest = []
        for place in sorted(places, key=lambda p: p[1] == "stride"):  # a shape decides before a stride does
            *_, text, declared = place
            if isinstance(declared, Var) and id(declared) not in self.names.text:
                self._define(declared, text)
            else:
                rest.append(place)
        for x in self.signature:
            if isinstance(x, Buffer) and isinstance(x.elem_offset, Var) and id(x.elem_offset) not in self.names.text:
                self._define(x.elem_offset, "0")  # pointers are those of element 0
        for k, what, axis, _, declared in rest:
            for var in free_vars(declared):
                if id(var) not in self.names.text:
                    raise EntryError(f"{self.name}: {what} {axis} of {self.signature[k].name} is {declared}, but "
                                     f"nothing decides {var.name}: make it a dimension of a buffer, or a scalar "
                                     "parameter")
        return rest

    def _pass_dimensions(self):
        """Make the solved variables that the body needs parameters of the kernel."""
        known = {id(p) for p in self.func.params}
        needed = [v for v in free_vars(self.func.body) if id(v) in self.names.text and id(v) not in known]
        self.func = self.func.replace(params=(*self.func.params, *needed))

    def _define(self, var, text):
        name = self.names.define(var, var.name)
        self.wide[id(var)] = wide = Var(var.name, "int64")
        self.names.text[id(wide)] = name
        self.defined[name] = f"const int64_t {name} = {text};"

    def _used(self, *texts):
        """The definitions that C texts need, in order."""
        words, lines = set(re.findall(r"\w+", " ".join(texts))), []
        for name, line in reversed(self.defined.items()):
            if name in words:
                words.update(re.findall(r"\w+", line))
                lines.append(line)
        return tuple(reversed(lines))

    def _text(self, e):
        """The C text of an expression of dimensions, an int64_t."""
        return self.expr.text(lower_dim(_Widened(self.wide).visit(e)), COMMA)

    def _check(self, k, what, axis, _, declared):
        name = "" if isinstance(declared, IntImm) else f"{declared} = "
        return f'ingot_check_{what}(f, args, {k}, {axis}, "{name}", {self._text(declared)}, error)'

    # ------------------------------------------------------------ the call

    def _workspace(self):
        """(bytes of workspace as text, where each of its buffers starts)."""
        total, offsets = const(0, "int64"), []
        for b in self.spaces:
            offsets.append(self._text(total))
            size = _Widened(self.wide).visit(b.shape[0]) * b.dtype.bytes
            total = total + (size + (WORKSPACE_ALIGN - 1)) // WORKSPACE_ALIGN * WORKSPACE_ALIGN
            self.wide.update((id(v), v) for v in free_vars(total))
        return (self._text(total) if self.spaces else ""), offsets

    def _arguments(self, offsets):
        numbers = {id(x): k for k, x in enumerate(self.signature)}
        tensors = {id(flat): self.tensors[buffer] for buffer, flat in self.flat.items()}
        for p in self.func.params:
            buffer = self.func.buffer_map.get(p)
            if buffer is None:
                yield self._scalar(p, numbers.get(id(p)))
            elif id(buffer) in tensors:
                yield f"ingot_data({tensors[id(buffer)]})"
            else:
                offset = offsets[next(n for n, b in enumerate(self.spaces) if b is buffer)]
                yield "workspace" if offset == "0" else f"(void *)((unsigned char *)workspace + {offset})"

    def _scalar(self, var, k):
        if k is not None and var.dtype.is_float:
            return f"({c_type(var.dtype)})ingot_number(&args[{k}])"
        return self.names[var] if var.dtype == "int64" else f"({c_type(var.dtype)}){self.names[var]}"

    # ------------------------------------------------------------ the description

    def _param(self, x):
        dtype = x.dtype
        code, bits = dlpack_type(dtype)
        row = {"name": x.name, "dtype": str(dtype), "code": code, "bits": bits, "lanes": dtype.lanes, "ndim": -1, "shape": (),
               "dims": (), "strides": (), "align": 1, "is_output": 0, "is_wide": 0}
        if isinstance(x, Var):
            return row
        flat = self.flat[id(x)]
        wide = any(s.dtype == "int64" for s in flat.shape)
        shape = [_text(s) if isinstance(s, IntImm) else "INGOT_DIM64" if s.dtype == "int64" else "INGOT_DIM32"
                 for s in x.shape]
        align = dtype.bytes if x.data_alignment in (DEFAULT_ALIGNMENT, -1, 0) else max(x.data_alignment, dtype.bytes)
        return {**row, "ndim": len(x.shape), "shape": tuple(shape), "dims": tuple(map(_text, x.shape)),
                "strides": tuple(map(_text, x.strides)), "align": align,
                "is_output": RETURNED if self.returns is x else int(flat in self.outputs), "is_wide": int(wide)}


def _text(dim):
    """A dimension as text, a number of any width as its digits."""
    return str(dim.value) if isinstance(dim, IntImm) else str(dim)


def description(params):
    """'A float32[n, 4], n int32': the parameters of an Entry, for a reader."""
    return ", ".join(f"{p['name']} {p['dtype']}" + (f"[{', '.join(p['dims'])}]" if p["ndim"] >= 0 else "")
                     for p in params)
