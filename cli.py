"""The command line: ingot compile | run | verify | bench | inspect | quantize. It parses, calls the package, prints."""
from __future__ import annotations

import argparse
import io
import json
import os
import signal
import sys
import threading
import traceback
import warnings
from contextlib import contextmanager
from pathlib import Path

EXIT_MISMATCH, EXIT_ERROR = 1, 2
EXIT_SIGNAL = 128  # plus the number of the signal
ENDING = (signal.SIGTERM, signal.SIGHUP)  # signals that end a command as an interrupt does
PROFILE_WIDTH = 150  # of a profile that is written to a file
PACKAGES = ("zephyr", "esp-idf", "arduino", "platformio", "cmsis-pack", "conan")
STAGES = ("relax", "fused", "tir", "scheduled", "plans", "traces", "accuracy", "program", "c")

EXAMPLES = {
    None: """examples:
  ingot compile squeezenet.onnx -o build/squeezenet     a folder of C with a Makefile
  ingot compile net.onnx -o out --single-file           one .c and one .h instead
  ingot run net.onnx --input data=image.npy             one inference, here and now
  ingot verify net.onnx                                 every intermediate tensor against a reference
  ingot bench net.onnx                                  milliseconds
  ingot inspect net.onnx --stage fused                  the program on its way down""",
    "compile": """examples:
  ingot compile squeezenet.onnx -o build/squeezenet
  ingot compile net.onnx -o out --target aarch64-linux-gnu --threads none
  ingot compile net.onnx -o out --target x86-64-v2+x86-64-v3+x86-64-v4    the best that a processor runs
  ingot compile net.onnx -o out --target cuda-sm_80       a folder that nvcc builds
  ingot compile squeezenet.onnx -o out --single-file       out/squeezenet.c and out/squeezenet.h, and nothing else
  ingot compile bert.onnx -o bert --dim batch=1 --dim seq=128 --weights file""",
    "run": """examples:
  ingot run net.onnx --input data=image.npy
  ingot run net.onnx --input data=image.npy --save out    writes out/NAME.npy for every output""",
    "verify": """examples:
  ingot verify net.onnx
  ingot verify net.onnx --input data=image.npy --tolerance 1e-5
  ingot verify net.onnx --target cortex-m4f    what a board would compute, under QEMU
  ingot verify net.onnx --target cortex-m4f --folder out          a folder for a board; when it runs there:
  ingot verify net.onnx --target cortex-m4f --board /dev/ttyACM0""",
    "bench": """examples:
  ingot bench net.onnx
  OMP_NUM_THREADS=1 ingot bench net.onnx --repeat 100
  ingot bench net.onnx --threads none --profile --top 10
  ingot bench net.onnx --target cortex-m4f     instructions of each kernel, under QEMU""",
    "quantize": """examples:
  ingot quantize net.onnx --data calibration.npz -o net_int8.onnx
  ingot quantize net.onnx --data samples/ -o net_int8.onnx --target cortex-m4f --activations int8 --keep-float 2""",
    "inspect": """examples:
  ingot inspect net.onnx                       the graph, with shapes
  ingot inspect net.onnx --stage scheduled     the loops of every kernel
  ingot inspect net.onnx --stage c --kernel conv1
  ingot inspect net.onnx --stage plans         what is decided for kernels; change some, and compile with --schedules
  ingot inspect net.onnx --stage traces        every step of their schedules, likewise
  ingot inspect net.onnx --stage accuracy      the bounds of errors of kernels that sum products
  ingot inspect net.onnx --stage program       the calls of a run, who makes them, and the lives of buffers
  ingot inspect net.onnx --memory              bytes, life and place of every buffer""",
}


class UsageError(ValueError):
    """A wrong command line."""


class Ended(BaseException):
    """A signal asks the process to end. signum: its number."""

    def __init__(self, signum):
        super().__init__(signum)
        self.signum = signum


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise UsageError(f"{message} (see {self.prog} --help)")


# ---- arguments ----------------------------------------------------------------------------------------------------

def build_parser():
    """The whole command line as an argparse parser; `args.action` is the function to call."""
    parser = _Parser(prog="ingot", description="Casts neural networks into readable, standalone, fast C.",
                     epilog=EXAMPLES[None], formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(metavar="COMMAND", parser_class=_Parser)

    def command(name, action, description):
        sub = commands.add_parser(name, help=description[0].lower() + description[1:].rstrip("."),
                                  description=description, epilog=EXAMPLES[name],
                                  formatter_class=argparse.RawDescriptionHelpFormatter)
        sub.set_defaults(action=action)
        sub.add_argument("model", metavar="MODEL", help="an ONNX file")
        # Without a default here, so that --debug before the command's name is kept.
        sub.add_argument("--debug", action="store_true", default=argparse.SUPPRESS,
                         help="show the traceback of an error")
        _add_options(sub)
        return sub

    sub = command("compile", compile_command, "Write a folder of C that builds with make.")
    sub.add_argument("-o", "--output", metavar="DIR", required=True, help="the folder to write; new or empty")
    sub.add_argument("--single-file", action="store_true", help="write one .c, with the kernels, the weights as arrays "
                     "and what they use of the runtime, all static, and one .h; --weights file or extern keeps the "
                     "weights outside")

    sub.add_argument("--package", choices=PACKAGES, help="the folder as others take it in: a zephyr module, an esp-idf "
                     "component, an arduino or platformio library, a cmsis-pack, a conan recipe (docs/packages.md)")
    sub.add_argument("--sbom", action="store_true", help="also write a bill of materials, NAME.spdx.json; --package "
                     "does it anyway")

    sub = command("run", run_command, "Run a network on given inputs and print its outputs.")
    _add_inputs(sub)
    sub.add_argument("--save", metavar="DIR", help="write every output to DIR/NAME.npy")

    sub = command("verify", verify_command, "Compare every intermediate tensor with a reference evaluation.")
    _add_inputs(sub)
    sub.add_argument("--tolerance", type=_positive(float), default=1e-4, metavar="X",
                     help="largest error, relative to a tensor's largest magnitude (default: %(default)g)")

    sub.add_argument("--folder", metavar="DIR", help="write the network whose outputs are all tensors instead, for a "
                     "board to run")
    _add_board(sub)

    sub = command("bench", bench_command, "Measure how long a run takes.")
    _add_board(sub)
    _add_inputs(sub)
    sub.add_argument("--repeat", type=_positive(int), default=20, metavar="N", help="timed runs (default: %(default)s)")
    sub.add_argument("--profile", action="store_true", help="time, work and roofline of every kernel")
    sub.add_argument("--top", type=_positive(int), metavar="N", help="of a profile only the N longest kernels")

    sub = command("inspect", inspect_command, "Print the program at a stage of its way down, or its memory plan.")
    which = sub.add_mutually_exclusive_group()
    which.add_argument("--stage", choices=STAGES, default="relax", help="default: %(default)s")
    sub.add_argument("--kernel", metavar="NAME", help="only this kernel: its name in the C, or that of a model node")
    which.add_argument("--memory", action="store_true", help="per buffer: bytes, life, offset")

    sub = command("quantize", quantize_command, "Write a network of 8-bit integers, and say what it loses and saves.")
    sub.add_argument("-o", "--output", metavar="Q.onnx", required=True, help="the file to write")
    sub.add_argument("--data", metavar="DATA", required=True, help="inputs to calibrate on: an .npz of arrays [N, ...] "
                     "by the names of inputs, or a folder of .npz files of one sample each")
    sub.add_argument("--keep-float", type=_positive(int), default=0, metavar="N",
                     help="keep the N nodes float that lose most")
    sub.add_argument("--activations", choices=("uint8", "int8", "int16"), default="uint8", help="default: %(default)s")
    sub.add_argument("--per-tensor", action="store_true", help="one scale for all weights of a node, not one for each "
                     "output channel")
    sub.add_argument("--integer-io", action="store_true", help="inputs and outputs are integers, too; prints their scales")
    sub.add_argument("--top", type=_positive(int), metavar="N", help="of the layers only the N worst")
    return parser


def _add_options(sub):
    sub.add_argument("--target", default="host", metavar="T", help="the machine to cast for (default: this one): "
                     "x86-64-v2 to -v4, aarch64-linux-gnu, cortex-m0plus to -m85, rv32imafc, wasm32, c, a GPU "
                     "(cuda, opencl) ...; docs/command-line.md has all; compile takes several: A+B")
    sub.add_argument("--threads", choices=("openmp", "none"), help="default: openmp, without a system none")
    sub.add_argument("--weights", choices=("incbin", "array", "file", "extern", "stream"),
                     help="where weights live: a binary file that the assembler embeds, a C array, a file that the "
                     "program loads, memory of the caller's, or flash that a run reads by a function of the "
                     "caller's (default: incbin, without a system array)")
    sub.add_argument("--name", metavar="N", help="the C prefix (default: from the file name)")
    sub.add_argument("--opt-level", type=int, choices=(0, 1, 2), default=2, help="default: %(default)s")
    sub.add_argument("--byte-order", choices=("little", "big"), help="how the target keeps numbers in memory, where "
                     "its name does not say it; weights in a C array are right in both")
    sub.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), default="float32", help="what a float32 "
                     "model is computed in, with sums of float32 (default: %(default)s)")
    sub.add_argument("--arithmetic", choices=("fp16",), help="compute float16 in vectors of float16, sums among it, on "
                     "targets that can: half as many instructions, errors of 2^-11 a term (default: in float32)")
    sub.add_argument("--requantize", choices=("float", "fixed"), default="float", help="how sums of quantized tensors "
                     "are scaled: by floats, as onnxruntime does, or by integers and shifts, as CMSIS-NN does, for "
                     "cores without floats (default: %(default)s)")
    sub.add_argument("--accuracy", choices=("float32", "strict", "relaxed"), default=None, help="float32 (default): "
                     "every product as near as sums of float32 are, whatever the sizes of its terms; strict: also no "
                     "Winograd, one FMA a term; relaxed: faster arithmetics too, which are as near where "
                     "numbers are of similar size")
    sub.add_argument("--exact", action="store_true", help="deprecated: --accuracy strict")
    sub.add_argument("--algorithms", type=_recorded, metavar="FILE.json", help="which algorithm computes which "
                     'convolution, by the names of their nodes: {"conv1": "direct", "conv2": "winograd4"}; default: '
                     "what is predicted to be fastest")
    sub.add_argument("--schedules", type=_recorded, metavar="FILE.json", help="the schedules of kernels, by their "
                     "names, as inspect --stage plans or traces prints them; default: by rules")
    sub.add_argument("--stack-limit", type=_bytes, metavar="BYTES",
                     help="of stack, that a run may take of each "
                     "thread, as all BYTES with K, M or G behind (default: 16K, for the target c and microcontrollers "
                     "2K)")
    sub.add_argument("--ram-limit", type=_bytes, metavar="BYTES", help="of RAM, that arena, stack, inputs and outputs "
                     "may take together: large images in bands of rows, without what needs more, or an error with the "
                     "least and the layer that sets it")
    sub.add_argument("--flash-limit", type=_bytes, metavar="BYTES", help="of flash, that weights as they are stored "
                     "may take, beside the code, which is not counted: without larger, faster forms, or an error")
    sub.add_argument("--weight-groups", type=_positive(int), default=1, metavar="N", help="divide embedded weights "
                     "among N files, in the order of layers, so that a linker script can place each (default: 1)")
    if sub.prog.endswith("inspect"):  # whose --memory is what it prints
        sub.set_defaults(memories=None)
    else:
        sub.add_argument("--memory", dest="memories", metavar="NAME=BYTES,...",
                         help="memories of a board that the arena is spread over, the fastest first: "
                         "dtcm=64K,sram=256K,psram=8M; NAME_init takes each")
    sub.add_argument("--dim", action="append", default=[], type=_dim_or_sum, metavar="NAME=N",
                     help="give a symbolic dimension a value, or an expression of others by + * and //; may be repeated")
    sub.add_argument("--bound", action="append", default=[], type=_dim, metavar="NAME=N",
                     help="say how large a dimension is at most; one that callers pass may then be 0; may be repeated")
    sub.add_argument("--alias", action="append", default=[], type=_alias, metavar="OUTPUT=INPUT",
                     help="keep an output, an input with more rows, in that input's memory, as caches are kept: "
                     "present.*=past_key_values.*; --bound says for how many rows that has room; may be repeated")
    sub.add_argument("--shape", action="append", default=[], type=_shape, metavar="NAME=N,N",
                     help='the shape of an input that the model does not declare; "N,N;N,N" of the elements of a '
                     'sequence, "none" of an optional value that is absent; may be repeated')


def _add_inputs(sub):
    sub.add_argument("--input", action="append", default=[], type=_input, metavar="NAME=FILE.npy",
                     help="an input; may be repeated")


def _add_board(sub):
    sub.add_argument("--board", "--serial", metavar="PORT", help="run the network on a board, which answers by Ingot's "
                     "board protocol: /dev/ttyACM0, COM3@921600, tcp:HOST:PORT, or exec:COMMAND for a process")


def _dim(text):
    name, _, value = text.rpartition("=")
    if not name or not value.isdigit() or int(value) < 1:
        raise argparse.ArgumentTypeError(f"expected NAME=N with N >= 1, not {text!r}")
    return name, int(value)


def _dim_or_sum(text):
    name, _, value = text.partition("=")
    known = text.rpartition("=")[2].isdigit()  # a name may hold a "="
    return (name, value) if name and value and not known else _dim(text)


def _alias(text):
    output, _, given = text.partition("=")
    if not output or not given:
        raise argparse.ArgumentTypeError(f"expected OUTPUT=INPUT, not {text!r}")
    return output, given


def _shape(text):
    name, _, value = text.rpartition("=")
    shapes = [tuple(_extent(d.strip()) for d in part.split(",") if d.strip()) for part in value.split(";")]
    if not name:
        raise argparse.ArgumentTypeError(f'expected NAME=N,N, NAME="N,N;N,N" or NAME=none, not {text!r}')
    return name, None if value == "none" else shapes[0] if len(shapes) == 1 else shapes[:len(shapes) - (not shapes[-1])]


def _extent(text):
    """A size, or the name of a symbolic dimension."""
    return int(text) if text.isdigit() else text


def _recorded(path):
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"cannot read {path} as JSON: {error}") from None


def _input(text):
    name, _, file = text.partition("=")
    if not name or not file:
        raise argparse.ArgumentTypeError(f"expected NAME=FILE.npy, not {text!r}")
    return name, file


def _bytes(text):
    from .codegen.limits import bytes_of
    try:
        return bytes_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _positive(kind):
    def parse(text):
        value = kind(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"must be positive, not {text}")
        return value
    parse.__name__ = kind.__name__  # argparse names the type in its own messages
    return parse


# ---- commands -----------------------------------------------------------------------------------------------------

# Imports are local so that --help and wrong arguments answer at once.

def compile_command(args, console):
    from . import compile as cast
    from .codegen.output_folder import check_folder
    check_folder(args.output)  # what the writer would refuse after all the work
    with _progress(f"casting {args.model}"):
        library = cast(args.model, **_options(args))
        folder = library.export(args.output, single_file=args.single_file, package=args.package,
                                sbom=args.sbom)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    how = (f"{library.name}.c says how to build it" if args.single_file else
           f"README.md says how {args.package} takes it" if args.package else f"build it with make -C {folder}")
    console.print(f"{folder}: {library.name} for {args.target}, {size / 1e6:.1f} MB; {how}",
                  highlight=False, markup=False, soft_wrap=True)


def run_command(args, console):
    from . import compile as cast
    from .runtime.shapes import shape_text
    feeds = _read_inputs(args.input)
    with _progress(f"casting {args.model}"):
        library = cast(args.model, **_options(args))
    with _progress("building"):
        library.build()
    outputs = library.run(feeds)
    table = _table("output", "shape", "dtype", ">min", ">mean", ">max")
    for name, array in outputs.items():
        table.add_row(name, shape_text(array.shape), str(array.dtype), *_statistics(array))
    console.print(table)
    if args.save:
        _save(outputs, Path(args.save))


def verify_command(args, console):
    from . import verified_folder, verify
    if args.folder:
        with _progress(f"casting {args.model}"):
            folder = verified_folder(args.model, args.folder, **_options(args))
        console.print(f"{folder}: the network whose outputs are all tensors; a board that runs it is verified by "
                      "--board", highlight=False, markup=False, soft_wrap=True)
        return 0
    with _progress(f"verifying {args.model}"):
        report = verify(args.model, _read_inputs(args.input) or None, tolerance=args.tolerance, board=args.board,
                        **_options(args))
    console.print(report.table(), report.summary(), sep="\n", highlight=False)
    return 0 if report.ok else EXIT_MISMATCH


def bench_command(args, console):
    from . import compile as cast
    from .codegen.target import Target
    from .runtime.emulated import is_emulated
    from .runtime.sample import sample_inputs
    from .runtime.shapes import inputs_by_name
    with _progress(f"casting {args.model}"):
        library = cast(args.model, **_options(args))
    if args.board or is_emulated(library.model.target):
        _print_count(library.model, args, console)
        return
    with _progress("building"):
        library.build()
    feeds = {**sample_inputs(library.inputs), **_read_inputs(args.input)}
    arrays = inputs_by_name(library.inputs, feeds)
    if args.profile:
        with _progress(f"{args.repeat} runs with hooks"):
            profile = library.profile(*arrays, repeat=args.repeat)
    with _progress(f"{args.repeat} runs"):
        timing = library.time(*arrays, repeat=args.repeat)
    rate = library.flops / timing.median / 1e9
    table = _table("network", "target", "threads", ">median ms", ">min ms", ">max ms", ">runs", ">GFLOP/s")
    table.add_row(library.name, str(Target.get(args.target)), _thread_count(library.model.threads),
                  *(f"{seconds * 1e3:.3f}" for seconds in (timing.median, timing.min, timing.max)),
                  str(len(timing.times)), f"{rate:.1f}" if rate else "")
    console.print(table)
    if args.profile:
        _print_profile(profile, library, args.top, console)


def _print_count(model, args, console):
    """What each kernel call takes, of a network on a board or one that QEMU emulates, or of WebAssembly."""
    from .codegen.target import toolchain
    from .runtime.board import BoardLibrary
    from .runtime.emulated import EmulatedLibrary
    where = args.board or toolchain(model.target).runner[0]
    with (BoardLibrary(model, args.board, repeat=args.repeat) if args.board else EmulatedLibrary(model)) as library, \
            _progress(f"running on {where}"):
        count = library.count()
    table = _table("kernel", f">{count.unit}", ">share")
    for name, amount in (*count.calls, ("all", count.total)):
        table.add_row(name.removeprefix(f"{model.name}_"), f"{amount:,}", f"{amount / count.total:.1%}")
    console.print(table)
    ms = f", {count.total / count.hz * 1e3:.3f} ms" if count.hz else ""
    each = f"{ms}, {2 * count.total / model.flops:.2f} for each of {model.flops // 2:,} FMAs" if model.flops else ms
    console.print(f"{model.name} for {model.target}: {count.total:,} {count.unit}{each}", highlight=False,
                  soft_wrap=True)


def _print_profile(profile, library, top, console):
    from rich.console import Console
    wide = console if console.is_terminal else Console(width=PROFILE_WIDTH)
    wide.print(profile.table(f"{library.name}_", top))
    console.print(f"limits of this machine: {profile.limits}", highlight=False, soft_wrap=True)


def inspect_command(args, console):
    from . import inspect_stage, memory_report
    if args.kernel and args.memory:
        raise UsageError("--kernel goes with --stage, not with --memory")
    with _progress(f"casting {args.model}"):
        if args.memory:
            report = memory_report(args.model, **_options(args))
        else:
            text = inspect_stage(args.model, args.stage, kernel=args.kernel, **_options(args))
    if args.memory:
        _print_memory(report, console)
    else:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")


def quantize_command(args, console):
    from . import quantize
    with _progress(f"quantizing {args.model}"):
        report = quantize(args.model, args.data, args.output, keep_float=args.keep_float, activations=args.activations,
                          per_channel=not args.per_tensor, integer_io=args.integer_io, **_options(args))
    table = _table("layer", "operator", ">cosine", ">SQNR, dB", ">lost, dB")
    for layer in report.layers[:args.top]:
        table.add_row(layer.name, layer.op, f"{layer.cosine:.6f}", f"{layer.sqnr:.1f}", f"{layer.lost:.1f}")
    console.print(table)
    costs = _table(f"for {args.target}", ">before", ">after")
    for row in report.rows():
        costs.add_row(*row)
    console.print(costs)
    kept = f"; kept in float: {', '.join(report.kept)}" if report.kept else ""
    console.print(f"{args.output}: {os.path.getsize(args.output):,} bytes{kept}{report.ends_text}", highlight=False,
                  markup=False, soft_wrap=True)


def _print_memory(report, console):
    table = _table("buffer", "memory", ">bytes", ">first", ">last", ">offset")
    for row in report.rows:
        table.add_row(row.name, row.memory, f"{row.bytes:,}", str(row.first), str(row.last), f"{row.offset:,}")
    console.print(table)
    ratio = report.total / report.lower_bound if report.lower_bound else 1.0
    console.print(f"arena {report.total:,} bytes, lower bound {report.lower_bound:,} (largest sum of live tensors), "
                  f"ratio {ratio:.3f}; beside them {report.scratch:,} bytes for each of {report.threads} thread"
                  f"{'s' if report.threads > 1 else ''}; at most {report.stack:,} bytes of each thread's stack",
                  highlight=False, soft_wrap=True)


# ---- what commands share ------------------------------------------------------------------------------------------

def _options(args):
    """The keyword arguments of ingot.compile."""
    return {"target": args.target, "opt_level": args.opt_level, "threads": args.threads, "weights": args.weights,
            "name": args.name, "dims": dict(args.dim), "bounds": dict(args.bound), "aliases": dict(args.alias),
            "shapes": dict(args.shape), "accuracy": _accuracy(args), "algorithms": args.algorithms,
            "schedules": args.schedules, "stack_limit": args.stack_limit, "ram_limit": args.ram_limit,
            "flash_limit": args.flash_limit, "memory": args.memories, "weight_groups": args.weight_groups,
            "byte_order": args.byte_order, "dtype": args.dtype, "arithmetic": args.arithmetic,
            "requantize": args.requantize}


def _accuracy(args):
    """The accuracy that is asked for; None for the default. --exact is what "strict" was called."""
    if not args.exact:
        return args.accuracy
    if args.accuracy not in (None, "strict"):
        raise UsageError(f"--exact means --accuracy strict, not {args.accuracy}: leave out --exact")
    print("ingot: warning: --exact is deprecated: write --accuracy strict", file=sys.stderr)
    return "strict"


def _read_inputs(pairs):
    import numpy as np
    feeds = {}
    for name, file in pairs:
        if name in feeds:
            raise UsageError(f"input {name!r} is given twice")
        try:
            feeds[name] = np.load(file, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise UsageError(f"{file} is no .npy file of numbers") from error
        if not isinstance(feeds[name], np.ndarray):
            raise UsageError(f"{file} is no .npy file of numbers")
    return feeds


def _statistics(array):
    """The least, mean and greatest element as text."""
    if not array.size:
        return ("", "", "")
    array = array.astype("float64")
    return tuple(f"{value:.6g}" for value in (array.min(), array.mean(), array.max()))


def _save(outputs, folder):
    """Write each output to a file of its own, complete or not at all."""
    import numpy as np
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in outputs.items():
        file = folder / ("".join(c if c.isalnum() or c in "._-" else "_" for c in name) + ".npy")
        part, data = file.with_name(f".{os.getpid()}.npy"), io.BytesIO()
        np.save(data, array)
        try:
            part.write_bytes(data.getbuffer())
            os.replace(part, file)
        except BaseException as error:
            part.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise UsageError(f"{file} cannot be written: {error.strerror or error}") from error
            raise


def _thread_count(threads):
    return os.environ.get("OMP_NUM_THREADS", str(os.cpu_count())) if threads == "openmp" else "1"


def _table(*columns):
    """A rich table; a column name that starts with ">" is aligned to the right."""
    from rich import box
    from rich.table import Table
    table = Table(box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column.lstrip(">"), justify="right" if column.startswith(">") else "left")
    return table


@contextmanager
def _progress(text):
    """A spinner with the elapsed seconds on stderr, where that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        progress.add_task(text)
        yield


# ---- the entry ----------------------------------------------------------------------------------------------------

@contextmanager
def _ending_signals():
    """Raise Ended on a signal that would end the process at once, so that what it was writing is removed.

    The first one only: another must not stop the removal. A signal that is ignored, as under nohup, stays so.
    """
    def end(signum, frame):
        for number in handled:
            signal.signal(number, signal.SIG_IGN)
        raise Ended(signum)

    main_thread = threading.current_thread() is threading.main_thread()  # only there can handlers be set
    handled = [s for s in ENDING if main_thread and signal.getsignal(s) is signal.SIG_DFL]
    for number in handled:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


def main(argv=None):
    """Run the command line; returns the exit status: 0, 1 (verify found a difference), 2 (an error) or 128 + the number
    of the signal that ended it."""
    argv = sys.argv[1:] if argv is None else argv
    debug = "--debug" in argv
    try:
        args = build_parser().parse_args(argv)
        if args.version:
            from importlib.metadata import version
            print(f"ingot {version('ingot')}")
            return 0
        if not hasattr(args, "action"):
            raise UsageError("no command given (see ingot --help)")
        from rich.console import Console
        with _ending_signals(), warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: print(f"ingot: warning: {message}", file=sys.stderr)
            return args.action(args, Console()) or 0
    except KeyboardInterrupt:
        return EXIT_SIGNAL + signal.SIGINT
    except Ended as ended:
        return EXIT_SIGNAL + ended.signum
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader left: nothing to say at exit either
        return 0
    except Exception as error:
        if debug:
            traceback.print_exc()
        print(f"ingot: error: {one_line(error)}", file=sys.stderr)
        return EXIT_ERROR


def one_line(error):
    """An exception as one line. Those that are no statement about the input are marked as internal."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    text = f"{lines[0]} {lines[1]}" if lines[0].endswith(":") and len(lines) > 1 else lines[0]
    if isinstance(error, (ValueError, OSError)) or type(error).__module__.startswith("ingot."):
        return text
    return f"internal error: {type(error).__name__}: {text} (--debug shows where)"


if __name__ == "__main__":
    sys.exit(main())
