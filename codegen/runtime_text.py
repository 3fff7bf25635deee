"""The files of runtime_c/ that folders carry, as text."""
from __future__ import annotations

import re
from pathlib import Path

RUNTIME = Path(__file__).parent.parent / "runtime_c"


def runtime_files(used):
    """The part of runtime_c/ that kernels with these headers need; simd.h comes in one piece."""
    names = ["ingot.h", "ingot.c"]
    names += ["ingot_math.h"] if used & {"ingot_math.h", "simd.h", "ingot_half.h"} else []
    names += [n for n in ("simd.h", "simd_integer.h", "ingot_half.h", "simd_half.h", "simd_f16.h", "ingot_tiles.h",
                          "ingot_team.h") if n in used]
    names += ["ingot_dispatch.h"] if "ingot_dispatch.h" in used else []
    names += ["ingot_threads.h"] if "ingot_team.h" in used else []
    names += ["ingot_module.h"] if "ingot_module.h" in used else []
    return {n: inlined((RUNTIME / n).read_text(), "simd/") for n in names}


def inlined(text, within="", seen=None):
    """C text with each `#include "within..."` of a file of the runtime replaced by the file, once."""
    seen = set() if seen is None else seen

    def replacement(match):
        name = match[1]
        if not name.startswith(within) or not (RUNTIME / name).exists():
            return match[0]
        if name in seen:
            return ""
        seen.add(name)
        return inlined((RUNTIME / name).read_text(), within, seen)

    return _INCLUDE.sub(replacement, text)


_INCLUDE = re.compile(r'^ *#include "([\w./]+)".*\n', re.MULTILINE)


def runtime_of_header(packed):
    """ingot.h with the functions of ingot.c, static, for a header that stands alone, and the arguments of packed
    functions. Of several such headers in one file, and an ingot.h, the first one counts."""
    arguments = "\n" + inlined((RUNTIME / "ingot_module.h").read_text(), seen={"ingot.h"}) if packed else ""
    functions = (RUNTIME / "ingot.c").read_text().partition('#include "ingot.h"\n')[2]
    return f"""#if !defined(INGOT_H)
#if defined(__GNUC__)
#define INGOT_COMMON static inline __attribute__((unused))
#else
#define INGOT_COMMON static inline
#endif
{(RUNTIME / "ingot.h").read_text()}{functions}#endif{arguments}"""
