"""from_onnx with TVM's arguments, over ingot.from_onnx."""
from __future__ import annotations

import re

import numpy as np
import onnx

from ....frontend.onnx import from_onnx as _import_model
from ....ir.relax.expr import Function, RelaxVar, TensorStructInfo
from ....ir.node import Mutator
from ....runtime.ndarray import array


def from_onnx(model, shape_dict=None, dtype_dict="float32", opset=None, keep_params_in_input=False,
              sanitize_input_names=True):
    """The IRModule of an onnx.ModelProto.

    shape_dict: {input: shape}, in place of the declared ones. dtype_dict: {input: dtype}, too; a string says nothing
    that a model does not. opset: in place of the model's. keep_params_in_input: weights are inputs behind the model's,
    and the attribute "params" has their values, which relax.frontend.detach_params takes off. sanitize_input_names:
    inputs get names that are identifiers; else the model's. Attribute "num_input": how many inputs the model has.
    """
    mod = _import_model(_declared(model, shape_dict or {}, dtype_dict, opset))
    func, names = mod["main"], {}
    count = len(func.params)
    for p in func.params:
        original = getattr(p.origin, "name", p.name)
        names[p] = _sanitized(original, names.values()) if sanitize_input_names else original
    func = _renamed(func, {p: RelaxVar(n, p.struct_info, p.origin) for p, n in names.items()})
    func = func.replace(attrs={**func.attrs, "num_input": count})
    if keep_params_in_input:
        weights = {t.name for t in model.graph.initializer}
        func = _with_weights(func, weights, {p.name for p in func.params})
    return mod.with_function("main", func)


def _declared(model, shapes, dtypes, opset):
    """A copy of a model with other shapes, dtypes and opset."""
    dtypes = dtypes if isinstance(dtypes, dict) else {}
    if not shapes and not dtypes and opset is None:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    unknown = {*shapes, *dtypes} - {i.name for i in copy.graph.input}
    if unknown:
        raise ValueError(f"the model has no input {', '.join(sorted(unknown))}; it has "
                         f"{', '.join(i.name for i in copy.graph.input)}")
    for i in copy.graph.input:
        tensor = i.type.tensor_type
        if i.name in shapes:
            tensor.shape.Clear()
            for d in shapes[i.name]:
                dim = tensor.shape.dim.add()
                if isinstance(d, (int, np.integer)):
                    dim.dim_value = int(d)
                else:
                    dim.dim_param = str(d)
        if i.name in dtypes:
            tensor.elem_type = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtypes[i.name]))
    for entry in copy.opset_import:
        if opset is not None and entry.domain in ("", "ai.onnx"):
            entry.version = opset
    return copy


def _sanitized(name, taken):
    """A name as TVM makes identifiers of names: other characters are "_", "input_" comes before digits, and "_1" behind
    what is taken."""
    name = re.sub(r"[^a-zA-Z0-9_]", "_", name)
    name = name if name and not name[0].isdigit() else f"input_{name}"
    found, n, taken = name, 0, set(taken)
    while found in taken:
        n += 1
        found = f"{name}_{n}"
    return found


class _Replaced(Mutator):
    def __init__(self, found):
        super().__init__()
        self.found = found

    def visit_RelaxVar(self, var):
        return self.found.get(var, var)

    def visit_Constant(self, constant):
        return self.found.get(constant, constant)


def _renamed(func, found):
    body = _Replaced(found).visit(func.body)
    return Function(tuple(found.get(p, p) for p in func.params), body, func.ret_struct_info, func.attrs)


class _Weights(Mutator):
    """Collects the constants that are a model's weights, and puts variables in their place."""

    def __init__(self, weights, taken):
        super().__init__()
        self.weights, self.taken, self.found = weights, taken, {}

    def visit_Constant(self, constant):
        if constant.name not in self.weights:
            return constant
        key = id(constant.data)
        if key not in self.found:
            name = _sanitized(constant.name, self.taken)
            self.taken.add(name)
            info = TensorStructInfo(constant.data.shape, constant.data.dtype.name)
            self.found[key] = RelaxVar(name, info), constant.data
        return self.found[key][0]


def _with_weights(func, weights, taken):
    collect = _Weights(weights, taken)
    body = collect.visit(func.body)
    variables = [var for var, _ in collect.found.values()]
    params = [array(data) for _, data in collect.found.values()]
    names = (*func.attrs["input_names"], *(var.name for var in variables))
    return Function((*func.params, *variables), body, func.ret_struct_info,
                    {**func.attrs, "input_names": names, "params": params})


__all__ = ["from_onnx"]
