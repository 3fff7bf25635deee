"""onnx's node tests as CUDA C under the emulator: what passes on the CPU passes, or a ledger has the reason why not. No
kernel has a race or leaves its arrays.

A run takes some of them, other ones each day; INGOT_GPU_ALL=1 takes all. INGOT_GPU_REPORT=FILE has a line of each.

    INGOT_GPU_ALL=1 INGOT_UPDATE_LEDGER=1 python -m pytest tests/gpu/test_gpu_nodes.py

writes the ledger anew."""
import faulthandler
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "onnx_backend"))
import emulated  # noqa: E402
import ledger as ledgers  # noqa: E402
from node_cases import NOISE, PASSES, RANDOM, WRONG, all_cases, difference, reason  # noqa: E402

import ingot  # noqa: E402
from ingot.codegen.c_names import PROGRAMS  # noqa: E402
from ingot.runtime import cuda_library  # noqa: E402

pytestmark = pytest.mark.skipif(emulated.MISSING is not None, reason=str(emulated.MISSING))
LEDGER = Path(__file__).parents[1] / "onnx_backend" / "ledger.json"
ALL = os.environ.get("INGOT_GPU_ALL") == "1"
SEED = int(os.environ.get("INGOT_SEED", date.today().toordinal()))
PER_CHUNK, SAMPLE = 24, 48
SECONDS = 120  # that a chunk's networks may run
POLICY = os.environ.get("EMU_POLICY", ("up", "down", "shuffled late", "starving late")[SEED % 4])
STATIC = ("extent", "dim3")  # functions that each network has for itself
# Those that pass on the CPU: how many of them pass here, and {reason: names} of the others.
OWN_LEDGER = Path(__file__).with_name("node_ledger.json")
UPDATE = ALL and os.environ.get("INGOT_UPDATE_LEDGER") == "1"


def _names():
    passing = json.loads(LEDGER.read_text())["passes"]
    if ALL:
        return passing
    return sorted(np.random.default_rng(SEED).choice(passing, SAMPLE, replace=False).tolist())


NAMES = _names()


def compiled(case, name):
    """The library of a case, that of its first call where shapes are a call's, or why there is none."""
    try:
        library = ingot.compile(case.model, target="cuda-sm_80", weights="array", name=name)
        return library if hasattr(library, "model") else library.library_for(*case.data_sets[0][0])
    except Exception as error:  # noqa: BLE001  (what is raised is what is reported)
        return f"{WRONG}: {str(error)[:300]}" if "internal error" in str(error) else reason(error)


def build(libraries, folder):
    """One shared library of all networks, over the emulator's libcudart.so; returns the two."""
    units, host = [], [folder / "first" / "ingot.c"]
    for n, library in enumerate(libraries):
        own = folder / library.model.name
        library.model.write(own)
        for k, file in enumerate(sorted(own.glob("*.cu"))):
            text = emulated.translate(file.read_text(), f"{library.model.name}/{file.name}",
                                      sizes=emulated.sizes_of(library.model))
            own_names = [(f"ingot_{what}", f"{library.model.name}_{what}") for what in STATIC]
            own_names.append(("ingot_is_empty", f"{library.model.name}_{k}_is_empty"))
            units += [f"#define {a} {b}\n" for a, b in own_names] + [text] + [f"#undef {a}\n" for a, _ in own_names]
        host += [f for f in own.glob("*.c") if f.stem != "ingot" and not PROGRAMS.fullmatch(f.stem)]
        if n == 0:
            (folder / "first").symlink_to(own)
    (folder / "kernels.cpp").write_text("".join(units))
    include = [word for library in libraries for word in ("-I", folder / library.model.name)]

    def run(command):
        done = subprocess.run([*map(str, command)], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:3000]

    cudart_path, out = folder / "libcudart.so", folder / "networks.so"
    run(["c++", "-shared", *emulated.emulator(), "-ldl", "-o", cudart_path])
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(run, ["c++", *emulated.FLAGS, *emulated.SEEN, "-O0", *include, "-c", "kernels.cpp", "-o",
                                  "kernels.o"])]
        jobs += [pool.submit(run, ["cc", "-std=c99", "-O0", "-fPIC", "-w", "-I", emulated.EMU / "include", "-c", f,
                                   "-o", f"{k}.host.o"]) for k, f in enumerate(host)]
        for job in jobs:
            job.result()
    run(["c++", "-shared", "-Wl,-z,noexecstack", "kernels.o", *(f"{k}.host.o" for k in range(len(host))), cudart_path,
         f"-Wl,-rpath,{folder}", "-o", out])
    return cudart_path, out


def outcome(case, library):
    """PASSES, or WRONG and what differs."""
    for number, (inputs, outputs) in enumerate(case.data_sets):
        try:
            found = library(*inputs)
        except Exception as error:  # noqa: BLE001
            return f"{WRONG}: data set {number}: {type(error).__name__}: {str(error)[:200]}"
        found = list(found) if isinstance(found, tuple) else [found]
        if RANDOM.match(case.name):
            outputs = [f.astype(o.dtype).reshape(o.shape) for f, o in zip(found, outputs) if f.shape == o.shape]
        halves = any(getattr(o, "dtype", "") == np.float16 for o in outputs)  # may be two units in the last place off
        rtol = max(case.rtol, 2 * np.finfo(np.float16).eps) if halves else case.rtol
        if error := difference(outputs, found, rtol, NOISE.get(case.name, case.atol)):
            return f"{WRONG}: data set {number}: {error}"
    return PASSES


def _run_here(cases, libraries, folder, cudart_path, out):
    """The child: two lines of the report for each case, what it is should the process end, and what it is."""
    faulthandler.dump_traceback_later(SECONDS, exit=True, file=open(folder / "hang", "w"))
    os.environ.update(INGOT_CUDART=str(cudart_path), EMU_POLICY=POLICY)
    cuda_library.build_shared = lambda *_: out
    with open(folder / "report", "w", buffering=1) as file:
        for name, library in libraries.items():
            print(json.dumps([name, f"{WRONG}: it ended the process"]), file=file)
            print(json.dumps([name, outcome(cases[name], library)]), file=file)


def run_all(cases, libraries, folder):
    """{name: outcome}, of a process of its own: what a kernel breaks is that one's."""
    cudart_path, out = build(list(libraries.values()), folder)
    child = os.fork()
    if not child:
        try:
            _run_here(cases, libraries, folder, cudart_path, out)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    return dict(map(json.loads, (folder / "report").read_text().splitlines()))


@pytest.mark.parametrize("chunk", range(-(-len(NAMES) // PER_CHUNK)))
def test_node_tests(chunk, tmp_path):
    cases = all_cases()
    found, libraries = {}, {}
    for n, name in enumerate(NAMES[chunk * PER_CHUNK:][:PER_CHUNK]):
        made = compiled(cases[name], f"node{n}")
        (found if isinstance(made, str) else libraries)[name] = made
    found.update(run_all(cases, libraries, tmp_path) if libraries else {})
    if path := os.environ.get("INGOT_GPU_REPORT"):
        with open(path, "a") as file:
            file.writelines(f"{name}\t{is_now}\n" for name, is_now in found.items())
    if UPDATE:
        update_ledger(found)
    refused = _refused()
    lines = [f"{name}: {is_now}, not: {was}" for name, is_now in found.items()
             if is_now != (was := refused.get(name, PASSES))]
    assert not lines, "\n".join(lines)


def _refused():
    """{name: why} of the ledger."""
    return {name: why for why, names in json.loads(OWN_LEDGER.read_text())["refused"].items() for name in names}


def update_ledger(found):
    """Put what was found in the ledger, which other processes update too."""
    with ledgers.locked(OWN_LEDGER):
        kept, passing = _refused() if OWN_LEDGER.exists() else {}, json.loads(LEDGER.read_text())
        now = {**kept, **{n: why for n, why in found.items() if not why.startswith(WRONG)}}
        listed = {}
        for name in passing["passes"]:
            if (why := now.get(name, PASSES)) != PASSES:
                listed.setdefault(why, []).append(name)
        count = len(passing["passes"]) - sum(map(len, listed.values()))
        ledgers.write(OWN_LEDGER, {"onnx": passing["onnx"], "passes": count, "refused": listed})


def test_the_ledger_counts_what_passes_on_the_cpu():
    own, passing = json.loads(OWN_LEDGER.read_text()), json.loads(LEDGER.read_text())
    assert own["onnx"] == passing["onnx"]
    assert own["passes"] + len(_refused()) == len(passing["passes"]) and set(_refused()) <= set(passing["passes"])
