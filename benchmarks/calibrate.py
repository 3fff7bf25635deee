"""Measure what operations cost on this machine and compare with a target's cost table (ir/costs.py, ir/measured.py).

    python benchmarks/calibrate.py                             every cost that loops measure, beside the host's row
    python benchmarks/calibrate.py --target x86-64-v3          with the vectors of another target that runs here
    python benchmarks/calibrate.py --write NAME --on "CPU X"   also rewrite the row of NAME in ir/measured.py

Numbers are the best of several short samples. Caches' sizes are the system's. Costs that are terms of models, not of
the hardware, are fitted by hand to measured kernels and stay as they are.
"""
from __future__ import annotations

import argparse
import platform
import re
import tempfile
from contextlib import contextmanager
from pathlib import Path

import cffi

from ingot.codegen.package import RUNTIME
from ingot.codegen.target import Target
from ingot.codegen.toolchain import build_shared
from ingot.ir import costs
from ingot.ir.costs import BASE, DATA_SHEET, HARDWARE, Cost
from ingot.ir.measured import MEASURED
from ingot.ir.target import ROWS
from ingot.runtime import openmp
from ingot.runtime.binding import aligned_empty
from ingot.runtime.roofline import rate
from measure import ROOT

SOURCE = Path(__file__).with_suffix(".c")
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
MEASURED_FILE = ROOT / "ir" / "measured.py"
SMALL, LARGE = 8 << 10, 256 << 20  # bytes: well within L1, far beyond every cache
PASSED = 16 << 10  # bytes that pass from core to core at a time
NOTICED = 0.1  # the share by which a measured cost must differ from the table to be written


@contextmanager
def loops(target):
    """(library, ffi, a float to write to) of calibrate.c."""
    with tempfile.TemporaryDirectory(prefix="ingot-") as folder:
        path = build_shared([SOURCE], Path(folder, "calibrate.so"), target, "openmp",
                            cflags=(f"-DINGOT_LANES={max(4, target.lanes)}", f"-I{RUNTIME}"))
        ffi = cffi.FFI()
        ffi.cdef("\n".join(re.findall(r"^int64_t .*;$", SOURCE.read_text(), re.MULTILINE)))
        library = openmp.load(ffi, path)
        yield library, ffi, ffi.new("float *")
        ffi.dlclose(library)


def caches():
    """{cost: bytes} of the caches that the system knows: a core's own, and of L3 its part."""
    sizes = {}
    for index in sorted(CACHES.glob("index*")):
        level, kind, size, line = ((index / name).read_text().strip() for name in (
            "level", "type", "size", "coherency_line_size"))
        if kind != "Instruction":
            sizes[f"l{level}_bytes"], sizes["line_bytes"] = int(size.rstrip("K")) << 10, int(line)
    return sizes


def measure(target, sizes):
    """{cost: value} of what loops measure with the vectors of a target, in the units of the table."""
    lanes = max(4, target.lanes)
    with loops(target) as (library, ffi, out):
        data = aligned_empty(LARGE, 64)
        data.fill(0)
        floats = ffi.cast("float *", data.ctypes.data)
        clock = rate(lambda n: library.clock_cycles(out, n))
        found = {"clock": clock}

        def pace(action):
            """Units of an action in a cycle."""
            return rate(action) / clock

        def read(size, work=0):
            return pace(lambda n: library.read_beside(floats, min(size, LARGE) // 4, work, out, n))

        found["multiply_adds"] = pace(lambda n: library.multiply_adds(out, n))
        few, both = (pace(lambda n, loop=loop: loop(out, n)) for loop in (
            library.few_multiply_adds, library.multiply_adds_and_adds))  # both: of each kind
        found["adds_beside"] = max(0.0, both - (few - both))  # less what they take from FMAs
        found["fma_latency"] = 1 / pace(lambda n: library.dependent_multiply_adds(out, n))
        found["add_latency"] = 1 / pace(lambda n: library.dependent_adds(out, n))
        found["loads"] = read(SMALL) / (4 * lanes)
        l2, l3 = (sizes.get(name, target.cost(name)) for name in ("l2_bytes", "l3_bytes"))
        found["l2_read"] = read(l2 // 2)
        if l3:
            found["l3_read"] = read(max(l3 // 4, 2 * l2))
        found["beyond_l2_read"] = read(max(l3 // 2, 4 * l2))
        found["memory_read"] = read(LARGE)
        half = ffi.cast("float *", data.ctypes.data + LARGE // 2)
        found["fold"] = 1 / pace(lambda n: library.fold(floats, half, 1 << 15, n))
        found["shuffle"] = found["fold"] / lanes * found["multiply_adds"]
        found["stream.beside"] = _beside(read, lanes, found["multiply_adds"])
        if library.pass_to_and_fro(floats, 0, out, 1):
            wait = 1 / pace(lambda n: library.pass_to_and_fro(floats, 0, out, n))
            passed = 1 / pace(lambda n: library.pass_to_and_fro(floats, PASSED // 4, out, n))
            found["core_to_core"] = 1 / max(passed - wait / PASSED, 1e-3)
            found["threads.wait"] = wait + PASSED * passed
    return found


def _beside(read, lanes, multiply_adds):
    """The share of the time of reading memory that passes beside FMAs which take about as long."""
    alone = 1 / read(LARGE)  # cycles of a byte
    work = max(1, round(alone * 4 * lanes * multiply_adds))  # FMAs for each vector
    inside, together = 1 / read(SMALL, work), 1 / read(LARGE, work)
    return min(1.0, max(0.0, (alone + inside - together) / min(alone, inside)))


def row(name, found, sizes, machine):
    """The costs of a target as they are after a measurement: its own, those that the system says, and those measured
    that differ from BASE by more than NOTICED."""
    known = dict(MEASURED.get(name, {}))
    for values, origin in ((sizes, DATA_SHEET), (found, machine)):
        for cost, value in values.items():
            known.pop(cost, None)
            if abs(value - BASE[cost].value) > NOTICED * abs(BASE[cost].value):
                known[cost] = Cost(rounded(value), BASE[cost].unit, origin)
    return known


def rounded(value):
    """A number with three digits; an int where it is one."""
    value = float(f"{value:.3g}") if isinstance(value, float) else value
    return int(value) if value == int(value) else value


def written(tables):
    """The text of ir/measured.py with {target: {cost: Cost}}."""
    head = MEASURED_FILE.read_text().split("MEASURED = {")[0]
    lines = [line for name in sorted(tables) if tables[name] for line in (
        f'    "{name}": {{', *(f'        "{cost}": Cost({c.value!r}, "{c.unit}", {_origin(c)}),'
                               for cost, c in sorted(tables[name].items())), "    },")]
    return head + "\n".join(("MEASURED = {", *lines, "}")) + "\n"


def _origin(cost):
    """The name of the machine in costs.py, or its text."""
    names = {value: name for name, value in vars(costs).items() if name.isupper() and isinstance(value, str)}
    return names.get(cost.measured_on, f'"{cost.measured_on}"')


def main(args=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="host", metavar="NAME",
                        help="whose vectors are used, and whose table is shown")
    parser.add_argument("--write", metavar="NAME", choices=tuple(ROWS), help="the target whose row is rewritten")
    parser.add_argument("--on", default=platform.processor() or platform.machine(), metavar="MACHINE",
                        help="what the table calls this machine")
    args = parser.parse_args(args)
    target, sizes = Target.get(args.target), caches()
    found = measure(target, sizes)
    print(f"{target}, measured on {args.on}\n{'cost':16} {'here':>12} {'table':>12}  unit, measured on")
    for name, value in {**sizes, **found}.items():
        cost = target.costs[name]
        print(f"{name:16} {value:12.4g} {cost.value:12.4g}  {cost.unit}, {cost.measured_on}")
    print("not measured: " + ", ".join(name for name in HARDWARE if name not in {**sizes, **found}))
    name = args.write or target.name
    text = written({**MEASURED, name: row(name, found, sizes, args.on)})
    if args.write:
        MEASURED_FILE.write_text(text)
        print(f"{MEASURED_FILE.name}: the row of {name} is rewritten")
    else:
        print("\nA row for ir/measured.py (--write NAME writes it):")
        print(text[text.index(f'    "{name}"'):].split("    },")[0] + "    },")


if __name__ == "__main__":
    main()
