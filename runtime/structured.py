"""Networks whose inputs or outputs are sequences and optional values: lists of arrays, and None."""
from __future__ import annotations

import threading
from functools import lru_cache

import numpy as np

from .library import CompiledLibrary
from .shapes import InputError, no_such_input, wrong_count
from .values import as_arrays

MOST_KEPT = 16  # networks of a LibraryByShape
_KINDS = {"sequence": (list, tuple), "absent": type(None)}


class Structured:
    """What a library of a model with such values has before its class for a target (`structured`). `bind`, `time` and
    `profile` take the tensors that they consist of."""

    def __init__(self, model, inputs, outputs, jobs=None):
        """inputs, outputs: (name, "tensor", "sequence" or "absent", how many tensors) of the model's values."""
        super().__init__(model, jobs)
        self._values, self._results = inputs, outputs

    def __call__(self, *values):
        """Run the network: lists of arrays for sequences, None for what is absent; so are the results."""
        found = self._structured(values)
        return found[0] if len(found) == 1 else tuple(found)

    def run(self, feeds):
        names = [name for name, _, _ in self._values]
        if unknown := sorted(set(feeds) - set(names)):
            raise no_such_input(unknown[0], names)
        found = self._structured([feeds.get(name) for name in names])
        return {name: value for (name, _, _), value in zip(self._results, found)}

    def _structured(self, values):
        if len(values) != len(self._values):
            raise wrong_count(values, [name for name, _, _ in self._values])
        arrays = []
        for (name, kind, count), value in zip(self._values, values):
            if value is None and kind != "absent" or not isinstance(value, _KINDS.get(kind, object)):
                raise InputError(f"input {name!r} is {_text(value)}, and the network was compiled for "
                                 f"{_KIND_TEXTS[kind].format(count)}")
            if kind == "sequence" and len(value) != count:
                raise InputError(f"input {name!r} has {len(value)} elements, and the network was compiled for {count}")
            arrays += value if kind == "sequence" else [] if kind == "absent" else [value]
        found = iter(self.answers(arrays))
        return [None if kind == "absent" else [next(found) for _ in range(count)] if kind == "sequence" else next(found)
                for _, kind, count in self._results]


@lru_cache
def structured(library):
    """The class of libraries of such models for the target that the class `library` is for."""
    return type(f"Structured{library.__name__}", (Structured, library), {})


_KIND_TEXTS = {"tensor": "a tensor", "sequence": "a sequence of {}", "absent": "an optional value that is absent"}


def _text(value):
    return "absent" if value is None else f"a {'sequence' if isinstance(value, (list, tuple)) else 'tensor'}"


class LibraryByShape:
    """A network that is compiled when it is called, for the shapes of that call: its model leaves open how many
    elements a sequence has, whether an optional value is there, or which rank an input has."""

    def __init__(self, inputs, compile_for, shapes, error):
        """inputs: names; compile_for: function ({input: its shape, those of a sequence's elements, or None}) ->
        library; shapes: those that are given already; error: the exception to raise where shapes must be known."""
        self.input_names, self._compile, self._error = tuple(inputs), compile_for, error
        self._given, self._made, self._lock = dict(shapes or {}), {}, threading.Lock()

    def __call__(self, *values):
        """Run the network, as CompiledLibrary does, on arrays, lists of them for sequences, None for what is absent."""
        return self.library_for(*values)(*values)

    def run(self, feeds):
        """The same by name; what is not given is absent."""
        if unknown := sorted(set(feeds) - set(self.input_names)):
            raise no_such_input(unknown[0], self.input_names)
        return self.library_for(*(feeds.get(name) for name in self.input_names)).run(feeds)

    def library_for(self, *values):
        """The network of these inputs' shapes: its C can be exported."""
        if len(values) != len(self.input_names):
            raise wrong_count(values, self.input_names)
        shapes = tuple(map(_shape, as_arrays(values)[0]))
        with self._lock:
            if shapes not in self._made:
                if len(self._made) == MOST_KEPT:
                    del self._made[next(iter(self._made))]
                self._made[shapes] = self._compile({**dict(zip(self.input_names, shapes)), **self._given})
            return self._made[shapes]

    def close(self):
        """Unload all networks."""
        with self._lock:
            for library in self._made.values():
                library.close()
            self._made.clear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __getattr__(self, name):
        if name.startswith("_") or not hasattr(CompiledLibrary, name):
            raise AttributeError(name)
        raise self._error


class _Shapes(tuple):
    """Shapes of a sequence's elements: not equal to a shape, which is a tuple too."""

    def __eq__(self, other):
        return isinstance(other, _Shapes) and super().__eq__(other)

    __hash__ = tuple.__hash__


def _shape(value):
    if value is None:
        return None
    return _Shapes(map(np.shape, as_arrays(value)[0])) if isinstance(value, (list, tuple)) else np.shape(value)
