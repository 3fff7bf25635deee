"""External modules: functions of C of one's own, with what they are written in, which the output folder carries."""
from __future__ import annotations

from pathlib import Path

from .exporter import Exporter
from .op_calls import extern


class ExternModule:
    """Functions that someone else writes. symbols: {name in C: function of the arguments that gives a
    Tensor.placeholder of the result, or several}; module["name"](x, y) calls one."""

    def __init__(self, symbols):
        self.symbols = dict(symbols)

    def __getitem__(self, func_name):
        """What calls a function. KeyError where there is none of that name."""
        infer = self.symbols[func_name]
        return lambda *args: extern(func_name, args, infer(*args))


class SourceModule(ExternModule):
    """Functions written in C99. source_code: the text, or the path of a file.

    Each is `void NAME(const ingot_arg *args, int32_t n_args)`: arguments in order, results behind them, each tensor an
    `args[n].value.tensor` with DLPack's fields. headers: what the text needs beside ingot_module.h; libraries: what it
    is linked with. Raises ValueError for a path of no file, and for other languages than "c".
    """

    def __init__(self, symbols, source_code, source_format="c", headers=(), libraries=()):
        super().__init__(symbols)
        if source_format != "c":
            raise ValueError(f"Invalid source format: {source_format}; a folder is C, so that source_format is \"c\"")
        self.source_code = _text(source_code)
        self.headers, self.libraries = tuple(headers), tuple(libraries)


class ObjectModule(ExternModule):
    """Functions in an object file, which is for one machine, as a folder of C is not: NotImplementedError."""

    def __init__(self, symbols, filepath):
        raise NotImplementedError(f"nn.ObjectModule: {filepath} is compiled for one machine, and a folder is C for any: "
                                  "give nn.SourceModule what it was compiled from")


def _text(source_code):
    """C, or what the file has that is named in one line."""
    if isinstance(source_code, Path) or "\n" not in source_code and Path(source_code).suffix == ".c":
        if not Path(source_code).is_file():
            raise ValueError(f"Not a file: {source_code}")
        return Path(source_code).read_text()
    return source_code


def add_extern(mod):
    """Have the module that is being exported carry an external module. ValueError for a symbol that another has."""
    known = Exporter.current().extern_mods
    if mod in known:
        return
    taken = {name for m in known for name in m.symbols}
    twice = sorted(taken & set(mod.symbols))
    if twice:
        raise ValueError(f"Duplicate symbols: {twice}; each is the function of one external module")
    known.append(mod)


__all__ = ["ExternModule", "ObjectModule", "SourceModule", "add_extern"]
