"""CUDA C without a GPU: generated folders and kernels, built by g++ against the emulator in emu/, and run."""
from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

EMU = Path(__file__).parent / "emu"
MISSING = next((f"no {tool}" for tool in ("cc", "c++", "ar") if shutil.which(tool) is None), None)
POLICIES = ("up", "down", "shuffled", "up late", "down late")
FLAGS = ("-std=c++17", "-O1", "-g0", "-w", "-fPIC", "-fno-strict-aliasing", "-I", str(EMU / "include"), "-I", str(EMU),
         "-DINGOT_DYNAMIC_SHARED(name)=unsigned char *const name = emu::dynamic_shared")
CACHE = Path(tempfile.gettempdir(), f"ingot-emulator-{os.getuid()}")
KERNEL = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\((\d+)\) )?(\w+)\(')
# A kernel whose text has none of these runs its threads one after the other.
MEETS = re.compile(r"__sync|__shfl|ingot_shfl|__ballot|__any|__all|ldmatrix|ingot_mma|ingot_fragment|cp_async|ingot_barrier|CAS|atomic")


def translate(text):
    """Kernels as C++: each with a section for its static shared memory, and all of them known to the runtime."""
    heads = [*KERNEL.finditer(text)]
    parts, ends = [text[:heads[0].start()] if heads else text], []
    for head, after in zip(heads, [*(h.start() for h in heads[1:]), len(text)]):
        bounds, name = head.groups()
        body = text[head.start():after]
        own = body.split("\n}\n")[0]
        section = f'static __attribute__((section("emu_shared_{name}")))'
        parts.append(re.sub(r"\bextern __shared__\b|\b__shared__\b",
                            lambda m: m[0] if m[0].startswith("extern") else section, body))
        ends.append(f'EMU_KERNEL({name}, {name}, {bounds or 0}, "", {"false" if MEETS.search(own) else "true"})')
    return "".join(parts) + "\n" + "\n".join(ends) + "\n"


def _run(command, cwd=None, **fields):
    return subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, **fields)


def _built(command, cwd=None):
    done = _run(command, cwd)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stderr[:4000]}"


def emulator():
    """The objects of the emulator, built once."""
    sources = sorted(EMU.glob("*.cpp"))
    key = hashlib.sha256(b"".join(f.read_bytes() for f in sorted(EMU.rglob("*")) if f.is_file())).hexdigest()[:16]
    folder = CACHE / key
    if not (folder / "done").exists():
        made = Path(tempfile.mkdtemp(prefix="emu-", dir=_folder(CACHE)))
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda f: _built(["c++", *FLAGS, "-O2", "-c", f, "-o", made / f"{f.stem}.o"]), sources))
        (made / "done").touch()
        try:
            made.rename(folder)
        except OSError:
            shutil.rmtree(made)  # another process was first
    return sorted(folder.glob("*.o"))


def _folder(path):
    path.mkdir(parents=True, exist_ok=True)
    return path


def compile_folder(folder, out, jobs=1):
    """Objects of a generated folder's library in the folder `out`."""
    folder, out = Path(folder), _folder(Path(out))
    files = [f for f in sorted(folder.iterdir()) if f.suffix in (".c", ".S", ".cu") and f.stem not in (
        "example", "selftest", "selftest_data")]

    def build(file):
        target = out / f"{file.name}.o"
        if file.suffix == ".cu":
            text = out / f"{file.stem}.cpp"
            text.write_text(translate(file.read_text()))
            _built(["c++", *FLAGS, "-I", folder, "-c", text, "-o", target])
        else:
            _built(["cc", *(["-std=c99"] if file.suffix == ".c" else []), "-O1", "-fPIC", "-I", EMU / "include", "-c", file.name, "-o", target],
                   cwd=folder)
        return target

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(build, files))


def build_library(folder, out):
    """The shared library of a generated folder, with the emulator in it."""
    with tempfile.TemporaryDirectory() as work:
        _built(["c++", "-shared", "-Wl,-z,noexecstack", *compile_folder(folder, work), *emulator(), "-lm", "-o", out])
    return out


def run_folder(folder, policy="up", program="selftest", arch=80):
    """The finished process of the folder's self-test (or "example"), on the emulator."""
    folder = Path(folder)
    with tempfile.TemporaryDirectory() as work:
        objects = compile_folder(folder, work)
        for name in (f"{program}.c", "selftest_data.S"):
            if (folder / name).exists() and (program == "selftest" or name == f"{program}.c"):
                objects.append(Path(work, f"{name}.o"))
                _built(["cc", *(["-std=c99"] if name.endswith(".c") else []), "-O1", "-I", EMU / "include", "-c", name,
                        "-o", objects[-1]], cwd=folder)
        binary = Path(work, program)
        _built(["c++", "-Wl,-z,noexecstack", *objects, *emulator(), "-lm", "-o", binary])
        return _run([binary], env={**os.environ, "EMU_POLICY": policy, "EMU_ARCH": str(arch)})


RUNNER = """
extern "C" int emu_run(const char *name, const unsigned *grid, const unsigned *block, void **args, size_t shared)
{
    struct { const char *name; const void *at; } known[] = {%s};
    for (auto &k : known)
        if (!strcmp(k.name, name)) {
            cudaFuncSetAttribute(k.at, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
            return (int)cudaLaunchKernel(k.at, dim3(grid[0], grid[1], grid[2]), dim3(block[0], block[1], block[2]), args,
                                         shared, 0);
        }
    return -1;
}
"""


def run_kernels(text, launches, arrays, policy="up"):
    """Launch kernels of a .cu text on numpy arrays, in place: launches are (name, grid, block, arguments, bytes of
    dynamic shared memory), arguments names in `arrays` or numpy scalars. Runs in a process of its own."""
    import numpy as np
    import pickle
    import sys

    headers = Path(__file__).parents[2] / "runtime_c"
    names = [m.group(2) for m in KERNEL.finditer(text)]
    source = translate('#include "cuda_runtime.h"\n' + text) + RUNNER % ", ".join(
        f'{{"{n}", (const void *)&{n}}}' for n in names)
    with tempfile.TemporaryDirectory() as work:
        Path(work, "k.cpp").write_text(source)
        _built(["c++", *FLAGS, "-shared", "-I", headers, "-I", headers / "cuda", Path(work, "k.cpp"), *emulator(), "-lm", "-o",
                Path(work, "k.so")])
        Path(work, "in").write_bytes(pickle.dumps((launches, {n: np.ascontiguousarray(a) for n, a in arrays.items()})))
        done = _run([sys.executable, "-c", _CHILD, work], env={**os.environ, "EMU_POLICY": policy})
        assert done.returncode == 0, done.stderr[-2000:]
        return pickle.loads(Path(work, "out").read_bytes())


_CHILD = """
import ctypes, pickle, sys
work = sys.argv[1]
launches, arrays = pickle.load(open(work + "/in", "rb"))
arrays = {n: a.copy() for n, a in arrays.items()}
library = ctypes.CDLL(work + "/k.so")
for name, grid, block, args, shared in launches:
    kept = []
    for a in args:
        kept.append(ctypes.c_void_p(arrays[a].ctypes.data) if isinstance(a, str) else
                    ctypes.create_string_buffer(a.tobytes(), a.nbytes))
    given = (ctypes.c_void_p * len(kept))(*(ctypes.addressof(k) for k in kept))
    extents = [(ctypes.c_uint * 3)(*[*e, 1, 1, 1][:3]) for e in (grid, block)]
    code = library.emu_run(name.encode(), *extents, given, ctypes.c_size_t(shared))
    if code:
        raise SystemExit(f"launch of {name}: error {code}")
pickle.dump(arrays, open(work + "/out", "wb"))
"""
