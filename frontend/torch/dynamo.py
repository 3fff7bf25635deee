"""torch.compile with networks compiled here, and the graphs that it finds in a program."""
from __future__ import annotations

from ...ir.module import IRModule
from ...ir.relax.expr import Constant
from ...ir.upper import upper
from .dtypes import array_of, torch
from .fx_graphs import TorchFXImporter
from .importer import target_of
from .symbols import Symbols
from .writes import changes


def relax_dynamo(pipeline=None):
    """A backend of torch.compile: torch.compile(model, backend=relax_dynamo()). pipeline: a pass over graph modules,
    run before they are compiled. Weights are read at every call, so that they may change."""
    def backend(graph_module, example_inputs):
        graph_module.graph.eliminate_dead_code(lambda node: node.is_impure() or _writes(graph_module, node))
        inputs, symbols = _inputs(graph_module, example_inputs), Symbols()
        info = [(symbols.dims(x.shape), x.dtype) for x in inputs.values() if hasattr(x, "shape")]
        if not info:
            return graph_module.forward
        given = {name: symbols.dim(x) for name, x in inputs.items() if not hasattr(x, "shape")}
        mod = TorchFXImporter(graph_module, given=given, strict=True).imported(info, False, False, False)
        run = upper("dynamo_runner")(pipeline(mod) if pipeline is not None else mod)

        def call(*args):
            return _tensors(run([a.detach().contiguous() for a in args if hasattr(a, "detach")]))
        return call
    return backend


def _writes(graph_module, node):
    """Whether a node writes to its first argument, and so is of use where its result is of none."""
    layer = graph_module.get_submodule(node.target) if node.op == "call_module" else None
    return node.op.startswith("call") and changes(node, target_of(node), layer)


def _inputs(graph_module, examples):
    """{name of an input: its tensor or size}, with symbolic sizes where torch says them."""
    nodes = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    return {node.name: node.meta.get("example_value", node.meta.get("val", x)) for node, x in zip(nodes, examples)}


def _tensors(value):
    """Arrays as torch's tensors, of the same memory."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_tensors, value))
    return torch().from_dlpack(value)


def dynamo_capture_subgraphs(model, *params, **kwargs):
    """The graphs that torch.compile finds while model(*params, **kwargs) runs, as functions subgraph_0, subgraph_1 ...
    of one IRModule. Weights are constants, or with keep_params_as_input=True inputs behind the others, whose values are
    the attribute "params"."""
    keep, found = kwargs.pop("keep_params_as_input", False), {}

    def capture(graph_module, example_inputs):
        inputs = dict(zip(_inputs(graph_module, example_inputs), example_inputs))
        weights = {k: x for k, x in inputs.items() if isinstance(x, torch().nn.Parameter)}
        info = [(tuple(x.shape), x.dtype) for k, x in inputs.items() if k not in weights]
        given = {} if keep else {k: Constant(array_of(x)) for k, x in weights.items()}
        importer = TorchFXImporter(graph_module, given=given, strict=True)
        name = f"subgraph_{len(found)}"
        found[name] = importer.imported(info, weights if keep else False, True, False)["main"].with_attr(
            "global_symbol", name)
        return graph_module.forward

    torch().compiler.reset()
    with torch().no_grad():
        torch().compile(model, backend=capture)(*params, **kwargs)
    return IRModule(found)


__all__ = ["dynamo_capture_subgraphs", "relax_dynamo"]
