"""What a graph of torch writes in place, and whose memory that is.

Graphs here have no memory: a write gives a new value, and all names of the written tensor then stand for it. That is
right unless other tensors share the memory, and are read behind the write, or the memory outlives the call.
"""
from __future__ import annotations

import inspect

from .table import IN_PLACE

# Operators whose result is, or may be, the memory of their first argument.
_VIEWS = frozenset("""select slice view reshape permute transpose t unsqueeze squeeze expand narrow unbind split chunk
diagonal flatten unflatten detach alias split_with_sizes movedim contiguous to float double half bfloat16 long int
type type_as dropout feature_dropout alpha_dropout feature_alpha_dropout stochastic_depth view_as reshape_as expand_as
swapaxes swapdims moveaxis ravel numpy_T mT mH adjoint matrix_H atleast_1d atleast_2d atleast_3d tensor_split hsplit
vsplit dsplit broadcast_to cpu positive lift_fresh unfold resolve_conj resolve_neg view_as_complex view_as_real real
imag conj getitem getattr requires_grad_ detach_ squeeze_ unsqueeze_ Identity Flatten Unflatten Dropout Dropout1d
Dropout2d AlphaDropout StochasticDepth""".split())


class Memory:
    """Which nodes of a graph are names of one tensor, and which tensors share memory, as nodes come one by one."""

    def __init__(self):
        self._names, self._owner, self._sharing = {}, {}, {}
        self._old = {}  # {node whose tensor has changed under another name: the node that wrote}
        self._writers = {}  # {owner: the first node that writes to its memory}

    def read_old(self, node):
        """(an argument of a node that no longer has the value it was given, the node that wrote there), or None."""
        return next(((given, self._old[given]) for given in node.all_input_nodes if given in self._old), None)

    def made(self, node, of=None):
        """A node gives a tensor of its own, or a view of `of`."""
        owner = self._owner[node] = node if of is None else self._owner[of]
        self._names[node] = [node]
        self._sharing.setdefault(owner, []).append(node)

    def written(self, node, target):
        """A node writes to the tensor of `target`; all nodes that now stand for the node's value."""
        owner, names = self._owner[target], self._names[target]
        self._writers.setdefault(owner, node)
        self._old.update((n, node) for n in self._sharing[owner] if n not in names)
        names.append(node)
        self._names[node], self._owner[node] = names, owner
        self._sharing[owner].append(node)
        return names

    def lost(self, results):
        """(owner, the node that writes, whether none of the results is its new value) of written memory that is not
        the graph's own."""
        for owner, writer in self._writers.items():
            if owner.op in ("placeholder", "get_attr"):
                yield owner, writer, owner in self._old or not set(self._names[owner]) & set(results)


def changes(node, name, layer=None):
    """Whether a node writes to its first argument. name: its target's; layer: what a call_module calls."""
    if layer is not None:
        return bool(getattr(layer, "inplace", False))
    base = name.partition(".")[0]
    if base in IN_PLACE or base.endswith("_") and not base.startswith("__") and base not in _VIEWS:
        return True
    if inspect.isfunction(node.target):
        try:
            return bool(inspect.signature(node.target).bind(*node.args, **node.kwargs).arguments.get("inplace"))
        except TypeError:
            return False  # no such call; the converter says so
    return bool(node.kwargs.get("inplace"))


def is_view(name):
    """Whether the result of an operator may be the memory of its first argument."""
    return name.partition(".")[0] in _VIEWS


__all__ = ["Memory", "changes", "is_view"]
