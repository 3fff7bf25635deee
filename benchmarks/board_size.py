"""Text, weights and RAM of networks for a microcontroller beside those of emx-onnx-cgen, by the same compiler and flags.
Nothing runs.

    python benchmarks/board_size.py --emx /tmp/emx/bin/emx-onnx-cgen
    python benchmarks/board_size.py net_int8.onnx --target cortex-m4f --optimize 3 s

Without networks: the tiny ones of the zoo. Text is that of the network's functions as the compiler made them. RAM is the
arena and the bound of the stack; emx has its temporaries on the stack, whose frames are added up along a chain of two,
the network's function and the largest of those that it calls. `python -m venv /tmp/emx && /tmp/emx/bin/pip install
emx-onnx-cgen` installs emx; without it its columns are empty.
"""
from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import onnx
from measure import ZOO, Models, markdown_table

import ingot
from ingot.codegen.toolchain import missing_tools
from ingot.codegen.toolchains import toolchain
from ingot.ir.target import Target

NETWORKS = ("tiny_resnet8", "tiny_dscnn", "tiny_vww", "tiny_autoencoder", "kws_gru_lstm")
EMX = ("--large-temp-threshold", "0", "--large-weight-threshold", "0", "--emit-data-file", "--model-name", "network")


def built(sources, target, level, folder):
    """(text, constants) in bytes of C sources, and the sizes of their frames, the largest first."""
    row, objects, frames = toolchain(Target.get(target)), [], []
    flags = [f"-O{level}" if flag.startswith("-O") else flag for flag in row.cflags]
    for source in sources:
        made = Path(folder, f"{source.stem}.o")
        subprocess.run([row.cc[0], "-std=c99", *flags, *row.gcc_cflags, "-fstack-usage", f"-I{source.parent}", "-c",
                        str(source), "-o", str(made)], check=True, capture_output=True)
        objects.append(str(made))
        frames += [int(line.split("\t")[1]) for line in made.with_suffix(".su").read_text().splitlines()]
    sizes = subprocess.run([row.cc[0].replace("gcc", "size"), "-A", *objects], check=True, capture_output=True, text=True)
    sections = [line.split() for line in sizes.stdout.splitlines() if line.startswith((".text", ".rodata"))]
    text, constants = (sum(int(size) for name, size, *_ in sections if name.startswith(kind))
                       for kind in (".text", ".rodata"))
    return text, constants, sorted(frames, reverse=True)


def of_ingot(path, target, level, folder):
    """(text, constants, RAM) of a network."""
    model = ingot.compile(str(path), target=target, name="network")
    model.export(Path(folder, "ingot"))
    names = {"network.c", "network_weights.c", "ingot.c"}
    sources = [f for f in sorted(Path(folder, "ingot").glob("*.c")) if f.name in names or "_kernels_" in f.name]
    text, constants, _ = built(sources, target, level, folder)
    return text, constants, model.model.arena_bytes + model.model.stack


def of_emx(emx, path, target, level, folder):
    """The same of emx's; None where it fails."""
    if not emx:
        return None
    where = Path(folder, "emx")
    where.mkdir()
    made = subprocess.run([emx, "compile", str(path), str(where / "network.c"), *EMX], capture_output=True, text=True)
    if made.returncode:
        print(f"emx: {path.name}: {(made.stderr or made.stdout).strip().splitlines()[-1]}", file=sys.stderr)
        return None
    text, constants, frames = built(sorted(where.glob("*.c")), target, level, folder)
    return text, constants, sum(frames[:2])


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL.onnx")
    parser.add_argument("--zoo", type=Path, default=ZOO, metavar="DIR", help="the folder of networks, with zoo.py")
    parser.add_argument("--target", default="cortex-m4f")
    parser.add_argument("--optimize", nargs="+", default=["3", "2", "s"], metavar="LEVEL", help="of gcc (default: 3 2 s)")
    parser.add_argument("--emx", default=shutil.which("emx-onnx-cgen"), metavar="FILE", help="the program of emx")
    args = parser.parse_args(argv)
    if missing := missing_tools(args.target):
        parser.error(missing)
    if not args.emx:
        print("emx-onnx-cgen is not installed: its columns are empty", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        paths, models = list(args.models), Models(args.zoo)
        for name in () if paths else (name for name in NETWORKS if name in models.names()):
            paths.append(Path(folder, f"{name}.onnx"))
            onnx.save(models.load(name), paths[-1])
        rows = []
        for path in paths:
            for level in args.optimize:
                both = []
                for side in (of_ingot, partial(of_emx, args.emx)):
                    with tempfile.TemporaryDirectory() as own:
                        both.append(side(path, args.target, level, own))
                pairs = (" / ".join("-" if side is None else f"{side[n]:,}" for side in both) for n in range(3))
                rows.append([path.stem, f"-O{level}", *pairs])
                print(*rows[-1], file=sys.stderr)
    print("\n".join(markdown_table(["network", "level", "text", "constants", "RAM"], rows, left=2)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
