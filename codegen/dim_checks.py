"""Sizes of symbolic dimensions that a network is defined for: a run refuses others, the self-test takes none."""
from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import count

from ..ir.arith import Analyzer
from ..ir.expr import EQ, GE, IntImm, PrimExpr, Range, Var, binary, const, free_vars
from ..ir.node import collect, structural_equal
from ..ir.relax.control import all_bindings, graph_functions
from ..ir.relax.evaluate import dim_value
from ..ir.relax.expr import TupleStructInfo
from ..ir.relax.ops.common import as_dim, dim_text

SIZES = (3, 4, 6, 8, 16, 32, 64, 128, 224, 512)  # that the self-test may take, the first that fits
MOST_TRIED = 20_000  # sizes of one dimension beside those of others
MOST_DIVIDED = 1 << 16  # a number of a check whose divisors are tried
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
        """The condition as an expression."""
        return binary(EQ if self.relation == "==" else GE, self.left, self.right)

    def __str__(self):
        return f"{dim_text(self.left)} {self.relation} {dim_text(self.right)}"


def dim_checks(mod):
    """The DimChecks of a graph module that every run makes first, each once: dimensions keep their bounds, no dimension
    of a tensor is negative, a reshape of "main" keeps the number of elements, an update lies inside. What holds for all
    sizes is not among them, nor what depends on dimensions that a run decides."""
    most = [DimCheck(const(most, "int64"), ">=", var) for var, most in mod.attrs.get("most", ())]
    return (*most, *_of_callers((*_at_least(all_bindings(mod), 0), *_of_operators(mod["main"].bindings))))


def run_checks(mod):
    """{name of "main" or of a body: the DimChecks that are made where it runs}: those that depend on dimensions that a
    run decides, and of a body, which a run may leave out, all of its operators."""
    found = {}
    for name, func in graph_functions(mod).items():
        sizes, own = _at_least(func.bindings, 0), _of_operators(func.bindings)
        found[name] = (*(c for c in sizes if not _of_callers([c])),
                       *(c for c in own if name != "main" or not _of_callers([c])))
    return found


def _of_callers(checks):
    """The checks that depend only on dimensions that callers pass."""
    return tuple(c for c in checks if all(v.most is None for v in free_vars([c.left, c.right])))


def _of_operators(bindings):
    """DimChecks that reshapes keep the number of elements and updates lie inside what they change, each once."""
    found = {}
    for b in bindings:
        info = b.var.struct_info
        if getattr(b.value, "op", None) == "update_slice":
            axis, update = b.value.attrs["axis"], b.value.args[1].struct_info
            check = DimCheck(info.shape[axis], ">=", update.shape[axis] + as_dim(b.value.attrs["begin"]))
            found[str(check)] = check
        if getattr(b.value, "op", None) == "reshape":
            before, after = (reduce(lambda a, d: a * d, dims, const(1, "int64"))
                             for dims in _without_common(b.value.args[0].struct_info.shape, info.shape))
            if free_vars([before, after]) and not _analyzer(before, after).can_prove_equal(before, after):
                check = DimCheck(before, "==", after)
                found[str(check)] = check
    return tuple(found.values())


def _without_common(a, b):
    """Two shapes less the dimensions that both have and that are not 0."""
    a, b = list(a), list(b)
    for d in tuple(a):
        same = next((k for k, e in enumerate(b) if structural_equal(d, e)), None)
        if same is not None and (d.value > 0 if isinstance(d, IntImm) else isinstance(d, Var) and not d.may_be_zero):
            del a[next(k for k, e in enumerate(a) if e is d)]
            del b[same]
    return a, b


def example_sizes(mod, dims, checks):
    """{symbolic dimension: the least of SIZES} with which all checks hold and, where that can be, no tensor is empty;
    of other sizes where these do not. dims: the names of the symbolic dimensions. Raises ValueError where no size
    fits."""
    full = (*checks, *_of_callers(_at_least(all_bindings(mod), 1)))
    ways = ((_least_sizes, full), (_least_sizes, checks), (_searched, full), (_searched, checks))
    sizes = dims and next((found for way, some in ways if (found := way(dims, some))), None)
    if sizes is None:
        raise ValueError(f"no sizes of the symbolic dimensions {', '.join(dims)} were found with which "
                         f"{' and '.join(map(str, checks))}: pin them with dims")
    return sizes or {}


def _least_sizes(dims, checks):
    """Those of SIZES for which the checks hold; None where there are none. Dimensions of checks that fail grow."""
    at = dict.fromkeys(dims, 0)
    while True:
        sizes = {name: SIZES[n] for name, n in at.items()}
        failed = [c for c in checks if not c.holds(sizes)]
        if not failed:
            return sizes
        late = {v.name for c in failed for v in free_vars([c.left, c.right]) if at[v.name] + 1 < len(SIZES)}
        if not late:
            return None
        at |= {name: at[name] + 1 for name in late}


def _searched(dims, checks):
    """Sizes for which the checks hold, found by trial; None where MOST_TRIED trials find none."""
    known = {abs(n.value) for c in checks for n in collect([c.left, c.right], IntImm)}
    known = {n for n in known if 0 < n <= MOST_DIVIDED}
    divisors = {d for n in known for d in range(1, n + 1) if n % d == 0}
    sizes = list(dict.fromkeys((*SIZES, *range(1, SIZES[-5]), *sorted(divisors | {n + 1 for n in known}))))
    names = {c: {v.name for v in free_vars([c.left, c.right])} for c in checks}
    order = list(dict.fromkeys(n for c in sorted(checks, key=lambda c: len(names[c])) for n in sorted(names[c])))
    due = [[c for c in checks if order[k] in names[c] <= set(order[:k + 1])] for k in range(len(order))]
    trials = count()

    def found(k, chosen):
        if k == len(order):
            return chosen
        for size in sizes:
            if next(trials) > MOST_TRIED:
                return None
            given = {**chosen, order[k]: size}
            if all(c.holds(given) for c in due[k]) and (whole := found(k + 1, given)):
                return whole
        return None

    some = found(0, {})
    return None if some is None else {name: some.get(name, SIZES[0]) for name in dims}


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
