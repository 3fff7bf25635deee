"""A module of functions as C text: kernels, their entries, and the description by which a process finds them."""
from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, field

from .c_layout import wrapped
from .c_names import network_name
from .c_types import c_comment, c_string
from .compile import VERSION
from .entry import description, make_entry
from .package import RUNTIME, inlined, runtime_files
from .kernels import imports_of, includes_of
from .packed_names import packed_of
from .render import render
from .target import Target


@dataclass(frozen=True)
class CModule:
    """entries: in the module's order; entry: the name of the one that stands for the module, or ""."""

    entries: tuple
    entry: str
    target: Target

    def source(self):
        """The C text, which includes headers of the runtime."""
        return render("module.c", **self._context())

    def header(self, name):
        """The declarations as NAME.h."""
        return render("module.h", **self._context(), guard=re.sub(r"\W", "_", name).upper() + "_H")

    def standalone(self):
        """The C text with the headers of the runtime in it."""
        return inlined(self.source())

    def files(self, name):
        """{file name: text} of a folder: NAME.c, NAME.h and what they include."""
        return {f"{name}.c": self.source(), f"{name}.h": self.header(name), **runtime_files(self._uses()),
                **{h: (RUNTIME / h).read_text() for h in ("ingot_module.h", "ingot_entry.h")}}

    @property
    def packed(self):
        """The Packed functions that the module calls."""
        return packed_of(e.kernel.function for e in self.entries)

    def _uses(self):
        return set().union(*(e.kernel.function.uses for e in self.entries))

    def _context(self):
        uses = self._uses()
        names = ", ".join(f"&{e.symbol}_info" for e in self.entries)
        return {
            "functions": "\n".join(wrapped(f"static const ingot_function *const functions[] = {{{names}}};")),
            "title": textwrap.fill(", ".join(e.name for e in self.entries), 114, subsequent_indent=" * "),
            "entries": [_texts(e) for e in self.entries], "entry": c_string(self.entry), "version": VERSION,
            "target": self.target.name, "imports": imports_of(e.kernel for e in self.entries),
            **includes_of(uses - {"ingot_module.h"}, "ingot_entry.h", packed=self.packed),
            "first_headers": ["ingot_threads.h"] if "ingot_team.h" in uses else []}


@dataclass(frozen=True)
class StoredSource:
    """A module read back: its C text, and the headers that were stored with it ({file name: text})."""

    text: str
    stored: dict = field(default_factory=dict)
    target: Target = field(default_factory=lambda: Target.get("host"))
    packed = ()  # who wrote the file supplies the functions that it calls

    def source(self):
        return self.text

    def standalone(self):
        return inlined(self.text)

    def files(self, name):
        return {f"{name}.c": self.text, **self.stored}


def is_parallel(text):
    """Whether a kernel in C text has a parallel loop."""
    return re.search(r"^ +INGOT_OMP\(|\bingot_together\(", text, re.MULTILINE) is not None


_BESIDE = ("_kernel", "_params", "_info", "_call", "_together")  # what stands beside a function under its name


def make_module(functions, target, entry=""):
    """The CModule of {name: lowered PrimFunc}. Raises EntryError or the printer's errors."""
    taken, entries = set(), []
    for name, func in functions.items():
        base = symbol = network_name(name, "f")
        n = 0
        while {symbol, *(symbol + end for end in _BESIDE)} & taken:
            n += 1
            symbol = f"{base}_{n}"
        taken |= {symbol, *(symbol + end for end in _BESIDE), f"{symbol}_workspace_bytes"}
        entries.append(make_entry(func, name, symbol))
    return CModule(tuple(entries), entry, target)


# ---------------------------------------------------------------- text

def _texts(e):
    """The texts of an Entry for the template."""
    workspace = f"size_t {e.symbol}_workspace_bytes(const ingot_arg *args, int32_t n_args)"
    what = description(e.params)
    call, signature, together = _line(f"{e.call};"), " ".join(e.kernel.signature.split()), ""
    end = "\n    ingot_tiles_end();" if "ingot_tiles.h" in e.kernel.function.uses else ""
    if e.kernel.function.can_fail:
        call = _line(f"const char *const broken = {e.call};") + end + "\n" + _line(
            "if (broken != NULL) return ingot_failed(f, broken, error);")
    else:
        call += end
    if e.kernel.function.team:
        together, call = _together(e, signature, end)
    return {
        "name": c_string(e.name), "symbol": e.symbol, "description": c_comment(what),
        "contract": textwrap.fill(c_comment(f"{e.symbol}({what})"), 112, initial_indent=" *   ",
                                  subsequent_indent=" *     ", break_long_words=False),
        "signature": f"ingot_status {e.symbol}(const ingot_arg *args, int32_t n_args, void *workspace, "
                     "size_t workspace_bytes,\n    ingot_error *error)",
        "workspace_signature": workspace, "workspace": e.workspace, "info": "\n".join(wrapped(
            f'static const ingot_function {e.symbol}_info = {{"{c_string(e.name)}", {len(e.params)}, '
            f'{e.symbol + "_params" if e.params else "NULL"}, {e.symbol}, '
            f'{e.symbol + "_workspace_bytes" if e.workspace else "NULL"}}};')),
        "params": [_line("{" + _param(p) + "}") for p in e.params],
        "kernel_comment": e.kernel.comment, "kernel_signature": "\n".join(wrapped("static " + signature)),
        "kernel_body": e.kernel.body, "together": together, "call": call,
        "solved": [_line(x) for x in e.solved], "workspace_solved": [_line(x) for x in e.workspace_solved],
        "extents": _extents(e), "checks": [_returned(x) for x in e.checks],
        "check_workspace": _returned(f"ingot_check_workspace(f, workspace, workspace_bytes, (size_t)({e.workspace}), "
                                     "error)"),
    }


def _extents(e):
    """What an entry does where symbolic dimensions are 0: nothing where that leaves nothing to write."""
    if not any(d.startswith("INGOT_DIM") for p in e.params for d in p["shape"]):
        return []
    idle = [] if e.has_effects else [_line("if (ingot_is_idle(f, args)) return INGOT_OK;")]
    return [*idle, _returned("ingot_check_extents(f, args, error)")]


def _together(e, signature, end):
    """(a function that calls a team's kernel as one of its threads, the text that starts the team)."""
    params = [" ".join(p.replace("INGOT_RESTRICT", "").split()) for p in
              re.search(r"\((.*)\)", signature)[1].split(",")[1:]]
    names = [re.search(r"\w+$", p)[0] for p in params]
    fields = "".join(f"    {p};\n" for p in params)
    values = ", ".join(["worker", *(f"call.{n}" for n in names)])
    text = (f"struct {e.symbol}_call {{\n{fields}}};\n\n"
            f"static void {e.symbol}_together(ingot_worker *worker, const void *from)\n{{\n"
            f"    const struct {e.symbol}_call call = *(const struct {e.symbol}_call *)from;\n"
            f"    ingot_joined(worker);\n" + _line(f"{e.kernel.function.name}({values});") + end + "\n}\n")
    given = e.call[e.call.index("(") + 1:-1].removeprefix("&worker, ")
    return text, (_line(f"const struct {e.symbol}_call call = {{{given}}};") + "\n" +
                  _line(f"ingot_together(INGOT_TEAM_PARTS, INGOT_TEAM_PARTS, {e.symbol}_together, &call);"))


def _line(text):
    return "\n".join(wrapped("    " + text))


def _returned(check):
    return _line(f"if ((status = {check}) != INGOT_OK) return status;")


def _param(p):
    """The initializer of an ingot_param."""
    def strings(values):
        return "(const char *const[]){" + ", ".join(f'"{c_string(v)}"' for v in values) + "}" if values else "NULL"

    shape = "(const int64_t[]){" + ", ".join(p["shape"]) + "}" if p["shape"] else "NULL"
    return (f'"{c_string(p["name"])}", "{p["dtype"]}", {{{p["code"]}, {p["bits"]}, {p["lanes"]}}}, {p["ndim"]}, {shape}, '
            f'{strings(p["dims"])}, {strings(p["strides"])}, {p["align"]}, {p["is_output"]}, {p["is_wide"]}')
