"""Sizes of symbolic dimensions that a network is defined for: a run refuses others, the self-test takes none."""
from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from ..ir.arith import Analyzer
from ..ir.expr import EQ, GE, IntImm, PrimExpr, Range, binary, const, free_vars
from ..ir.relax.control import all_bindings, graph_functions
from ..ir.relax.evaluate import dim_value
from ..ir.relax.expr import TupleStructInfo
from ..ir.relax.ops.common import as_dim, dim_text

SIZES = (3, 4, 6, 8, 16, 32, 64, 128, 224, 512)  # that the self-test may take, the first that fits
MOST_DIM = (1 << 31) - 1  # a run takes symbolic dimensions of 1 to MOST_DIM


@dataclass(frozen=True)
class DimCheck:
    """A condition on symbolic dimensions: `left`, an expression of them, is at least `right` (">="), or equal
    to it ("==")."""

    left: PrimExpr
    relation: str
    right: PrimExpr

    def holds(self, sizes):
        """Whether it does under {symbolic dimension: size}."""
        known = {v: sizes[v.name] for v in free_vars([self.left, self.right])}
        left, right = dim_value(self.left, known), dim_value(self.right, known)
        return left == right if self.relation == "==" else left >= right

    @property
    def cond(self):
        """The same as an expression."""
        return binary(EQ if self.relation == "==" else GE, self.left, self.right)

    def __str__(self):
        return f"{dim_text(self.left)} {self.relation} {dim_text(self.right)}"


def dim_checks(mod):
    """The DimChecks of a graph module, each once: dimensions keep their bounds, those are equal that the import takes
    to be so, no dimension of a tensor is negative, a reshape keeps the number of elements, an update lies inside. What
    holds for all sizes is not among them, nor what depends on dimensions that a run decides."""
    most = [DimCheck(const(most, "int64"), ">=", var) for var, most in mod.attrs.get("most", ())]
    equal = [DimCheck(as_dim(a), "==", as_dim(b)) for a, b in mod.attrs.get("equal", ())]
    return (*most, *equal, *_of_callers(_checks(all_bindings(mod))))


def run_checks(mod):
    """{name of "main" or of a body: those of its DimChecks that depend on dimensions that a run decides}."""
    return {name: tuple(c for c in _checks(func.bindings) if not _of_callers([c]))
            for name, func in graph_functions(mod).items()}


def _of_callers(checks):
    """Those checks that depend on dimensions that callers pass, alone."""
    return tuple(c for c in checks if all(v.most is None for v in free_vars([c.left, c.right])))


def _checks(bindings):
    found = {str(c): c for c in _at_least(bindings, 0)}
    for b in bindings:
        info = b.var.struct_info
        if getattr(b.value, "op", None) == "update_slice":
            axis, update = b.value.attrs["axis"], b.value.args[1].struct_info
            check = DimCheck(info.shape[axis], ">=", update.shape[axis] + as_dim(b.value.attrs["begin"]))
            found[str(check)] = check
        if getattr(b.value, "op", None) == "reshape":
            before, after = (reduce(lambda a, d: a * d, i.shape, const(1, "int64"))
                             for i in (b.value.args[0].struct_info, info))
            if free_vars([before, after]) and not _analyzer(before, after).can_prove_equal(before, after):
                check = DimCheck(before, "==", after)
                found[str(check)] = check
    return tuple(found.values())


def example_sizes(mod, dims, checks):
    """{symbolic dimension: the least of SIZES} with which all checks hold and, where that can be, no tensor is empty.
    dims: the names of the symbolic dimensions. Raises ValueError where no size fits."""
    full = (*checks, *_of_callers(_at_least(all_bindings(mod), 1)))
    sizes = dims and next(filter(None, (_least_sizes(dims, some, known) for known in (SIZES, (1, 2, *SIZES))
                                        for some in (full, checks))), None)
    if sizes is None:
        raise ValueError(f"the symbolic dimensions {', '.join(dims)} have no sizes up to {SIZES[-1]} with which "
                         f"{' and '.join(map(str, checks))}: pin them with dims")
    return sizes or {}


def _least_sizes(dims, checks, known):
    """Sizes, of `known` ones, for which the checks hold; None where there are none. Dimensions of checks that fail
    grow."""
    at = dict.fromkeys(dims, 0)
    while True:
        sizes = {name: known[n] for name, n in at.items()}
        failed = [c for c in checks if not c.holds(sizes)]
        if not failed:
            return sizes
        late = {v.name for c in failed for v in free_vars([c.left, c.right]) if at[v.name] + 1 < len(known)}
        if not late:
            return None
        at |= {name: at[name] + 1 for name in late}


def _at_least(bindings, least):
    """DimChecks that each symbolic dimension of the tensors is so large, where that does not hold for all sizes."""
    found = {}
    for b in bindings:
        info = b.var.struct_info
        for field in info.fields if isinstance(info, TupleStructInfo) else (info,):
            for dim in getattr(field, "shape", None) or ():
                found.setdefault(str(dim), dim)
    bound = const(least, "int64")
    return [DimCheck(d, ">=", bound) for d in found.values() if free_vars(d) and not _analyzer(d).can_prove(d >= bound)]


def _analyzer(*dims):
    """An Analyzer that knows the range of the symbolic dimensions."""
    analyzer = Analyzer()
    for var in free_vars(list(dims)):
        first = 0 if var.may_be_zero else 1
        last = var.most.value if isinstance(var.most, IntImm) else MOST_DIM
        analyzer.bind(var, Range(const(first, var.dtype), const(last - first + 1, var.dtype)))
    return analyzer
