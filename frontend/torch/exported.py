"""from_exported_program: what torch.export.export gives."""
from __future__ import annotations

from ...ir.relax.expr import RelaxVar, TensorStructInfo
from ...ir.upper import upper
from .dtypes import dtype_of, torch
from .importer import Importer, SharedWriteError, TorchImportError, target_of
from .symbols import Symbols
from .table import find

_STATE = {"BUFFER": "buffer", "PARAMETER": "parameter", "CONSTANT_TENSOR": "constant"}


class ExportedProgramImporter(Importer):
    """The import of one ExportedProgram."""

    def __init__(self, program, keep_params):
        super().__init__()
        self.program, self.keep_params = program, keep_params
        self.symbols = Symbols(program.range_constraints)

    def inputs(self):
        """(the function's parameters, those of the user first; {name of a placeholder: its value})"""
        user, params, values = [], [], {}
        metas = {node.name: node.meta for node in self.program.graph.nodes if node.op == "placeholder"}
        for spec in self.program.graph_signature.input_specs:
            name, kind = spec.arg.name, spec.kind.name
            if kind == "USER_INPUT":
                values[name] = self.user_input(spec.arg, metas[name].get("val"))
                user += [values[name]] if isinstance(values[name], RelaxVar) else []
            elif kind == "PARAMETER" and self.keep_params:
                tensor = self.program.state_dict[spec.target]
                values[name] = self.variable(name, tensor)
                params.append((values[name], tensor))
            elif kind in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
                values[name] = self.constant(self.tensor_of(spec.target))
            else:
                raise TorchImportError(f"input {name!r} is {kind}; only tensors can be inputs")
        return user, params, values

    def tensor_of(self, target):
        state = self.program.state_dict
        return state[target] if target in state else self.program.constants[target]

    def variable(self, name, tensor):
        return RelaxVar(name, TensorStructInfo(self.symbols.dims(tensor.shape), dtype_of(tensor.dtype)))

    def user_input(self, arg, meta):
        """A parameter of the function, or a number that the export has fixed."""
        if hasattr(meta, "dtype"):
            return self.variable(arg.name, meta)
        if hasattr(arg, "value"):
            return arg.value
        raise TorchImportError(f"input {arg.name!r} is {meta!r}; inputs are tensors, from whose shapes a program has "
                               "its symbolic sizes")

    def source(self, node):
        """Where torch has taken an operator apart, that operator's."""
        before, first = node.meta.get("from_node"), None
        while before:
            first, before = before[0], before[0].from_node
        return (first.name, first.target) if first else super().source(node)

    def value_of(self, node):
        if node.op == "placeholder":
            return self.values[node.name]
        if node.op == "get_attr":
            return self.constant(_attribute(self.program.graph_module, node.target))
        return super().value_of(node)

    def result_dim(self, axis):
        """torch.export has proved what sizes are, by the ranges of symbolic ones."""
        shape = getattr(self.node.meta.get("val"), "shape", None)
        return None if shape is None else self.symbols.dim(shape[axis])

    def check_written(self, owner, writer, lost):
        spec = {s.arg.name: s for s in self.program.graph_signature.input_specs}.get(owner.name)
        if spec is None or spec.kind.name in _STATE:
            kind, name = ("constant", owner.name) if spec is None else (_STATE[spec.kind.name], spec.target)
            self.refuse_write(writer.name, kind, name)
        if lost:
            self.refuse_write(writer.name, "input", owner.name)

    def output(self, value, unwrap, no_bind):
        """The results that a user gets. Decomposed programs give the new values of what they wrote to before these."""
        specs = self.program.graph_signature.output_specs
        results = {s.arg.name for s in specs if s.kind.name == "USER_OUTPUT"}
        for spec in specs:
            kind = spec.kind.name.removesuffix("_MUTATION").removeprefix("USER_").lower()
            if spec.kind.name.endswith("_MUTATION") and not (kind == "input" and spec.arg.name in results):
                self.refuse_write(spec.arg.name, kind, spec.target)
        value = tuple(v for v, s in zip(value, specs) if s.kind.name == "USER_OUTPUT")
        return super().output(value, unwrap, no_bind)

    def imported(self, unwrap, no_bind):
        user, params, self.values = self.inputs()
        attrs = {"num_input": len(user)} if self.keep_params else None
        with self.block_builder.function("main", [*user, *(var for var, _ in params)], attrs):
            with self.block_builder.dataflow():
                result = self.run(self.program.graph.nodes, unwrap, no_bind)
            self.block_builder.emit_func_output(result)
        mod = self.block_builder.get()
        most = tuple((var, self.symbols.upper[name]) for name, var in self.symbols.vars.items()
                     if name in self.symbols.upper)
        if most:
            mod = mod.with_attrs({"most": most})
        if self.keep_params:
            arrays = [upper("shared_ndarray")(tensor.detach()) for _, tensor in params]
            mod = mod.with_function("main", mod["main"].with_attr("params", arrays))
        return mod


def _decomposed(program):
    """The program with each operator that no converter knows in terms of others, where torch has a rule for it."""
    tried = set()
    while True:
        missing = {node.target for node in program.graph.nodes if node.op == "call_function"
                   and find(target_of(node)) is None} - tried
        rules = _rules_of(missing) if missing else {}
        if not rules:
            return program
        tried |= missing
        program = _taken_apart(program, rules)


def _taken_apart(program, rules):
    """The program by rules, without those that torch itself cannot apply: their operators are then what is missing."""
    try:
        return program.run_decompositions(rules)
    except Exception:  # of many kinds; what a rule does is torch's
        if len(rules) == 1:
            return program
    for item in rules.items():
        program = _taken_apart(program, dict([item]))
    return program


def _rules_of(targets):
    """{operator: torch's function that computes it by simpler ones}"""
    operators = [t for t in targets if isinstance(t, torch()._ops.OpOverload)]
    composite = torch().export.default_decompositions()
    return {**torch()._decomp.get_decompositions(operators), **{o: composite[o] for o in operators if o in composite}}


def _attribute(module, target):
    for name in target.split("."):
        module = getattr(module, name)
    return module


def from_exported_program(exported_program, *, keep_params_as_input=False, unwrap_unit_return_tuple=False,
                          no_bind_return_tuple=False):
    """The IRModule of a torch.export.ExportedProgram, with the function "main".

    Its parameters are the program's inputs, of which torch.export.Dim are symbolic dimensions; weights and buffers are
    constants, or weights inputs behind the others with keep_params_as_input: then the attribute "params" has their
    values (relax.frontend.detach_params), and "num_input" says how many inputs come before. The result is a tuple, as
    the program's; unwrap_unit_return_tuple: of one result, the result itself; no_bind_return_tuple: the tuple is not
    bound to a variable. A program may write to an input where the new value is one of its results. Raises
    TorchImportError (a ValueError), which names nodes and targets.
    """
    def imported(program):
        importer = ExportedProgramImporter(program, keep_params_as_input)
        return importer.imported(unwrap_unit_return_tuple, no_bind_return_tuple)
    program = _decomposed(exported_program)
    try:
        return imported(program)
    except SharedWriteError:
        return imported(program.run_decompositions({}))  # the same program without writes


__all__ = ["ExportedProgramImporter", "from_exported_program"]
