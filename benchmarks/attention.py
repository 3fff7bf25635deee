"""The operators of decoders by themselves: Ingot against onnxruntime, one thread.

    python benchmarks/attention.py                          every case
    python benchmarks/attention.py --cases decode --markdown table.md

Attention, RMSNormalization and RotaryEmbedding are those of ai.onnx; prefill: a prompt without a past; decode: one
token after so many others, whose keys and values both sides copy to the outputs. "in place" are steps of
com.microsoft's GroupQueryAttention, with past and present in one buffer on both sides: nobody copies them there;
Ingot's present is an alias of the past. An operator that the installed onnxruntime lacks shows Ingot alone.
"""
from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from measure import interleaved, largest_error, machine, markdown_table, number
from onnx import TensorProto, helper
from sides import Run, ingot_run, installed, onnxruntime_run

import ingot

PEER = "onnxruntime"
ROOM = 2048  # rows of the tables of angles, and of caches in place


@dataclass(frozen=True)
class Case:
    """One node. inputs: arrays, None for one that is absent; outputs: how many; aliases: {output: input}."""

    name: str
    operator: str
    inputs: tuple
    outputs: int = 1
    attrs: tuple = ()
    domain: str = ""
    aliases: tuple = ()


@dataclass(frozen=True)
class Row:
    """seconds: {side: of the median run}; error: of Ingot's outputs next to onnxruntime's."""

    case: str
    seconds: dict
    error: float | None

    @property
    def ratio(self):
        """onnxruntime's time over Ingot's; None where it has none."""
        return self.seconds[PEER] / self.seconds["Ingot"] if PEER in self.seconds else None


def _floats(*shape, seed=0):
    return np.random.default_rng([*shape, seed]).standard_normal(shape, np.float32)


def attention(name, queries, past, heads, groups, size=64, split=True):
    """Causal Attention of [1, heads, queries, size], or of [1, queries, heads * size] where it is not split."""
    shapes = [(1, n, queries, size) if split else (1, queries, n * size) for n in (heads, groups, groups)]
    inputs = [_floats(*s, seed=k) for k, s in enumerate(shapes)]
    inputs += [None, *(_floats(1, groups, past, size, seed=k) for k in (3, 4))] if past else []
    counts = () if split else (("q_num_heads", heads), ("kv_num_heads", groups))
    return Case(name, "Attention", tuple(inputs), 3 if past else 1, (("is_causal", 1), *counts))


def in_place(name, past, heads, groups, size=64):
    """A step of GroupQueryAttention: one query after `past` others, in buffers of ROOM rows."""
    inputs = [_floats(1, 1, n * size, seed=k) for k, n in enumerate((heads, groups, groups))]
    inputs += [_floats(1, groups, ROOM, size, seed=k) for k in (3, 4)]
    inputs += [np.array([past], np.int32), np.array(past + 1, np.int32)]
    return Case(name, "GroupQueryAttention", tuple(inputs), 3, (("num_heads", heads), ("kv_num_heads", groups)),
                "com.microsoft", (("y1", "x3"), ("y2", "x4")))


def rms(rows, width):
    return Case(f"RMSNormalization {rows} x {width}", "RMSNormalization", (_floats(1, rows, width), _floats(width)))


def rotary(rows, heads, size):
    tables = [_floats(ROOM, size // 2, seed=k) for k in (1, 2)]
    inputs = (_floats(1, rows, heads * size), *tables, np.arange(rows)[None])
    return Case(f"RotaryEmbedding {rows}, {heads} heads of {size}", "RotaryEmbedding", inputs, 1,
                (("num_heads", heads),))


CASES = (
    attention("prefill 128, 12 heads", 128, 0, 12, 12),
    attention("prefill 128, 12 heads, 3-D", 128, 0, 12, 12, 64, False),
    attention("prefill 512, 12 heads", 512, 0, 12, 12), attention("prefill 128, 32 heads, 8 of keys", 128, 0, 32, 8),
    attention("prefill 512, 32 heads, 8 of keys", 512, 0, 32, 8),
    attention("decode after 128, 12 heads", 1, 128, 12, 12), attention("decode after 1023, 12 heads", 1, 1023, 12, 12),
    attention("decode after 1023, 32 heads, 8 of keys", 1, 1023, 32, 8),
    in_place("in place after 128, 12 heads", 128, 12, 12), in_place("in place after 1023, 12 heads", 1023, 12, 12),
    in_place("in place after 1023, 32 heads, 8 of keys", 1023, 32, 8),
    rms(1, 768), rms(128, 768), rms(512, 2048), rms(1, 4096),
    rotary(1, 12, 64), rotary(128, 12, 64), rotary(512, 32, 64), rotary(1, 32, 128))


def network(case):
    """(the ONNX model of one node, its inputs by name)."""
    names = [f"x{k}" if x is not None else "" for k, x in enumerate(case.inputs)]
    feeds = {n: x for n, x in zip(names, case.inputs) if n}
    results = [f"y{k}" for k in range(case.outputs)]
    node = helper.make_node(case.operator, names, results, name="node", domain=case.domain, **dict(case.attrs))
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
              for n, x in feeds.items()]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in results]
    graph = helper.make_graph([node], "node", inputs, outputs)
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), feeds


def measure(case, seconds, peers):
    """The Row of one case."""
    model, feeds = network(case)
    aliases = dict(case.aliases)
    library = ingot.compile(model, threads="none", name="node", aliases=aliases)
    runs = {"Ingot": ingot_run(library, {n: x.copy() for n, x in feeds.items()})}
    if PEER in peers:
        try:
            runs[PEER] = _shared_run(model, feeds, aliases) if aliases else onnxruntime_run(model, feeds, 1)
        except Exception as error:  # noqa: BLE001  an operator that it lacks, in whichever way it says so
            print(f"{case.name}: {PEER} fails: {str(error).splitlines()[0][:100]}", file=sys.stderr)
    for run in runs.values():
        run.call()
    kept = runs["Ingot"].outputs()
    error = largest_error(kept, runs[PEER].outputs()[:len(kept)]) if PEER in runs else None
    times = interleaved([r.call for r in runs.values()], seconds)
    for run in runs.values():
        run.close()
    return Row(case.name, {side: statistics.median(t) for side, t in zip(runs, times)}, error)


def _shared_run(model, feeds, aliases):
    """onnxruntime's Run with outputs in the memory of inputs."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = 1, 1, 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    kept = {n: onnxruntime.OrtValue.ortvalue_from_numpy(np.array(x)) for n, x in feeds.items()}
    for name, value in kept.items():
        binding.bind_ortvalue_input(name, value)
    for output in session.get_outputs():
        if output.name in aliases:
            binding.bind_ortvalue_output(output.name, kept[aliases[output.name]])
        else:
            binding.bind_output(output.name, "cpu")
    return Run(lambda: session.run_with_iobinding(binding), lambda: [o.numpy() for o in binding.get_outputs()],
               kept.clear)


def table(rows):
    """The Markdown lines of some rows."""
    def text(row):
        peer = number(row.seconds[PEER] * 1e6) if PEER in row.seconds else "has none"
        return [row.case, number(row.seconds["Ingot"] * 1e6), peer, f"{row.ratio:.2f}" if row.ratio else "",
                f"{row.error:.0e}" if row.error is not None else ""]
    return markdown_table(["case", "Ingot us", f"{PEER} us", f"x {PEER}", "error"], map(text, rows))


def main(argv=None):
    """Measure, print, write; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="", metavar="TEXT", help="those that hold the text in their names")
    parser.add_argument("--seconds", type=float, default=1.0, metavar="S",
                        help="how long to measure each case (default: %(default)g)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table to a file")
    args = parser.parse_args(argv)
    peers = [name for name in installed() if name == PEER]
    chosen = [case for case in CASES if args.cases in case.name]
    if not chosen:
        parser.error(f"no case holds {args.cases!r} in its name")
    rows = []
    for case in chosen:
        rows.append(measure(case, args.seconds, peers))
        print(f"{case.name}: {number(rows[-1].seconds['Ingot'] * 1e6)} us"
              + (f", {rows[-1].ratio:.2f} x {PEER}" if rows[-1].ratio else ""), file=sys.stderr)
    text = "\n".join([machine(peers), "", *table(rows)]) + "\n"
    print(text)
    if args.markdown:
        args.markdown.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
