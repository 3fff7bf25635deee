"""Steps of a decoder with a PagedKVCache: its operators compiled (OutlineSegments) beside one after the other.

    python benchmarks/kv_cache.py
    python benchmarks/kv_cache.py --layers 8 --width 1024

The decoder is an nn.Module with random weights, which are arguments, or bound. The virtual machine runs binding by
binding where something looks at each call (`set_instrument`), as it did everything before segments were compiled. Both
sides run the same steps in turns in one process, on one thread; times are CPU seconds of the process, minima.
"""
from __future__ import annotations

import argparse
import time

import numpy as np
from measure import largest_error, machine, markdown_table, number

import ingot
from ingot import relax
from ingot.relax.frontend import nn
from ingot.relax.frontend.nn import spec
from ingot.relax.frontend.nn.llm.kv_cache import PagedKVCache, RopeMode, TIRPagedKVCache
from ingot.runtime import ShapeTuple

HEAD = 64
TOKENS = {"decode": 1, "prefill": 16}
CACHE = {"batch": 1, "total": 1024, "chunk": 64, "page": 16, "windows": 0}


class Layer(nn.Module):
    def __init__(self, number, width):
        self.number, self.heads = number, width // HEAD
        self.norms = nn.ModuleList([nn.RMSNorm(width, -1, 1e-5, bias=False) for _ in range(2)])
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(2 * width, width, bias=False)

    def forward(self, x, cache):
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norms[0](x)).reshape(batch, tokens, 3 * self.heads, HEAD)
        seen = cache.attention_with_fused_qkv(self.number, qkv, self.heads, HEAD ** -0.5)
        x = x + self.out(seen.reshape(batch, tokens, width))
        gate, up = nn.op.split(self.up(self.norms[1](x)), 2, axis=-1)
        return x + self.down(nn.op.silu(gate) * up)


class Decoder(nn.Module):
    def __init__(self, layers, width):
        self.count, self.heads = layers, width // HEAD
        self.layers = nn.ModuleList([Layer(n, width) for n in range(layers)])

    def step(self, x, cache):
        for layer in self.layers:
            x = layer(x, cache)
        return x, cache

    def create(self, batch, total, chunk, page, windows):
        return TIRPagedKVCache(
            "mha", batch, total, chunk, page, windows, relax.ShapeExpr([0, self.count]), self.count, self.heads,
            self.heads, HEAD, HEAD, 0, 0, RopeMode.NORMAL, 1, 10000, {}, relax.PrimValue(0), HEAD, False, "float32",
            ingot.target.Target("llvm"))


def built(layers, width, bound):
    """(Executable, its arguments beside x and the cache)."""
    own = {"param_mode": "plain" if bound else "packed", "effect_mode": "none"}
    mod, params = Decoder(layers, width).export_tvm({
        "step": {"x": spec.Tensor((1, "n", width), "float32"), "cache": spec.Object(object_type=PagedKVCache), "$": own},
        "create": {**dict.fromkeys(CACHE, int), "$": {**own, "param_mode": "none"}}})
    rng = np.random.default_rng(0)
    weights = {n: (rng.standard_normal(p.shape) * 0.03 + ("norm" in n)).astype("float32") for n, p in params}
    if bound:
        return relax.build(relax.transform.BindParams("step", weights)(mod)), ()
    return relax.build(mod), (tuple(map(ingot.nd.array, weights.values())),)


class Side:
    """A virtual machine with a cache of its own."""

    def __init__(self, executable, rest, compiled):
        self.vm, self.rest = relax.VirtualMachine(executable, ingot.cpu()), rest
        if not compiled:
            self.vm.set_instrument(lambda *call: None)
        self.cache = self.vm["create"](*(ShapeTuple([n]) for n in CACHE.values()))
        self._state("add_sequence", 0)

    def _state(self, name, *args):
        ingot.get_global_func(f"vm.builtin.kv_state_{name}")(self.cache, *args)

    def step(self, x):
        """(the result, CPU seconds)."""
        self._state("begin_forward", ShapeTuple([0]), ShapeTuple([x.shape[1]]))
        begin = time.process_time()
        result, _ = self.vm["step"](ingot.nd.array(x), self.cache, *self.rest)
        seconds = time.process_time() - begin
        self._state("end_forward")
        return result.numpy(), seconds


def row(layers, width, bound, kind, rounds):
    executable, rest = built(layers, width, bound)
    sides = [Side(executable, rest, compiled) for compiled in (False, True)]
    rng = np.random.default_rng(1)
    times, error = [], 0.0
    for _ in range(rounds + 1):  # the first one compiles
        x = rng.standard_normal((1, TOKENS[kind], width)).astype("float32")
        (expected, before), (found, after) = (side.step(x) for side in sides)
        times.append((before, after))
        error = max(error, largest_error([found], [expected]))
    before, after = map(min, zip(*times[1:]))
    return [kind, "bound" if bound else "arguments", number(1e3 * before), number(1e3 * after), f"{before / after:.1f}",
            f"{error:.1g}"]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=512, help=f"a multiple of {HEAD}")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args(argv)
    print(machine(()))
    titles = ["step", "weights", "binding by binding ms", "compiled ms", "ratio", "error"]
    print("\n".join(markdown_table(titles, [row(args.layers, args.width, bound, kind, args.rounds)
                                            for kind in TOKENS for bound in (False, True)], left=2)))


if __name__ == "__main__":
    main()
