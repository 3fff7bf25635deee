"""CUDA C without a GPU: generated folders and kernels, built by g++ against the emulator in emu/, and run."""
from __future__ import annotations

import hashlib
import itertools
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import numpy as np

from ingot.codegen.c_names import PROGRAMS
from ingot.codegen.wgmma import wgmma_calls, wgmma_header

EMU = Path(__file__).parent / "emu"
HEADERS = Path(__file__).parents[2] / "runtime_c"  # of kernels
MISSING = next((f"no {tool}" for tool in ("cc", "c++", "ar", "addr2line") if shutil.which(tool) is None), None) or (
    None if "Free Software Foundation" in subprocess.run(["c++", "--version"], capture_output=True, text=True).stdout
    else "c++ is not GCC")
POLICIES = ("up", "down", "shuffled", "up late", "down late", "starving", "starving down late")
FLAGS = ("-std=c++17", "-O1", "-g0", "-w", "-fPIC", "-fno-strict-aliasing", "-I", str(EMU / "include"), "-I", str(EMU),
         "-DINGOT_DYNAMIC_SHARED(name)=unsigned char *const name = emu::dynamic_shared")
# Kernels whose accesses are seen: the compiler calls a function before each, which the emulator has (hooks.cpp).
SEEN = ("-fsanitize=thread", "--param", "tsan-distinguish-volatile=1", "-fno-tree-sra", "-g1", "-gdwarf-4")
CACHE = Path(tempfile.gettempdir(), f"ingot-emulator-{os.getuid()}")
KERNEL = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\((\d+)\) )?(\w+)\(')
# A kernel whose text has none of these runs its threads one after the other.
MEETS = re.compile(r"__sync|__shfl|ingot_shfl|__ballot|__any|__all|ldmatrix|ingot_mma|ingot_fragment|cp_async"
                   r"|ingot_m?barrier|ingot_tma|ingot_wgmma|CAS|atomic")
BARRIER = re.compile(r"(?<![\w:])(__syncthreads|__syncwarp)\(\w*\);")
WGMMA = re.compile(r"ingot_wgmma_m64n(\d+)k\d+_(\w+?)_(f32|s32)(_ra)?")
SHARED = re.compile(r"(?<!extern )\b__shared__\s+([^;]+);")


def barriers(text, first=0):
    """{kernel: the numbers of its barriers}, as translate gives them."""
    heads, found = [*KERNEL.finditer(text)], {}
    for head, end in zip(heads, [*(h.start() for h in heads[1:]), len(text)]):
        found[head[2]] = range(first, first + len(BARRIER.findall(text[head.start():end])))
        first = found[head[2]].stop
    return found


def translate(text, name="kernels.cu", first=0, sizes=None):
    """Kernels as C++: each with a section for its static shared memory, numbers for its barriers from `first` on, and
    all of them known to the runtime. sizes: see sizes_of. Raises nothing: what it does not know stays as it is."""
    heads = [*KERNEL.finditer(text)]
    starts = [h.start() for h in heads]
    parts, ends, numbers = [f'#line 1 "{name}"\n', text[:starts[0]] if heads else text], [], itertools.count(first)
    for head, after in zip(heads, [*starts[1:], len(text)]):
        bounds, kernel = head.groups()
        body = text[head.start():after]
        own = body.split("\n}\n")[0]
        body = SHARED.sub(lambda m: _shared(m[1], f"emu_shared_{kernel}"), body)
        parts.append(BARRIER.sub(lambda m: f"EMU_BARRIER({next(numbers)}, {m[0][:-1]});", body))
        extents, count = _extents(text[head.end():], kernel, (sizes or {}).get(kernel, ()))
        alone = "false" if MEETS.search(own) else "true"
        ends += [extents, f'EMU_KERNEL({kernel}, {kernel}, {bounds or 0}, "", {alone}, emu_extents_{kernel}, {count})']
    return "".join(parts) + "\n" + "\n".join(ends + [*map(_wgmma, wgmma_calls(text))]) + "\n"


def _wgmma(name):
    """The body of a product of a warpgroup."""
    columns, operand, total, registers = WGMMA.fullmatch(name).groups()
    a, given = ("const void *a", "0, a") if registers else ("uint64_t a", "a, nullptr")
    sums, flag = "float" if total == "f32" else "int32_t", "true" if registers else "false"
    return (f"__attribute__((weak)) void {name}({sums} *d, {a}, uint64_t b, int add)\n"
            f"{{\n    const emu::Wgmma shape = {{{columns}, emu::Wgmma::{operand.upper()}, {flag}}};\n"
            f"    emu::wgmma(shape, d, {given}, b, add, __builtin_return_address(0));\n}}")


def _shared(text, section):
    """Declarations of shared memory, each array by itself."""
    first, *others = re.split(r",(?![^(\[]*[)\]])", text)
    base, name = re.fullmatch(r"(.*?)(\w+)\s*(?:\[.*)?", first, re.S).groups()
    names = [name, *(re.match(r"\s*(\w+)", other)[1] for other in others)]
    return " ".join(f'EMU_SHARED("{section}", EMU_ARGUMENT({declaration}), {name});' for declaration, name in zip(
        [first, *(base + other for other in others)], names))


def sizes_of(model):
    """{kernel: the bytes of each of its parameters, None where it is no array} of a CompiledModel."""
    sizes = {}
    for name, kernel in model.kernels.items():
        widths = [re.sub(r"const |__restrict__ ", "", p).partition("*")[0].strip()
                  for p in _until_closed(kernel.signature.partition(f"{name}(")[2]).split(",")]
        sizes[name] = [None if span is None or "tensor_map" in width else f"({_in_c(span)}) * sizeof({width})"
                       for span, width in zip(kernel.spans, widths)]
    return sizes


def _in_c(span):
    return re.sub(r"T\.u?int\d+\((\d+)\)", r"\1", span).replace("//", "/")


def _extents(after, kernel, sizes):
    """(the function that tells how large the arrays of a kernel are; how many pointers it has)."""
    params = _until_closed(after).split(",")
    names = [re.findall(r"\w+", p)[-1] if p.strip() else "" for p in params]
    lines = []
    for n, (name, size) in enumerate(zip(names, sizes)):
        dims = sorted(set(re.findall(r"[A-Za-z_]\w*", size.rpartition(" * ")[0]))) if size else ()
        if not size or not set(dims) <= set(names):
            continue
        given = "".join(f"const long long {d} = *({params[names.index(d)].rpartition(d)[0]} *)args[{names.index(d)}]; "
                        for d in dims)
        lines.append(f'    {{ {given}tell("{name}", *(void *const *)args[{n}], (size_t)({size})); }}\n')
    head = f"static void emu_extents_{kernel}(void *const *args, void (*tell)(const char *, const void *, size_t))"
    return f"{head}\n{{\n    (void)args, (void)tell;\n{''.join(lines)}}}", sum("*" in p for p in params)


def _until_closed(text):
    """The text up to the bracket that closes what was open before it."""
    depth = 1
    for n, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return text[:n]
    return text


def _run(command, cwd=None, **fields):
    return subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, **fields)


def _built(command, cwd=None):
    done = _run(command, cwd)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stderr[:4000]}"


def emulator():
    """The objects of the emulator, built once."""
    sources = sorted(EMU.glob("*.cpp"))
    key = hashlib.sha256(b"".join(f.read_bytes() for f in sorted([*EMU.rglob("*"), *HEADERS.rglob("*.h")])
                                  if f.is_file())).hexdigest()[:16]
    folder = CACHE / key
    if not (folder / "done").exists():
        made = Path(tempfile.mkdtemp(prefix="emu-", dir=_folder(CACHE)))
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda f: _built(["c++", *FLAGS, "-I", HEADERS / "cuda", "-O2", "-c", f, "-o",
                                            made / f"{f.stem}.o"]), sources))
        (made / "done").touch()
        try:
            made.rename(folder)
        except OSError:
            shutil.rmtree(made)  # another process was first
    return sorted(folder.glob("*.o"))


def _folder(path):
    path.mkdir(parents=True, exist_ok=True)
    return path


def kernels_of(folder):
    """[(a folder's file of kernels, its text, the number of its first barrier)]."""
    found, first = [], 0
    for file in sorted(Path(folder).glob("*.cu")):
        text = file.read_text()
        found.append((file, text, first))
        first = max((numbers.stop for numbers in barriers(text, first).values()), default=first)
    return found


def compile_folder(folder, out, jobs=1, seen=False, sizes=None):
    """Objects of a generated folder's library in the folder `out`. seen: races, bounds and costs of accesses
    are; sizes: see sizes_of."""
    folder, out = Path(folder), _folder(Path(out))
    files = [f for f in sorted(folder.iterdir()) if f.suffix in (".c", ".S") and not PROGRAMS.fullmatch(f.stem)]

    def build(file, text=None, first=0):
        target = out / f"{file.name}.o"
        if text is not None:
            source = out / f"{file.stem}.cpp"
            source.write_text(translate(text, file.name, first, sizes))
            _built(["c++", *FLAGS, *(SEEN if seen else ()), "-I", folder, "-c", source, "-o", target])
        else:
            _built(["cc", *(["-std=c99"] if file.suffix == ".c" else []), "-O1", "-fPIC", "-I", EMU / "include", "-c",
                    file.name, "-o", target], cwd=folder)
        return target

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda job: build(*job), [*((f,) for f in files), *kernels_of(folder)]))


def build_cudart(folder):
    """libcudart.so, the emulator as CUDA's runtime library, in a folder; returns its path. Beside CUDA's functions it
    has emu_fail_with(code), what calls return from then on, and emu_blocks(), how many blocks of memory are left."""
    path = Path(folder, "libcudart.so")
    _built(["c++", "-shared", *emulator(), "-ldl", "-o", path])
    return path


def build_network(folder, out, cudart):
    """The shared library `out` of a generated folder over that one."""
    _built(["c++", "-shared", "-Wl,-z,noexecstack", *compile_folder(folder, f"{out}.objects"), cudart, "-lm", "-o",
            out])
    return out


def build_library(folder, out):
    """The shared library of a generated folder, with the emulator in it."""
    with tempfile.TemporaryDirectory() as work:
        _built(["c++", "-shared", "-Wl,-z,noexecstack", *compile_folder(folder, work), *emulator(), "-lm", "-ldl", "-o",
                out])
    return out


def build_program(folder, out, program="selftest", seen=False, sizes=None):
    """The folder's self-test (or "example") as the executable `out`, with the emulator in it."""
    folder = Path(folder)
    with tempfile.TemporaryDirectory() as work:
        objects = compile_folder(folder, work, seen=seen, sizes=sizes)
        ends = [f"_{program}.c", *(["_selftest_data.S"] if program == "selftest" else [])]
        for name in sorted(file.name for end in ends for file in folder.glob(f"*{end}")):
            objects.append(Path(work, f"{name}.o"))
            _built(["cc", *(["-std=c99"] if name.endswith(".c") else []), "-O1", "-I", EMU / "include", "-c", name,
                    "-o", objects[-1]], cwd=folder)
        _built(["c++", "-Wl,-z,noexecstack", *objects, *emulator(), "-lm", "-ldl", "-o", out])
    return out


def run_program(program, policy="up", arch=80, cwd=None, **environment):
    """The finished process of what build_program built."""
    return _run([program], cwd=cwd, env={**os.environ, "EMU_POLICY": policy, "EMU_ARCH": str(arch),
                                **{k: str(v) for k, v in environment.items()}})


def run_folder(folder, policy="up", program="selftest", arch=80, seen=False, sizes=None, **environment):
    """The finished process of the folder's self-test (or "example"), on the emulator."""
    with tempfile.TemporaryDirectory() as work:
        built = build_program(folder, Path(work, program), program, seen, sizes)
        return run_program(built, policy, arch, **environment)


RUNNER = """
extern "C" int emu_run(const char *name, const unsigned *grid, const unsigned *block, void **args, size_t shared)
{
    struct { const char *name; const void *at; } known[] = {%s};
    for (auto &k : known)
        if (!strcmp(k.name, name)) {
            cudaFuncSetAttribute(k.at, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
            return (int)cudaLaunchKernel(k.at, dim3(grid[0], grid[1], grid[2]),
                                         dim3(block[0], block[1], block[2]), args, shared, 0);
        }
    return -1;
}
extern "C" void emu_drop(int barrier) { emu::dropped = barrier; }
"""


class LaunchError(Exception):
    """A launch failed; the text says why."""


def build_kernels(text, out, seen=False):
    """The shared library `out` of a .cu text and the emulator, for run_library."""
    names = [m.group(2) for m in KERNEL.finditer(text)]
    source = '#include "cuda_runtime.h"\n' + translate(text) + RUNNER % ", ".join(
        f'{{"{n}", (const void *)&{n}}}' for n in names)
    file = Path(out).with_suffix(".cpp")
    file.write_text(source)
    (file.parent / "ingot_wgmma.h").write_text(wgmma_header(wgmma_calls(text)))
    made = file.with_suffix(".o")
    _built(["c++", *FLAGS, *(SEEN if seen else ()), "-I", HEADERS, "-I", HEADERS / "cuda", "-I", file.parent,
            "-c", file, "-o", made])
    _built(["c++", "-shared", made, *emulator(), "-lm", "-ldl", "-o", out])
    return out


def run_library(library, calls, policy="up", **environment):
    """The results of calls, each (launches, arrays, number of the barrier left out or -1): the arrays afterwards, or
    the reason why a launch failed. Launches are (kernel, grid, block, arguments, bytes of dynamic shared memory),
    arguments names in `arrays`, numpy scalars, or tensor maps: ("map", name of a matrix, (rows, columns) of a tile,
    bytes of its swizzle). Runs in a process of its own."""
    with tempfile.TemporaryDirectory() as work:
        dense = [(launches, {n: np.ascontiguousarray(a) for n, a in arrays.items()}, drop)
                 for launches, arrays, drop in calls]
        Path(work, "in").write_bytes(pickle.dumps(dense))
        done = _run([sys.executable, "-c", _CHILD, library, work], env={
            **os.environ, "EMU_POLICY": policy, **{k: str(v) for k, v in environment.items()}})
        if done.returncode:
            raise LaunchError(done.stderr[-2000:])
        return pickle.loads(Path(work, "out").read_bytes())


def run_kernels(text, launches, arrays, policy="up", seen=False, **environment):
    """Launch kernels of a .cu text on numpy arrays; returns the arrays afterwards. Raises LaunchError."""
    folder = _kernels_in(text, seen)
    found = run_library(Path(folder.name, "k.so"), [(launches, arrays, -1)], policy, **environment)[0]
    if isinstance(found, str):
        raise LaunchError(found)
    return found


@lru_cache(maxsize=8)
def _kernels_in(text, seen):
    """A temporary folder with k.so, the library of a .cu text, which several runs share."""
    folder = tempfile.TemporaryDirectory()
    build_kernels(text, Path(folder.name, "k.so"), seen)
    return folder


_CHILD = """
import ctypes, pickle, sys
import numpy as np
library, work = ctypes.CDLL(sys.argv[1]), sys.argv[2]
library.cudaGetErrorString.restype = ctypes.c_char_p
TO_DEVICE, TO_HOST = 1, 2
TYPES = {"uint8": 0, "int8": 0, "uint16": 1, "float16": 6, "bfloat16": 9, "float32": 7}

def encoded(at, matrix, box, swizzle):
    made = ctypes.create_string_buffer(128)
    longs, ints = (lambda *v: (ctypes.c_uint64 * len(v))(*v)), (lambda *v: (ctypes.c_uint32 * len(v))(*v))
    matrix = matrix.reshape(-1, matrix.shape[-1])
    code = library.cuTensorMapEncodeTiled(
        made, TYPES[matrix.dtype.name], 2, at, longs(*matrix.shape[::-1]), longs(matrix.strides[0]), ints(*box[::-1]),
        ints(1, 1), 0, (swizzle // 16).bit_length() - 1 if swizzle else 0, 0, 0)
    assert code == 0, "no such tensor map"
    return made

def argument(a, at, arrays):
    if isinstance(a, str):
        return at[a]
    if isinstance(a, tuple):
        return encoded(at[a[1]], arrays[a[1]], *a[2:])
    return ctypes.create_string_buffer(a.tobytes(), a.nbytes)

def call(launches, arrays, drop):
    library.emu_drop(drop)
    at = {}
    try:
        for name, a in arrays.items():
            at[name] = ctypes.c_void_p()
            library.emu_malloc(ctypes.byref(at[name]), ctypes.c_size_t(a.nbytes), name.encode())
            library.cudaMemcpy(at[name], ctypes.c_void_p(a.ctypes.data), ctypes.c_size_t(a.nbytes), TO_DEVICE)
        for name, grid, block, args, shared in launches:
            kept = [argument(a, at, arrays) for a in args]
            given = (ctypes.c_void_p * len(kept))(*(ctypes.addressof(k) for k in kept))
            extents = [(ctypes.c_uint * 3)(*[*e, 1, 1, 1][:3]) for e in (grid, block)]
            code = library.emu_run(name.encode(), *extents, given, ctypes.c_size_t(shared))
            if code:
                return f"launch of {name}: {library.cudaGetErrorString(code).decode()}"
        arrays = {n: np.empty_like(a) for n, a in arrays.items()}
        for name, a in arrays.items():
            library.cudaMemcpy(ctypes.c_void_p(a.ctypes.data), at[name], ctypes.c_size_t(a.nbytes), TO_HOST)
        return arrays
    finally:
        for a in at.values():
            library.cudaFree(a)

found = [call(*c) for c in pickle.load(open(work + "/in", "rb"))]
pickle.dump(found, open(work + "/out", "wb"))
"""
