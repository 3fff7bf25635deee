"""Reductions by canonical_simplify: what is left of one without axes, and without the values that nobody asks for."""
from __future__ import annotations

from ...expr import Select, free_vars, substitute


def simplified_reduction(simplifier, e):
    """A Reduce whose parts are simplified, as a simpler expression that is equal to it."""
    if not e.axis:
        return simplifier.visit(_of_one(e))
    return _without_unused(simplifier.an, e)


def _of_one(e):
    """What a reduction over nothing is: its source where its condition holds, combined with what it starts from."""
    n, combiner = e.value_index, e.combiner
    value, otherwise = e.source[n], combiner.identity[n]
    if e.init:
        given = (*zip(combiner.lhs, e.init), *zip(combiner.rhs, e.source))
        value, otherwise = substitute(combiner.result[n], dict(given)), e.init[n]
    return value if e.condition is None else Select(e.condition, value, otherwise)


def _without_unused(an, e):
    """`e` without the values that its result does not depend on; what acts on the world stays."""
    combiner, count = e.combiner, len(e.source)
    used, stack = set(), [e.value_index, *(i for i in range(count) if _component_acts(an, e, i))]
    while stack:
        i = stack.pop()
        if i not in used:
            used.add(i)
            mentioned = set(free_vars(combiner.result[i]))
            stack.extend(j for j in range(count) if not mentioned.isdisjoint((combiner.lhs[j], combiner.rhs[j])))
    if len(used) == count:
        return e

    def kept(values):
        return tuple(v for i, v in enumerate(values) if i in used)

    names = ("lhs", "rhs", "result", "identity")
    return e.replace(combiner=combiner.replace(**{name: kept(getattr(combiner, name)) for name in names}),
                     source=kept(e.source), init=kept(e.init),
                     value_index=sum(i < e.value_index for i in used))


def _component_acts(an, e, i):
    parts = (e.source[i], e.combiner.identity[i], e.combiner.result[i], *e.init[i:i + 1])
    return any(map(an.acts, parts))
