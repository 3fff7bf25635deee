"""Objects that tests compile by hand: equal ones once in a test run, and what compilers have to parse of their own
headers of vectors, more than half the time of a small file, once for all files with equal flags."""
import os
import re
import subprocess
import tempfile
from collections import Counter
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

from ingot.codegen.object_cache import FileCache, ObjectCache, content_key

LEAST_USES = 3  # from the third file with equal flags on, parsing once pays
READS_VECTORS = re.compile(r'^#include "simd\.h"', re.MULTILINE)
HEADERS = """#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif
"""


def compile_object(command, source, output, cwd):
    """Compile a source of the folder `cwd` to the file `output`. command: a compiler and its flags. Returns a
    CompletedProcess; of what was compiled before without a word from the compiler, one without a word."""
    command, source = [str(word) for word in command], Path(cwd, source)
    cache = ObjectCache(FileCache.folder_of("objects_of_tests"))
    words = [word for word in command if not word.startswith("-I")]
    key, has_blob = content_key(source, (*words, *_headers(command, cwd)))
    if not has_blob and cache.fetch(key, output):
        return subprocess.CompletedProcess(command, 0, "", "")
    done = subprocess.run([*command, *parsed(command, source), "-c", str(source), "-o", str(output)], cwd=cwd,
                          capture_output=True, text=True, timeout=600)
    if not done.returncode and not has_blob and not done.stdout + done.stderr:
        cache.store(key, output)
    return done


def _headers(command, cwd):
    """The text of all headers in the folders of a command."""
    folders = [Path(cwd, word[2:]) for word in command if word.startswith("-I")]
    return [path.read_text() for folder in folders for path in sorted(folder.rglob("*.h"))]


_USES = Counter()


def parsed(command, source):
    """Flags with which a compiler takes its own headers as parsed before, for a C source that reads simd.h, which reads
    them anyway; none for others, for which it would hide what they forgot to include, and where it does not pay."""
    command, source = [str(word) for word in command], Path(source)
    folder, text = FileCache.folder_of("headers_of_tests"), source.read_text() if source.suffix == ".c" else ""
    if folder is None or not READS_VECTORS.search(text) or "ingot_threads.h" in text:  # that must come before
        return []
    if "++" in command[0] or "-DINGOT_SIMD_SCALAR" in command:
        return []
    flags = tuple(word for word in command if not word.startswith(("-I", "-D", "-W")))
    _USES[flags] += 1
    return _parse(flags, folder) if _USES[flags] >= LEAST_USES else []


@lru_cache(maxsize=None)
def _parse(flags, folder):
    """Parse HEADERS with these flags, unless another process of the test run has."""
    header = folder / f"{blake2b(repr(flags).encode(), digest_size=12).hexdigest()}.h"
    is_clang = "clang" in Path(flags[0]).name
    made = Path(f"{header}.{'pch' if is_clang else 'gch'}")
    if not made.exists():
        with tempfile.TemporaryDirectory(dir=folder) as place:
            text, output = Path(place, "text"), Path(place, "made")
            text.write_text(HEADERS)
            os.utime(text, (0, 0))  # clang compares times
            os.replace(text, header)
            subprocess.run([*flags, "-x", "c-header", str(header), "-o", str(output)], check=True, capture_output=True)
            os.replace(output, made)
    return ["-include-pch", str(made)] if is_clang else ["-include", str(header)]
