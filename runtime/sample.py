"""Inputs for networks whose caller gives none."""
from __future__ import annotations

from ..codegen.compile import sample_arrays
from ..ir.expr import free_vars


def sample_inputs(descs, dims=None, seed=0):
    """{source name: array} that fits the declared inputs, as the self-test's are. Dimensions that `dims` does not
    give are 1."""
    names = (var.name for desc in descs for dim in desc.dims for var in free_vars(dim))
    values = {**dict.fromkeys(names, 1), **(dims or {})}
    return {desc.source_name: array for desc, array in zip(descs, sample_arrays(descs, values, seed))}
