"""The classic course on a matrix product: from three plain loops to a register tile, each step checked and timed.

    python benchmarks/course.py [--size 1024] [--threads 1] [--cc gcc --cc clang] [--readme]

Every step is a TE schedule. Times are medians; beside them the rate, its share of this core's measured FMA peak, and
the ratio to the first step as the same compiler builds it. gcc vectorizes the plain loops of the first step by itself
(over columns), clang does not; so the first step differs a lot between the two, the last one does not.
"""
import argparse
import os
import re
import time
from pathlib import Path

import numpy as np

import ingot as tvm
from ingot import te
from ingot.runtime.roofline import measure_roofline

BN = 32           # columns and rows of a block
TILE = 8, 32      # rows and columns of the register tile
ROWS = 128        # of A that stay in L2
LANES = 16        # of a vector of columns
PERFORMANCE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"


# ---------------------------------------------------------------- the steps

def product(size):
    """C = A B as the course writes it; returns (k, A, B, C)."""
    k = te.reduce_axis((0, size), "k")
    a = te.placeholder((size, size), name="A")
    b = te.placeholder((size, size), name="B")
    return k, a, b, te.compute((size, size), lambda m, n: te.sum(a[m, k] * b[k, n], axis=k), name="C")


def packed_product(size, bn=BN):
    """A matrix product with B packed into blocks of `bn` columns; returns (k, A, B, packed B, C)."""
    k = te.reduce_axis((0, size), "k")
    a = te.placeholder((size, size), name="A")
    b = te.placeholder((size, size), name="B")
    packed = te.compute((size // bn, size, bn), lambda block, row, col: b[row, block * bn + col], name="packedB")
    c = te.compute((size, size), lambda m, n: te.sum(a[m, k] * packed[n // bn, k, te.indexmod(n, bn)], axis=k),
                   name="C")
    return k, a, b, packed, c


def plain(size):
    """Three loops."""
    _, a, b, c = product(size)
    return te.create_schedule(c.op), [a, b, c]


def blocked(size, vectorized=False, permuted=False):
    """Blocks of 32 x 32 that stay in the cache."""
    k, a, b, c = product(size)
    s = te.create_schedule(c.op)
    mo, no, mi, ni = s[c].tile(c.op.axis[0], c.op.axis[1], BN, BN)
    ko, ki = s[c].split(k, factor=4)
    s[c].reorder(mo, no, ko, *((mi, ki, ni) if permuted else (ki, mi, ni)))
    if vectorized:
        s[c].vectorize(ni)
    return s, [a, b, c]


def vectorized(size):
    """The columns of a block as vectors."""
    return blocked(size, vectorized=True)


def permuted(size):
    """Rows outside of k, so that A is read along its rows."""
    return blocked(size, vectorized=True, permuted=True)


def packed(size):
    """B packed, so that a block reads consecutive memory."""
    k, a, b, packed_b, c = packed_product(size)
    s = te.create_schedule(c.op)
    mo, no, mi, ni = s[c].tile(c.op.axis[0], c.op.axis[1], BN, BN)
    ko, ki = s[c].split(k, factor=4)
    s[c].reorder(mo, no, ko, mi, ki, ni)
    s[c].vectorize(ni)
    _pack(s, packed_b)
    return s, [a, b, c]


def cache_written(size, parallel=False):
    """A block of C is computed in a buffer of its own and written once."""
    k, a, b, packed_b, c = packed_product(size)
    s = te.create_schedule(c.op)
    cc = s.cache_write(c, "local")
    mo, no, mi, ni = s[c].tile(c.op.axis[0], c.op.axis[1], BN, BN)
    s[c].vectorize(ni)
    s[cc].compute_at(s[c], no)
    mc, nc = s[cc].op.axis
    ko, ki = s[cc].split(k, factor=4)
    s[cc].reorder(ko, mc, ki, nc)
    s[cc].unroll(ki)
    s[cc].vectorize(nc)
    _pack(s, packed_b, parallel)
    if parallel:
        s[c].parallel(mo)
    return s, [a, b, c]


def in_parallel(size):
    """Rows of blocks on all threads."""
    return cache_written(size, parallel=True)


def register_tiled(size):
    """The buffer is small enough for registers: 8 x 32 sums over all of k, of A and B both packed. 128 rows of A stay
    in L2 while the blocks of B pass."""
    rows, columns = TILE
    k = te.reduce_axis((0, size), "k")
    a, b = te.placeholder((size, size), name="A"), te.placeholder((size, size), name="B")
    packed_a = te.compute((size // rows, size, rows), lambda block, col, row: a[block * rows + row, col],
                          name="packedA")
    packed_b = te.compute((size // columns, size, columns), lambda block, row, col: b[row, block * columns + col],
                          name="packedB")
    c = te.compute((size, size), lambda m, n: te.sum(
        packed_a[m // rows, k, m % rows] * packed_b[n // columns, k, n % columns], axis=k), name="C")
    s = te.create_schedule(c.op)
    cc = s.cache_write(c, "local")
    mo, no, mi, ni = s[c].tile(c.op.axis[0], c.op.axis[1], rows, columns)
    blocks, mo = s[c].split(mo, factor=ROWS // rows)
    s[c].reorder(blocks, no, mo, mi, ni)
    s[c].vectorize(ni)
    s[c].parallel(blocks)
    s[cc].compute_at(s[c], mo)
    mc, nc = s[cc].op.axis
    nv, ni = s[cc].split(nc, factor=LANES)
    s[cc].reorder(k, mc, nv, ni)
    s[cc].unroll(mc)
    s[cc].unroll(nv)
    s[cc].vectorize(ni)
    s[cc].pragma(k, "unroll", 1)  # unrolling k as well would spill the sums
    s[packed_a].parallel(s[packed_a].op.axis[0])
    _pack(s, packed_b, parallel=True)
    return s, [a, b, c]


def _pack(s, packed_b, parallel=False):
    block, _, col = s[packed_b].op.axis
    s[packed_b].vectorize(col)
    if parallel:
        s[packed_b].parallel(block)


STEPS = (("plain loops", plain), ("blocked 32 x 32", blocked), ("vectorized", vectorized), ("permuted", permuted),
         ("array packed", packed), ("cache written", cache_written), ("parallel", in_parallel),
         ("register tile", register_tiled))


# ---------------------------------------------------------------- measuring

def measure(step, size, arrays):
    """(milliseconds, error) of one step, against numpy's product."""
    s, args = step(size)
    built = tvm.build(s, args, target="c", name="mmult")
    built["mmult"]  # compiles
    a, b, expected = arrays
    a, b, c = tvm.nd.array(a), tvm.nd.array(b), tvm.nd.empty((size, size))
    start = time.perf_counter()
    built["mmult"](a, b, c)
    repeat = 3 if time.perf_counter() - start > 1 else 9
    error = float(np.abs(c.numpy() - expected).max() / np.abs(expected).max())
    return built.time_evaluator("mmult", tvm.cpu(), number=1, repeat=repeat)(a, b, c).median * 1e3, error


def course(size, threads):
    """The table of all steps, as Markdown."""
    a, b = np.random.default_rng(0).random((2, size, size), np.float32)
    best, first, rows = measure_roofline().peak / 1e9, None, []
    for name, step in STEPS:
        ms, error = measure(step, size, (a, b, a @ b))
        first, rate = first or ms, 2 * size ** 3 / ms / 1e6
        share = rate / best / threads
        rows.append(f"| {name} | {ms:.1f} | {rate:.1f} | {share:.0%} | {first / ms:.1f} | {error:.0e} |")
    head = (f"{size} cubed, {os.environ['CC']}, threads: {threads}; FMA peak of one core {best:.0f} GFLOP/s:",
            "", "| step | ms | GFLOP/s | of peak | times the first | error |", "|---|---:|---:|---:|---:|---:|")
    return "\n".join((*head, *rows, ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1024, help="a multiple of 32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cc", action="append", help="a compiler, by default the system's; may be given again")
    parser.add_argument("--readme", action="store_true", help="also put the tables into docs/performance.md")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    tables = []
    for cc in options.cc or [os.environ.get("CC", "cc")]:
        os.environ["CC"] = cc  # which the toolchain reads
        tables.append(course(options.size, options.threads))
        print(tables[-1], flush=True)
    if options.readme:
        place = re.compile(r"(?<=<!-- course -->\n).*?(?=<!-- /course -->)", re.DOTALL)
        PERFORMANCE.write_text(place.sub(lambda _: "\n".join(tables), PERFORMANCE.read_text()))


if __name__ == "__main__":
    main()
