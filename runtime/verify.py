"""Comparing a compiled network with a reference evaluation of the imported graph, tensor by tensor."""
from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from rich import box
from rich.table import Table

from ..ir.expr import Var
from ..ir.relax.evaluate import evaluate
from ..ir.relax.ops.layout import unpack_channels
from .sample import sample_inputs
from .shapes import inputs_by_name, shape_text

# Elements much smaller than their tensor's largest are sums of large terms that cancel: they count as if they had at
# least this fraction of the largest magnitude.
_ULP_FLOOR = 2.0 ** -10


@dataclass(frozen=True)
class Row:
    """One tensor: its node, shape, largest absolute error, that in units of the last place, and whether it is in
    tolerance. `scale` is the reference's largest magnitude."""

    node: str
    shape: tuple[int, ...]
    error: float
    ulp: float
    scale: float
    ok: bool


@dataclass(frozen=True)
class Report:
    """The rows in order of computation; `tolerance` is relative to each tensor's largest magnitude."""

    rows: tuple[Row, ...]
    tolerance: float

    @property
    def ok(self):
        return all(row.ok for row in self.rows)

    @property
    def first_bad(self):
        """The first row out of tolerance, None when there is none."""
        return next((row for row in self.rows if not row.ok), None)

    def table(self):
        """A rich table of all rows, the first bad one highlighted."""
        table = Table("node", "shape", box=box.SIMPLE_HEAD)
        for column in ("max error", "largest value", "ULP"):
            table.add_column(column, justify="right")
        for row in self.rows:
            style = "bold white on red" if row is self.first_bad else "" if row.ok else "red"
            table.add_row(row.node, shape_text(row.shape), f"{row.error:.2e}", f"{row.scale:.2e}", f"{row.ulp:.0f}",
                          style=style)
        return table

    def summary(self):
        """One sentence."""
        if self.ok:
            return f"{len(self.rows)} tensors agree within {self.tolerance:g} of their largest value"
        bad = sum(not row.ok for row in self.rows)
        return (f"{bad} of {len(self.rows)} tensors differ by more than {self.tolerance:g} of their largest value; "
                f"the first is {self.first_bad.node}")


def compare_outputs(reference, library, feeds=None, tolerance=1e-4):
    """Run `library` and evaluate the module `reference`, which has the same outputs (see ir/transform/expose.py).

    feeds: {input name: array}; the missing ones are drawn. Returns a Report.
    """
    feeds = {**sample_inputs(library.inputs, _known_dims(library.inputs, feeds or {})), **(feeds or {})}
    arrays = inputs_by_name(library.inputs, feeds)
    found, expected = library(*arrays), evaluate(reference, arrays)
    if len(library.outputs) == 1:
        found, expected = (found,), (expected,)
    parts = reference["main"].attrs.get("parts", {})
    names = reference["main"].attrs.get("output_names", ())
    found, expected = ([_part(array, *parts.get(name, ((), ()))) for array, name in zip_longest(arrays, names)]
                       for arrays in (found, expected))
    nodes = [str(getattr(out, "origin", None) or desc.source_name)
             for out, desc in zip(reference["main"].outputs, library.outputs)]
    return Report(tuple(compare(*row, tolerance) for row in zip(nodes, found, expected)), tolerance)


def _part(array, pads, spots):
    """The tensor that lies in an array: inside a border `pads` wide, its channels at `spots` of blocks (() of either:
    of none)."""
    array = np.asarray(array)
    if pads:
        array = array[tuple(slice(before, size - after) for before, after, size in zip(
            pads[::2], pads[1::2], array.shape))]
    return unpack_channels(array)[:, list(spots)] if spots else array


def _known_dims(descs, feeds):
    """The symbolic dimensions that given inputs settle."""
    return {dim.name: size for desc in descs for name in (desc.name, desc.source_name) if name in feeds
            for dim, size in zip(desc.dims, np.shape(feeds[name])) if isinstance(dim, Var)}


def compare(node, found, reference, tolerance):
    """The Row of one tensor. Floats: error <= tolerance * largest magnitude, NaN and infinities where the reference has
    them; everything else must be equal."""
    found, reference = np.asarray(found), np.asarray(reference)
    if found.dtype.kind != "f":
        error = float(np.max(np.abs(found.astype(np.float64) - reference.astype(np.float64)), initial=0.0))
        scale = float(np.max(np.abs(reference.astype(np.float64)), initial=0.0))
        return Row(node, found.shape, error, error, scale, error == 0)
    finite = np.isfinite(reference)
    a, b = found.astype(np.float64), reference.astype(np.float64)
    scale = float(np.max(np.abs(b), initial=0.0, where=finite))
    with np.errstate(invalid="ignore"):
        difference = np.where(finite, np.abs(a - b), np.where((a == b) | np.isnan(a) & np.isnan(b), 0.0, np.inf))
    difference = np.where(np.isnan(difference), np.inf, difference)
    unit = np.spacing(np.maximum(np.abs(np.where(finite, b, 0.0)), scale * _ULP_FLOOR).astype(reference.dtype))
    error = float(np.max(difference, initial=0.0))
    ulp = float(np.max(difference / unit, initial=0.0))
    return Row(node, found.shape, error, ulp, scale, error <= tolerance * scale)
