"""Shared libraries of C that export_library writes: by this machine's compiler, or by a function of the caller's."""
from __future__ import annotations

import tempfile
from pathlib import Path

from ..codegen.toolchain import build_shared

# C99 takes what is undeclared for a function of int, and gcc before 14 warns only: wrong numbers of floats.
_DECLARED = '#pragma GCC diagnostic error "-Wimplicit-function-declaration"\n'


class Linker:
    """fcompile(path, files, **options) links C files to a library, as tvm.contrib.cc.create_shared does; without it the
    target's compiler does, with the flags `options`. addons: paths of files that are linked, too; what a program calls
    of them by T.call_extern it declares by pragma_import_c. workspace_dir: a folder that the C is kept in. Raises
    ValueError for what else is given."""

    def __init__(self, fcompile=None, addons=None, workspace_dir=None, **options):
        flags = () if fcompile else options.pop("options", None) or ()
        for name, given in (("options", flags), ("addons", addons)):
            if isinstance(given, (str, Path)):
                raise ValueError(f"export_library: {name} is a list, not {given!r}")
        if options and not fcompile:
            raise ValueError(f"export_library does not take {', '.join(options)}: the compiler is the target's, or that "
                             "which CC names; another one is called by fcompile=, as tvm.contrib.cc.create_shared")
        self._fcompile, self._addons, self._folder = fcompile, tuple(map(str, addons or ())), workspace_dir
        self._options, self._flags = options, tuple(flags)

    def keep(self, files):
        """Write {name: text} to workspace_dir, where there is one."""
        if self._folder:
            _write(self._folder, files)

    def link(self, files, path, target, threads="none", defined=()):
        """Compile those of {name: text} whose names end in .c, with macros defined, and link them. The library's path."""
        head = _DECLARED + ("".join(f"#define {name}\n" for name in defined) if self._fcompile else "")
        with tempfile.TemporaryDirectory(prefix="ingot-") as folder:
            _write(folder, {n: head + text if n.endswith(".c") else text for n, text in files.items()})
            sources = [*(str(Path(folder, name)) for name in files if name.endswith(".c")), *self._addons]
            if not self._fcompile:
                return build_shared(sources, path, target, threads, cflags=(
                    *(f"-D{name}" for name in defined), *self._flags))
            self._fcompile(str(path), sources, **self._options)
            return path


def _write(folder, files):
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        Path(folder, name).write_text(text)
