"""from_fx: graphs of torch.fx, with the layers and weights of a module."""
from __future__ import annotations

from ...ir.relax.expr import RelaxVar, TensorStructInfo
from ...ir.upper import upper
from .dtypes import dtype_of
from .importer import Importer, TorchImportError, target_of
from .modules import MODULES, call_of
from .table import find


class TorchFXImporter(Importer):
    """The import of one GraphModule. Converters of one's own, f(node, importer), read `env` and `params`, call
    `retrieve_args`, and emit by `block_builder`."""

    def __init__(self, model, converters=None, given=None, strict=False):
        """given: {name of an input: its value}, of those that are no parameters of the function. strict: no input may
        be written to, though a result is its new value."""
        super().__init__()
        self.strict = strict
        self.model, self.converters, self.given = model, dict(converters or {}), dict(given or {})
        self.named_modules = dict(model.named_modules())
        self.inputs = []

    def problem(self, node):
        if node.op == "call_module":
            module = self.named_modules[node.target]
            known = type(module).__name__ in MODULES or type(module) in self.converters
            return None if known else f"Unsupported module type {type(module)} ({node.target})"
        if node.op in ("call_function", "call_method") and target_of(node) in self.converters:
            return None
        return super().problem(node)

    def value_of(self, node):
        if node.op == "placeholder":
            return self.placeholder(node)
        if node.op == "get_attr":
            return self.attribute(node.target)
        if node.op == "call_module":
            return self.layer(node)
        own = self.converters.get(target_of(node))
        return super().value_of(node) if own is None else own(node, self)

    def placeholder(self, node):
        if node.name in self.given:
            return self.given[node.name]
        grapharg = node.meta.get("grapharg")
        if grapharg is not None and getattr(grapharg, "fake_tensor", True) is None:
            return None  # a size, which the shapes of tensors say
        if not self.inputs:
            raise TorchImportError(f"the graph has more inputs than input_info describes: {node.name!r} is one more")
        return self.inputs.pop(0)

    def layer_of(self, node):
        return self.named_modules[node.target] if node.op == "call_module" else None

    def check_written(self, owner, writer, lost):
        if owner.op == "get_attr":
            self.refuse_write(writer.name, "tensor", owner.target)
        if lost or self.strict:
            self.refuse_write(writer.name, "input", owner.name)

    def layer(self, node):
        module = self.named_modules[node.target]
        if type(module) in self.converters:
            return self.converters[type(module)](node, self)
        inputs = [self.arg(v) for v in (*node.args, *node.kwargs.values())]
        function, args = call_of(module, inputs)
        return find(function)(self, *[self.torch_value(a) for a in args])

    def torch_value(self, value):
        """A layer's attribute: weights are expressions."""
        if not hasattr(value, "detach"):
            return value
        return self.params[value] if value in self.params else self.constant(value)

    def attribute(self, target):
        value = self.model
        for n, name in enumerate(target.split("."), 1):
            if not hasattr(value, name):
                raise TorchImportError(f"the graph reads {'.'.join(target.split('.')[:n])}, which the module lacks")
            value = getattr(value, name)
        return self.torch_value(value)

    def imported(self, input_info, keep_params, unwrap, no_bind):
        """The IRModule. keep_params: whether weights are inputs; {input: weight} of those that are inputs of the graph
        already."""
        self.inputs = [RelaxVar(f"inp_{k}", TensorStructInfo(tuple(shape), dtype_of(dtype)))
                       for k, (shape, dtype) in enumerate(input_info)]
        count, variables = len(self.inputs), list(self.inputs)
        weights = self.weights(keep_params)
        arrays = [upper("shared_ndarray")(tensor.detach()) for tensor in weights.values()]
        with self.block_builder.function("main", [*variables, *weights], {"num_input": count} if keep_params else None):
            with self.block_builder.dataflow():
                result = self.run(self.model.graph.nodes, unwrap, no_bind)
            self.block_builder.emit_func_output(result)
        mod = self.block_builder.get()
        return mod.with_function("main", mod["main"].with_attr("params", arrays)) if keep_params else mod

    def weights(self, keep):
        """{parameter of the function: weight}; where none are kept they are constants."""
        named = sorted(self.model.named_parameters(), key=lambda item: item[0])
        if not keep:
            self.params.update({tensor: self.constant(tensor) for _, tensor in named})
            return {}
        given = dict(keep) if isinstance(keep, dict) else {}
        found = {RelaxVar(name, TensorStructInfo(tuple(tensor.shape), dtype_of(tensor.dtype))): tensor
                 for name, tensor in (*given.items(), *named)}
        self.given.update({var.name: var for var in found if var.name in given})
        self.params.update({tensor: var for var, tensor in found.items()})
        return found


def from_fx(model, input_info, *, keep_params_as_input=False, unwrap_unit_return_tuple=False,
            no_bind_return_tuple=False, custom_convert_map=None):
    """The IRModule of a torch.fx.GraphModule, with the function "main".

    input_info: [(shape, dtype)] of the graph's inputs, which become inp_0, inp_1 ...; weights are constants, or inputs
    behind the others (see from_exported_program). custom_convert_map: {name of a function or class of a layer:
    f(node, importer)}, which makes a graph expression. Raises TorchImportError, which names nodes and targets.
    """
    importer = TorchFXImporter(model, custom_convert_map)
    return importer.imported(input_info, keep_params_as_input, unwrap_unit_return_tuple, no_bind_return_tuple)


__all__ = ["TorchFXImporter", "from_fx"]
