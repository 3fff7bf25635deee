"""make demo: SqueezeNet as the onnx package ships it, cast to C, built, run, and compared with its expected output."""
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
from rich.console import Console

import ingot

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
FOLDER = Path(__file__).resolve().parent.parent / "build" / "squeezenet"
RTOL, ATOL = 1e-3, 1e-7

console = Console(highlight=False)


def ramp(shape):
    """The input that belongs to the shipped output: a ramp from 0 to 1 (onnx.backend.test.runner)."""
    count = int(np.prod(shape))
    return (np.arange(count).reshape(shape) / count).astype(np.float32)


def expected_output():
    tensor = onnx.TensorProto()
    tensor.ParseFromString((LIGHT / "light_squeezenet_output_0.pb").read_bytes())
    return onnx.numpy_helper.to_array(tensor)


def step(text, action):
    """Run `action`, print what it was and how long it took, return its result."""
    start = time.perf_counter()
    with console.status(text):
        result = action()
    console.print(f"{text:<58} {time.perf_counter() - start:6.2f} s")
    return result


def make(*arguments):
    """make in the folder of C; its output is shown when it fails."""
    done = subprocess.run(["make", "-C", str(FOLDER), *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return done.stdout


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    library = step("casting light_squeezenet.onnx to C",
                   lambda: ingot.compile(LIGHT / "light_squeezenet.onnx", name="squeezenet"))
    step("writing the folder", lambda: library.export(FOLDER))
    step("building it with make and the system compiler", lambda: make("-j2"))
    step("running its self-test", lambda: make("check"))
    step("building it once more for Python", library.build)

    x = ramp(library.inputs[0].shape)
    found, expected = library(x), expected_output()
    timing = library.time(x, repeat=20)

    console.print("\nclass   probability   expected")
    for index in np.argsort(-found.ravel(), kind="stable")[:5]:
        console.print(f"{index:5}   {found.ravel()[index]:11.6f}   {expected.ravel()[index]:.6f}")
    error = np.abs(found - expected)
    right = bool(np.all(error <= ATOL + RTOL * np.abs(expected)))
    verdict = "within" if right else "NOT within"
    console.print(f"\nlargest error   {error.max():.2e} ({verdict} rtol {RTOL:g}, atol {ATOL:g})")
    console.print(f"time            {timing.median * 1e3:.2f} ms (median of {len(timing.times)} runs, least "
                  f"{timing.min * 1e3:.2f} ms)")
    console.print(f"the C           {FOLDER}", soft_wrap=True)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
