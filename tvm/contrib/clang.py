"""tvm.contrib.clang: C for intrinsics. What TVM imports as LLVM's code is imported as C here."""
from __future__ import annotations

import re
from pathlib import Path

_LINKAGE = re.compile(r'\bextern\s+"C"\s*(?!\{)(?=\S)')  # of C++, before a function


def create_llvm(inputs, output=None, options=None, cc=None):
    """The text of C sources (texts, or paths of files) for the pragma "import_llvm", which takes C. output: a file that
    gets it, too; options, cc: accepted, the code is compiled with the module that imports it. C++'s `extern "C"` before
    a function is left out."""
    texts = [inputs] if isinstance(inputs, str) else list(inputs)
    code = "\n".join(Path(t).read_text() if "\n" not in t and Path(t).is_file() else t for t in texts)
    code = _LINKAGE.sub("", code)
    if output:
        Path(output).write_text(code)
    return code
