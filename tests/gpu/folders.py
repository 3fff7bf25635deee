"""Folders of networks for CUDA, and what compilers say of their files."""
import re
import shutil
import subprocess

import pytest
from c_build import STRICT

import ingot
from ingot.codegen.compile import Options, compile_module
from ingot.codegen.nvcc import find_nvcc

ARCHITECTURES = ("sm_80", "sm_90a")


def folder_of(model, path, name="net", target="cuda-sm_80", **options):
    """The CompiledModel of an ONNX model, written to `path`."""
    made = compile_module(ingot.from_onnx(model, name=name), Options.check(target=target, **options), "0" * 64)
    made.write(path)
    return made


def nvcc():
    """The Nvcc of this machine; skips the test where there is none."""
    found = find_nvcc()
    if found is None:
        pytest.skip("no nvcc ($CUDACXX, $CUDA_HOME, PATH, pip's packages)")
    return found


def check_host_code(folder, *flags):
    """Compile the C of a folder as strictly as all generated C, by each compiler that is there."""
    include = nvcc().include
    for compiler in filter(shutil.which, ("gcc", "clang")):
        for source in sorted(folder.glob("*.c")):
            done = subprocess.run([compiler, *STRICT, "-O0", *flags, "-isystem", include, "-c", source.name, "-o",
                                   "strict.o"], cwd=folder, capture_output=True, text=True)
            assert done.returncode == 0, f"{compiler}: {done.stderr}"


def kernel_facts(folder, architecture):
    """{kernel: {"registers", "spilled", "stack"}} of a folder's kernels, as ptxas reports them. A warning fails."""
    command = [nvcc().path, f"-arch={architecture}", "-cubin", "-std=c++17", "-Xptxas", "-v", "-Werror",
               "all-warnings"]
    facts = {}
    for source in sorted(folder.glob("*.cu")):
        done = subprocess.run([*command, source.name, "-o", f"{source.stem}.cubin"], cwd=folder, capture_output=True,
                              text=True)
        assert done.returncode == 0, f"{source.name}: {done.stderr}"
        for part in done.stderr.split("Compiling entry function '")[1:]:
            stack, stores, loads = map(int, re.search(
                r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part).groups())
            facts[part.partition("'")[0]] = {"registers": int(re.search(r"Used (\d+) registers", part)[1]),
                                             "spilled": stores + loads, "stack": stack}
    return facts


def check_kernels(folder, names, architectures=ARCHITECTURES):
    """nvcc compiles every kernel without a warning and without a register that it spills."""
    for architecture in architectures:
        facts = kernel_facts(folder, architecture)
        assert facts.keys() == set(names)
        assert {n: f for n, f in facts.items() if f["spilled"]} == {}, architecture
