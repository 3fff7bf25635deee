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
    return {name: Counter(found for _, found, _ in lines if found) for name, lines in _listed(cubin).items()}


def loops(cubin, start):
    """[Counter of the instructions of the shortest loop around each instruction that begins with `start`], each loop
    once, of all kernels of a cubin."""
    found = []
    for lines in _listed(cubin).values():
        labels = {label: n for n, (label, _, _) in enumerate(lines) if label}
        spans = {(labels[to], n) for n, (_, _, to) in enumerate(lines) if labels.get(to, n) < n}
        places = [n for n, (_, name, _) in enumerate(lines) if name.startswith(start)]
        around = {min((s for s in spans if s[0] < n < s[1]), key=lambda s: s[1] - s[0], default=None) for n in places}
        found += [Counter(name for _, name, _ in lines[a:b + 1] if name) for a, b in sorted(around - {None})]
    return found


def _listed(cubin):
    """{kernel: [(label or "", instruction or "", label that it branches to, or "")]} of a cubin."""
    done = subprocess.run([find_nvdisasm(), "-c", str(cubin)], capture_output=True, text=True, check=True)
    found = {}
    for part in re.split(r"^\s*\.section\s+\.text\.", done.stdout, flags=re.MULTILINE)[1:]:
        lines = re.findall(r"^(?:(\.L_\w+):|\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)(.*))$", part,
                           re.MULTILINE)
        found[re.match(r"[\w.$]+", part)[0]] = [
            (label, name, (re.findall(r"\.L_\w+", rest) or [""])[0] if name.startswith("BRA") else "")
            for label, name, rest in lines]
    return found


def count(counter, start):
    """How many instructions of a Counter begin with `start`."""
    return sum(n for name, n in counter.items() if name.startswith(start))
