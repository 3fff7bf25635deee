"""How fast schedules apply and script is read: a 60-primitive trace of a tiled convolution, a 1,000-line module.

    python benchmarks/schedule_speed.py [--profile]

The trace is one that a search would try many times: padding in a block of its own, tiles from sampled factors, the
accumulators and both inputs in local buffers, vector lanes, threads, unrolling. Times are the best of several runs in
process time.
"""
from __future__ import annotations

import argparse
import cProfile
import pstats
import time

from ingot.ir import te, tir
from ingot.ir.module import IRModule
from ingot.ir.node import structural_equal
from ingot.ir.schedule import Schedule
from ingot.script import from_source

WANTED_TRACE_S, WANTED_SCRIPT_S = 0.1, 1.0


def convolution(n=1, ci=64, co=64, h=56, w=56, k=3, pad=1):
    """relu(conv2d(pad(x), w) + b) as a PrimFunc."""
    x, weight = te.placeholder((n, ci, h, w), name="x"), te.placeholder((co, ci, k, k), name="w")
    bias = te.placeholder((co,), name="b")
    padded = te.compute((n, ci, h + 2 * pad, w + 2 * pad), lambda b, c, y, z: tir.if_then_else(
        tir.And(tir.And(y >= pad, y < h + pad), tir.And(z >= pad, z < w + pad)), x[b, c, y - pad, z - pad], 0.0),
        name="pad")
    c, dy, dx = (te.reduce_axis((0, e), name) for name, e in (("c", ci), ("dy", k), ("dx", k)))
    conv = te.compute((n, co, h, w), lambda b, o, y, z: te.sum(
        padded[b, c, y + dy, z + dx] * weight[o, c, dy, dx], [c, dy, dx]), name="conv")
    add = te.compute((n, co, h, w), lambda b, o, y, z: conv[b, o, y, z] + bias[o], name="add")
    relu = te.compute((n, co, h, w), lambda b, o, y, z: tir.max(add[b, o, y, z], 0.0), name="relu")
    return te.create_prim_func([x, weight, bias, relu])


def tile(sch, o_tile=(2, 2, 16), y_tile=(14, 4), x_tile=(14, 4), c_tile=(8, 8)):
    """Schedule a `convolution` with 60 primitives: rows of outputs in parallel, a register tile of 4 x 4 x 16."""
    relu, conv, padding = (sch.get_block(name) for name in ("relu", "conv", "pad"))
    sch.compute_inline("add")
    back = sch.cache_write(conv, 0, "local")
    sch.reverse_compute_inline(relu)
    n, o, y, x, c, dy, dx = sch.get_loops(conv)
    oo, om, oi = sch.split(o, sch.sample_perfect_tile(o, 3, 16, decision=o_tile))
    yo, yi = sch.split(y, sch.sample_perfect_tile(y, 2, 16, decision=y_tile))
    xo, xi = sch.split(x, sch.sample_perfect_tile(x, 2, 16, decision=x_tile))
    co, ci = sch.split(c, sch.sample_perfect_tile(c, 2, 16, decision=c_tile))
    sch.reorder(n, oo, yo, om, xo, co, ci, dy, dx, yi, xi, oi)
    outer = sch.fuse(n, oo, yo)
    sch.reverse_compute_at(back, xo)
    sch.compute_at(padding, outer)
    weights = sch.cache_read(conv, 1, "local")
    sch.compute_at(weights, om)
    sch.transform_layout(conv, ("read", 1), lambda o, c, dy, dx: (c, dy, dx, o))
    rows = sch.cache_read(conv, 0, "local")
    sch.compute_at(rows, co)
    sch.storage_align(rows, 0, 2, 8, 0)
    init = sch.decompose_reduction(conv, co)
    sch.parallel(outer)
    sch.vectorize(oi)
    for loop in (xi, yi, dx):
        sch.unroll(loop)
    sch.annotate(ci, "pragma_unroll", 2)
    y_init, x_init, o_init = sch.get_loops(init)[-3:]
    sch.vectorize(o_init)
    sch.unroll(x_init)
    sch.unroll(y_init)
    o_back, y_back, x_back = sch.get_loops(back)[-3:]
    sch.reorder(y_back, x_back, o_back)
    sch.vectorize(o_back)
    sch.unroll(x_back)
    sch.unroll(y_back)
    o_pack, c_pack, dy_pack, dx_pack = sch.get_loops(weights)[-4:]
    sch.reorder(c_pack, dy_pack, dx_pack, o_pack)
    sch.unroll(dy_pack)
    sch.unroll(dx_pack)
    *above, row = sch.get_loops(padding)
    sch.fuse(*above[1:])
    inner, lanes = sch.split(row, [None, 8])
    sch.vectorize(lanes)
    sch.unroll(inner)
    sch.unroll(sch.get_loops(rows)[-1])
    for block, stage in ((conv, "conv"), (padding, "pad"), (weights, "weights"), (rows, "rows"), (init, "init")):
        sch.annotate(block, "stage", stage)
    sch.enter_postproc()
    sch.annotate(outer, "pragma_grain", 1)


def scheduled(name):
    """A tiled convolution called `name`, with variables and buffers of its own."""
    sch = Schedule(convolution())
    tile(sch)
    return sch.func.replace(attrs={**sch.func.attrs, "global_symbol": name})


def best(run, times=7):
    """The least process time of several runs, in seconds."""
    taken = []
    for _ in range(times):
        start = time.process_time()
        run()
        taken.append(time.process_time() - start)
    return min(taken)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", action="store_true", help="print where the time of the trace goes")
    args = parser.parse_args()
    func = convolution()
    sch = Schedule(func)
    tile(sch)

    def replay():
        return sch.trace.apply_to_schedule(Schedule(func))

    taken = best(replay)
    print(f"trace of {len(sch.trace)} primitives: {taken * 1e3:.1f} ms (wanted < {WANTED_TRACE_S * 1e3:.0f} ms)")
    if args.profile:
        profile = cProfile.Profile()
        profile.runcall(replay)
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
    module = IRModule({name: scheduled(name) for name in (f"kernel_{i}" for i in range(12))})
    text = module.script()
    printing, parsing = best(module.script, 3), best(lambda: from_source(text), 3)
    assert structural_equal(from_source(text), module)
    lines = text.count("\n")
    print(f"module of {lines} lines: printed in {printing:.2f} s, parsed in {parsing:.2f} s, per 1,000 lines "
          f"{(printing + parsing) / lines * 1e3:.2f} s (wanted < {WANTED_SCRIPT_S:.0f} s)")


if __name__ == "__main__":
    main()
