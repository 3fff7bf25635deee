"""What instructions a cubin has, by NVIDIA's disassembler: nvdisasm, on PATH, beside nvcc, or of pip's packages
(nvidia-cuda-nvdisasm)."""
from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

from ingot.codegen.nvcc import find_nvcc


def find_nvdisasm():
    """Its path, None where there is none."""
    nvcc = find_nvcc()
    beside = [nvcc.root / "bin" / "nvdisasm"] if nvcc else []
    pip = [path for entry in filter(None, sys.path) for path in sorted(Path(entry, "nvidia").glob("*/bin/nvdisasm"))]
    return next((found for name in ("nvdisasm", *beside, *pip) if (found := shutil.which(str(name)))), None)


def instructions(cubin):
    """{kernel: Counter of its instructions ("HMMA.16816.F32", "LDGSTS.E.BYPASS.128" ...)} of a cubin."""
    done = subprocess.run([find_nvdisasm(), "-c", str(cubin)], capture_output=True, text=True, check=True)
    found = {}
    for part in re.split(r"^\s*\.section\s+\.text\.", done.stdout, flags=re.MULTILINE)[1:]:
        names = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", part)
        found[re.match(r"[\w.$]+", part)[0]] = Counter(names)
    return found


def count(counter, start):
    """How many instructions of a Counter begin with `start`."""
    return sum(n for name, n in counter.items() if name.startswith(start))
