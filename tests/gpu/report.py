"""What the kernels of a folder cost, without a GPU: python tests/gpu/report.py FOLDER [--arch sm_80] [--json FILE].

Runs the folder's self-test under the emulator, with races and bounds checked, and compiles its kernels if nvcc is here.
A line of each kernel:

    launches x blocks x threads
    regs, spill     registers of a thread, bytes that it keeps in memory for want of them (ptxas)
    shared          bytes of a block
    occup           warps that an SM holds at once, of those that it could
    ld, st          sectors of 32 bytes that a warp's load or store of global memory moves, and times as many as the
                    least that would hold its bytes
    bank            how often the worst request to shared memory is served, and how often requests are on average: 1.00
                    is without conflicts
    instr           machine instructions, and those of tensor cores (nvdisasm)
"""
from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import emulated
import sass

from ingot.codegen.nvcc import find_nvcc

# of an SM: warps, blocks, registers, bytes of shared memory
SMS = {"sm_80": (64, 32, 65536, 164 << 10), "sm_90a": (64, 32, 65536, 228 << 10)}
COLUMNS = ("kernel", "launches", "regs", "spill", "shared", "occup", "ld", "st", "bank", "instr")


def traffic(folder, arch):
    """(lines of the emulator's report, the finished self-test)."""
    with tempfile.TemporaryDirectory() as work:
        program = emulated.build_program(folder, Path(work, "selftest"), seen=True)
        done = emulated.run_program(program, arch=90 if arch == "sm_90a" else 80, cwd=folder,
                                    EMU_REPORT=Path(work, "report"))
        lines = Path(work, "report").read_text().splitlines() if Path(work, "report").exists() else []
        return [json.loads(line) for line in lines], done


def compiled(folder, arch):
    """{kernel: {"regs", "spill", "static", "instr", "tensor"}}; none without nvcc."""
    nvcc, facts = find_nvcc(), {}
    for source in sorted(Path(folder).glob("*.cu")) if nvcc else ():
        with tempfile.TemporaryDirectory() as work:
            cubin = Path(work, "kernels.cubin")
            done = subprocess.run([nvcc.path, f"-arch={arch}", "-cubin", "-std=c++17", "-O3", "-Xptxas", "-v",
                                   source.name, "-o", cubin], cwd=folder, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"{source.name}: {done.stderr}")
            for part in done.stderr.split("Compiling entry function '")[1:]:
                spills = map(int, re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", part).groups())
                static = re.search(r"(\d+) bytes smem", part)
                facts[part.partition("'")[0]] = {"regs": int(re.search(r"Used (\d+) registers", part)[1]),
                                                 "spill": sum(spills), "static": int(static[1]) if static else 0}
            for name, found in (sass.instructions(cubin) if sass.find_nvdisasm() else {}).items():
                facts[name].update(instr=sum(found.values()), tensor=sum(sass.count(found, u) for u in (
                    "HMMA", "IMMA", "HGMMA", "IGMMA")))
    return facts


def occupancy(arch, threads, registers, shared):
    """Warps that an SM holds at once, of those that it could."""
    most_warps, most_blocks, most_registers, most_shared = SMS[arch]
    warps = -(-threads // 32)
    by_registers = most_registers // (-(-registers * 32 // 256) * 256) // (-(-warps // 4) * 4)
    return min(most_warps // warps, most_blocks, by_registers, most_shared // (shared + 1024)) * warps / most_warps


def rows(lines, facts, arch):
    """[{column: text}] of the kernels, those that move the most first."""
    found = []
    for launch in (line for line in lines if "launches" in line):
        name = launch["kernel"]
        sites = [line for line in lines if "space" in line and line["kernel"] == name]
        known = facts.get(name, {})
        shared = launch["shared"] + known.get("static", 0)
        row = {"kernel": name, "launches": f"{launch['launches']} x {launch['blocks'] // launch['launches']} x "
                                           f"{launch['threads']}",
               **{column: str(known[column]) if column in known else "" for column in ("regs", "spill")},
               "shared": str(shared) if facts else f"{shared}+", "moved": 0,
               "occup": f"{occupancy(arch, launch['threads'], known['regs'], shared):.0%}" if known else "",
               "instr": f"{known['instr']} ({known['tensor']})" if "instr" in known else ""}
        for column, access in (("ld", "load"), ("st", "store")):
            requests, cost, ideal, _ = totals(s for s in sites if (s["space"], s["access"]) == ("global", access))
            row[column] = f"{cost / requests:.1f} {cost / max(ideal, 1):.2f}x" if requests else ""
            row["moved"] += cost
        requests, cost, ideal, worst = totals(s for s in sites if s["space"] == "shared")
        row["bank"] = f"{worst} {cost / max(ideal, 1):.2f}" if requests else ""
        found.append(row)
    return sorted(found, key=lambda row: -row["moved"])


def totals(sites):
    """Requests, what they cost, the least that they could, and the most that one costs."""
    sites = [*sites]
    worst = max((s["worst"] for s in sites), default=0)
    return (*(sum(s[k] for s in sites) for k in ("requests", "cost", "ideal")), worst)


def table(found):
    widths = {c: max(len(c), *(len(row[c]) for row in found)) for c in COLUMNS}
    lines = [{c: c for c in COLUMNS}, *found]
    return "\n".join("  ".join(row[c].ljust(widths[c]) for c in COLUMNS).rstrip() for row in lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arch", choices=SMS, default="sm_80")
    parser.add_argument("--json", type=Path, help="where every place of an access goes, with its file and line")
    options = parser.parse_args(arguments)
    if not [*options.folder.glob("*.cu")]:
        parser.error(f"{options.folder} has no CUDA C; ingot compile NET.onnx -o {options.folder} --target cuda-sm_80")
    lines, done = traffic(options.folder, options.arch)
    found = rows(lines, compiled(options.folder, options.arch), options.arch)
    if found:
        print(table(found))
    print(done.stdout.strip(), done.stderr.strip(), sep="\n")
    if options.json:
        options.json.write_text(json.dumps(lines, indent=1))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
