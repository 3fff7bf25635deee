"""Running a compiled network between guard pages (guarded_run.py)."""
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

from ingot.runtime.binding import ABI

RUNNER = Path(__file__).with_name("guarded_run.py")


def run_guarded(library, feeds, folder, arenas=()):
    """Run a CompiledLibrary on `feeds` with guard pages around its arena, weights, inputs and outputs, which must be
    what a run here gives; fails where it touches anything outside. folder: for files. arenas: fractions of the bytes
    that it needs, with each of which it must refuse to run."""
    outputs = library.run(feeds)
    inputs = [np.asarray(feeds[d.source_name]) for d in library.inputs]
    sizes = {dim: size for d, a in zip(library.inputs, inputs) for dim, size in zip(d.shape, a.shape)
             if isinstance(dim, str)}
    binding = library._binding
    for kind, arrays in (("input", inputs), ("output", outputs.values())):
        for n, array in enumerate(arrays):
            np.save(folder / f"{kind}{n}.npy", np.ascontiguousarray(array))
    weights = library._folder / library.name / f"{library.name}_weights.bin"
    job = {"library": str(library._folder / f"{library.name}.so"), "name": library.name, "abi": ABI,
           "info_bytes": binding._ffi.sizeof("ingot_model_info"), "align": int(binding.info.arena_align),
           "dims": [sizes[d] for d in library.model.dims], "arenas": list(arenas),
           "weights": str(weights) if library.model.weights == "file" else None,
           "inputs": [str(folder / f"input{n}.npy") for n in range(len(inputs))],
           "outputs": [str(folder / f"output{n}.npy") for n in range(len(outputs))],
           "rooms": [spec.room(sizes).nbytes for spec in library._outputs], "found": len(library.model.found)}
    (folder / "job.json").write_text(json.dumps(job))
    done = subprocess.run([sys.executable, str(RUNNER), str(folder / "job.json")], capture_output=True, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "2"}, timeout=600)
    crash = f"killed by {signal.Signals(-done.returncode).name}" if done.returncode < 0 else done.stderr[-2000:]
    assert done.returncode == 0 and done.stdout == "ok\n", crash
