"""How long threads of a loaded library wait, as OpenMP's own display of its settings says."""
import os
import shutil
import subprocess
import sys

import pytest

from ingot.codegen.toolchain import build_shared, find_compiler
from ingot.runtime.openmp import SPINS

SOURCE = """
int total(int n);
int total(int n)
{
    int sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < n; ++i) sum += i;
    return sum;
}
"""
PROGRAM = """
import os, sys
import cffi
from ingot.runtime import openmp
before = dict(os.environ)
ffi = cffi.FFI()
ffi.cdef("int total(int n);")
assert openmp.load(ffi, sys.argv[1]).total(100) == 4950
assert dict(os.environ) == before
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="GOMP_SPINCOUNT is of gcc's OpenMP: install gcc")
@pytest.mark.parametrize("chosen, spins", [({}, SPINS), ({"GOMP_SPINCOUNT": "77"}, "77"),
                                           ({"OMP_WAIT_POLICY": "passive"}, "0")])
def test_waiting_is_brief_unless_the_user_chose(chosen, spins, tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "gcc")
    assert find_compiler("host").kind == "gcc"
    (tmp_path / "total.c").write_text(SOURCE)
    library = build_shared([tmp_path / "total.c"], tmp_path / "total.so", "host", "openmp")
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(library)], capture_output=True, text=True,
                          env={**plain, "OMP_DISPLAY_ENV": "VERBOSE", **chosen})
    assert done.returncode == 0, done.stderr
    assert f"GOMP_SPINCOUNT = '{spins}'" in done.stderr
