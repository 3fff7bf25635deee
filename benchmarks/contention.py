"""A network beside processes that keep cores busy: how long a run takes, on one thread and on two.

    python benchmarks/contention.py
    python benchmarks/contention.py --models efficientnet_b0 resnet50 --busy 0 1 2 --seconds 3 --compilers gcc clang

A C program that links the generated library, built by `cc -fopenmp`, runs without environment variables and with
OMP_WAIT_POLICY and GOMP_SPINCOUNT; the same model in onnxruntime, in a process of its own. Each side is measured in
turns beside the same busy processes, which are pinned nowhere; a row holds medians of all rounds in milliseconds.
Models have one float input and one float output of known shapes.
"""
from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import ZOO, Models

import ingot

PROGRAM = r"""
#define _POSIX_C_SOURCE 200112L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include HEADER
#define JOINED_(a, b) a##b
#define JOINED(a, b) JOINED_(a, b)
#define OF(x) JOINED(NAME, x)
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}
static size_t size(const ingot_tensor_info *t)
{
    size_t n = 1;
    for (int i = 0; i < t->ndim; ++i) n *= (size_t)t->dims[i];
    return n;
}
int main(int argc, char **argv)
{
    const size_t in = size(OF(_info).inputs), out = size(OF(_info).outputs), bytes = (size_t)OF(_info).arena_bytes;
    float *x = malloc(in * sizeof *x), *y = malloc(out * sizeof *y);
    const double end = now() + 1e3 * atof(argv[argc - 1]);
    void *arena;
    NAME *net;
    for (size_t i = 0; i < in; ++i) x[i] = (float)(i % 17) / 17.0f;
    if (posix_memalign(&arena, 64, bytes) || OF(_init)(&net, arena, bytes) || OF(_run)(net, x, y)) return 1;
    for (int n = 0; now() < end || n < 3; ++n) {
        const double start = now();
        if (OF(_run)(net, x, y)) return 2;
        printf("%.6f\n", now() - start);
    }
    return 0;
}
"""
PEER = """
import sys, time, numpy as np, onnxruntime as ort
options = ort.SessionOptions()
options.intra_op_num_threads, options.log_severity_level = int(sys.argv[2]), 3
session = ort.InferenceSession(sys.argv[1], options)
x, = session.get_inputs()
feeds = {x.name: (np.arange(np.prod(x.shape)) % 17 / 17).astype(np.float32).reshape(x.shape)}
session.run(None, feeds)
end, n = time.perf_counter() + float(sys.argv[3]), 0
while time.perf_counter() < end or n < 3:
    start, n = time.perf_counter(), n + 1
    session.run(None, feeds)
    print(1e3 * (time.perf_counter() - start))
"""
SETTINGS = {"": {}, "passive": {"OMP_WAIT_POLICY": "passive"}, "active": {"OMP_WAIT_POLICY": "active"},
            "spins": {"GOMP_SPINCOUNT": "10000"}}
BUSY = "while True: pass"


def sides(model, name, folder, compilers):
    """{side: (command, environment)} of one model; the last argument of a command, the seconds, is to be added."""
    import onnx
    onnx.save(model, str(folder / "model.onnx"))
    found = {}
    (folder / "main.c").write_text(PROGRAM)
    for threads, kind in ((1, "none"), (2, "openmp")):
        with ingot.compile(model, name=name, threads=kind) as library:
            source = library.export(folder / kind)
        for compiler in compilers[:1] if threads == 1 else compilers:
            program, openmp = folder / f"{compiler}{threads}", ["-fopenmp"] if threads == 2 else []
            for command in (["make", "-s", "-C", source, "clean"],
                            ["make", "-s", "-C", source, f"lib{name}.a", f"CC={compiler}"],
                            [compiler, "-O2", f"-I{source}", f"-DNAME={name}", f'-DHEADER="{name}.h"',
                             folder / "main.c",
                             source / f"lib{name}.a", "-lm", *openmp, "-o", program]):
                subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
            for setting, env in SETTINGS.items() if threads == 2 else [("", {})]:
                label = f"Ingot {threads}" + (f" {compiler} {setting}".rstrip() if threads == 2 else "")
                found[label] = [str(program)], {"OMP_NUM_THREADS": "2", **env}
    for threads in (1, 2):
        found[f"onnxruntime {threads}"] = (
            [sys.executable, "-c", PEER, str(folder / "model.onnx"), str(threads)], {})
    return found


def measured(found, busy, rounds, seconds):
    """{side: median ms} beside so many busy processes, the sides in turns."""
    times = {side: [] for side in found}
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
    hogs = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(busy)]
    try:
        for _ in range(rounds):
            for side, (command, env) in found.items():
                done = subprocess.run([*command, str(seconds)], env={**plain, **env}, capture_output=True, text=True,
                                      check=True)
                times[side] += map(float, done.stdout.split())
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    return {side: statistics.median(values) for side, values in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["efficientnet_b0"])
    parser.add_argument("--zoo", type=Path, default=ZOO, metavar="DIR")
    parser.add_argument("--busy", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--compilers", nargs="+", default=["gcc"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each side in a round")
    args = parser.parse_args()
    models = Models(args.zoo)
    for name in args.models:
        with tempfile.TemporaryDirectory(prefix="ingot-") as folder:
            found = sides(models.load(name), name, Path(folder), args.compilers)
            columns = {busy: measured(found, busy, args.rounds, args.seconds) for busy in args.busy}
        print(f"\n{name}: medians in ms, and times one thread of Ingot's\n")
        print("| side | " + " | ".join(f"{busy} busy" for busy in columns) + " |")
        print("|---|" + "---:|" * len(columns))
        for side in found:
            cells = [f"{row[side]:.2f} ({row[side] / row['Ingot 1']:.2f})" for row in columns.values()]
            print(f"| {side} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
