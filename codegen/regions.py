"""Which threads make the calls of a program: calls in a row become regions, in which a team of threads makes them."""
from __future__ import annotations

from itertools import groupby

from .tree import Call, Seq, map_children


def form_regions(tree, functions):
    """A tree whose calls of a team's kernels are in regions. functions: {kernel: its CFunction}.

    A region reaches from the first call with shared work to the last, as starting a team costs more than keeping it
    waiting, but not over a call that may leave the run, nor over what is no call.
    """
    if not isinstance(tree, Seq):
        return map_children(lambda body: form_regions(body, functions), tree)
    if tree.threads:
        return tree
    items = []
    for shared, some in groupby(tree.items, key=lambda n: isinstance(n, Call) and not functions[n.kernel].can_fail):
        items += _with_region(list(some), functions) if shared else [form_regions(n, functions) for n in some]
    return Seq(tuple(items))


def _with_region(calls, functions):
    """Calls in a row, none of which may leave the run, with those of a team and what is between them as one region."""
    teams = [functions[c.kernel].team for c in calls]
    if not any(teams):
        return calls
    first, last = teams.index(True), len(teams) - teams[::-1].index(True)
    inside = [tuple(group) for _, group in groupby(calls[first:last], key=lambda c: functions[c.kernel].team)]
    groups = [Seq(group, _who(group, following, functions)) for group, following in zip(inside, [*inside[1:], ()])]
    return [*calls[:first], Seq(tuple(groups), "region"), *calls[last:]]


def _who(group, following, functions):
    """Who makes the calls of a group in a region. What goes around a tensor may be written while others compute the
    tensor, as long as they wait for it then."""
    if functions[group[0].kernel].team:
        return "team"
    read = {o.index for o in following[0].operands[:following[0].reads] if o.kind == "arena"}
    apart = all(c.border and read.isdisjoint(o.index for o in c.operands) for c in group)
    return "first" if apart and functions[following[0].kernel].waits else "single"
