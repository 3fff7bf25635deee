"""make demo: trains a small network on handwritten digits, compiles it to C, builds it, and shows the program pictures.

Everything is made here in seconds: the network by examples/digits.py, the C by Ingot, the program from
examples/c/main.c by the system's compiler. The network runs in float32.
"""
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples"))

import digits  # noqa: E402
import ingot  # noqa: E402
from ingot.ir.relax.evaluate import evaluate  # noqa: E402
from sides import PEERS, ingot_run, installed  # noqa: E402

FOLDER = ROOT / "build" / "demo"
SHOWN = (7, 3, 0)    # digits, of each the first picture
LEAST_RIGHT = 0.95   # of those that training did not see
TOLERANCE = 1e-5     # of scores, which are at most 1
RUNS, ROUNDS = 2000, 7  # of a run's time: the least mean of so many runs

console = Console(highlight=False)


def step(text, action):
    """Run `action`, print what it was and how long it took, return its result."""
    start = time.perf_counter()
    with console.status(text):
        result = action()
    console.print(f"{text:<62} {time.perf_counter() - start:6.2f} s")
    return result


def command(*words):
    """Standard output of a command; all of its output, and the end, when it fails."""
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return done.stdout


def build_program(folder):
    """The path of examples/c/main.c, built with the network in `folder`."""
    program = folder.parent / "digit"
    command("cc", "-std=c99", "-O2", f"-I{folder}", ROOT / "examples" / "c" / "main.c", folder / "libdigits.a", "-lm",
            "-o", program)
    return program


def microseconds(run):
    """Time one run with bound inputs and outputs: the least mean of several rounds."""
    def once():
        start = time.perf_counter()
        for _ in range(RUNS):
            run.call()
        return (time.perf_counter() - start) / RUNS
    return min(once() for _ in range(ROUNDS)) * 1e6


def answer(scores):
    """'7 (99.5 %)'."""
    best = int(np.argmax(scores))
    return f"{best} ({scores.ravel()[best]:.1%})"


def show(program, image, label, model, peers):
    """Print one picture, what the C program says that it is, and what the peers say."""
    picture = FOLDER / "picture.pgm"
    digits.write_pgm(picture, image[0, 0])
    console.print(f"\n{digits.ascii_picture(image[0, 0])}", markup=False)
    console.print(f"the C program: {command(program, picture).strip()}; its label is {label}", markup=False)
    for name in peers:
        run = PEERS[name](model, {"image": image}, 1)
        run.call()
        console.print(f"{name}: {answer(run.outputs()[0])}")
        run.close()


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    seen, unseen = digits.load_pictures()
    weights = step(f"training a small CNN on {len(seen.labels)} pictures of digits", lambda: digits.train(seen))
    model = digits.onnx_model(weights)
    onnx.save(model, FOLDER / "digits.onnx")
    library = step("compiling digits.onnx to C",
                   lambda: ingot.compile(FOLDER / "digits.onnx", name="digits", threads="none"))
    folder = library.export(FOLDER / "digits")
    step("building it with make and the system's compiler", lambda: command("make", "-C", folder, "-j2"))
    step("running its self-test", lambda: command("make", "-C", folder, "check"))
    program = step("building examples/c/main.c with it", lambda: build_program(folder))
    step("building it once more for Python", library.build)

    peers = installed(["onnxruntime"])
    for digit in SHOWN:
        show(program, unseen.images[unseen.labels == digit][:1], digit, model, peers)

    scores = np.concatenate([library(image[None]) for image in unseen.images])
    graph = ingot.from_onnx(model)
    error = max(float(np.abs(evaluate(graph, (image[None],)) - found).max())
                for image, found in zip(unseen.images, scores))
    right = digits.accuracy(scores, unseen.labels)
    image = {"image": unseen.images[:1]}
    times = {"Ingot": microseconds(ingot_run(library, image)),
             **{name: microseconds(PEERS[name](model, image, 1)) for name in peers}}
    console.print(f"\nright answers   {right:.1%} of {len(scores)} pictures that training did not see")
    console.print(f"largest error   {error:.1e} of a score, against a reference evaluation")
    console.print("time of a run   " + ", ".join(f"{name} {us:.1f} us" for name, us in times.items())
                  + " (one thread, called from Python)", soft_wrap=True)
    console.print(f"the C           {folder}", soft_wrap=True)
    return 0 if right >= LEAST_RIGHT and error <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
