"""Networks of PyTorch by torch.export beside the same by ONNX: errors, lines of C, times.

    pip install torch torchvision transformers onnxscript
    python benchmarks/torch_export.py                ResNet-18, MobileNetV3, a BERT of four layers, a layer of Llama
    python benchmarks/torch_export.py llama

Weights are random. Errors are against torch's results, relative to the largest. The two programs run in turns in one
process, times are medians; the ratio is that of ONNX's time to torch's.
"""
from __future__ import annotations

import argparse
import io
import statistics
import tempfile

import numpy as np
import onnx
import torch
import torchvision
import transformers
from measure import interleaved, largest_error, machine, markdown_table, number

import ingot
from ingot import relax
from ingot.relax.frontend.torch import from_exported_program

BERT = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
LLAMA = {"hidden_size": 512, "num_hidden_layers": 1, "num_attention_heads": 8, "num_key_value_heads": 8,
         "intermediate_size": 1376, "use_cache": False}


class Hidden(torch.nn.Module):
    """The last hidden state of a network of transformers."""

    def __init__(self, network, *names):
        super().__init__()
        self.network, self.names = network, names

    def forward(self, *args):
        return self.network(**dict(zip(self.names, args))).last_hidden_state


def _words(*names):
    given = {"input_ids": torch.randint(0, 1000, (1, 64)), "attention_mask": torch.ones(1, 64, dtype=torch.int64)}
    return tuple(given[name] for name in names)


def _vision(network):
    return lambda: (network(weights=None), (torch.randn(1, 3, 224, 224),))


def _text(network, config, *names, **sizes):
    return lambda: (Hidden(network(config(vocab_size=1000, **sizes)), *names), _words(*names))


NETWORKS = {
    "resnet18": _vision(torchvision.models.resnet18),
    "mobilenet_v3": _vision(torchvision.models.mobilenet_v3_small),
    "bert": _text(transformers.BertModel, transformers.BertConfig, "input_ids", "attention_mask", **BERT),
    "llama": _text(transformers.LlamaModel, transformers.LlamaConfig, "input_ids", **LLAMA),
}


def by_torch(model, args):
    return from_exported_program(torch.export.export(model, args), unwrap_unit_return_tuple=True)


def by_onnx(model, args):
    file = io.BytesIO()
    torch.onnx.export(model, args, file, dynamo=True, verbose=False)
    return relax.frontend.onnx.from_onnx(onnx.load_from_string(file.getvalue()))


def row(name, target):
    torch.manual_seed(0)
    model, args = NETWORKS[name]()
    model = model.eval()
    with torch.no_grad():
        wanted = model(*args).numpy()
    arrays, sides, cells = [np.asarray(a) for a in args], {}, []
    for way in (by_torch, by_onnx):
        library = ingot.compile(way(model, args), target=target, name="network")
        with tempfile.TemporaryDirectory() as folder:
            library.export(f"{folder}/network")
            with open(f"{folder}/network/network.c") as text:
                lines = sum(1 for _ in text)
        sides[way] = lambda library=library: library(*arrays)
        found = sides[way]()
        found = found[0] if isinstance(found, (list, tuple)) else found
        cells += [f"{largest_error([np.asarray(found)], [wanted]):.1e}", str(lines)]
    seconds = dict(zip(sides, map(statistics.median, interleaved(list(sides.values()), 5.0))))
    return [name, *cells, *(f"{number(1e3 * t)} ms" for t in seconds.values()),
            f"{seconds[by_onnx] / seconds[by_torch]:.2f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NETWORK", help=" ".join(NETWORKS))
    parser.add_argument("--target", default="host")
    options = parser.parse_args()
    unknown = sorted({*options.names} - {*NETWORKS})
    if unknown:
        parser.error(f"no network {unknown[0]!r}; there are {', '.join(NETWORKS)}")
    print(machine([]), f"torch {torch.__version__}, transformers {transformers.__version__}.\n")
    titles = ["network", "error, torch.export", "lines", "error, ONNX", "lines", "torch.export", "ONNX", "ratio"]
    print(*markdown_table(titles, [row(name, options.target) for name in options.names or NETWORKS]), sep="\n")


if __name__ == "__main__":
    main()
