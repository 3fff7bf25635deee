"""TensorIntrin: a hardware instruction or C micro-kernel as data: what it computes, and how it is called."""
from __future__ import annotations

import re

from ..node import structural_equal
from ..tir.function import PrimFunc

_KNOWN: dict[str, "TensorIntrin"] = {}
_FAMILIES: dict[str, object] = {}  # pattern of names -> (its numbers) -> (desc, impl)
_DECLARED: set[str] = set()  # those of _KNOWN that a family made


class TensorIntrin:
    """desc: a PrimFunc of plain loops that says what is computed. impl: a PrimFunc of the same parameters that does it.

    tensorize replaces a nest equal to desc by the body of impl. That impl computes what desc says is the caller's
    word: of a call of a C function nothing can be proved.
    """

    def __init__(self, name, desc, impl):
        self.name, self.desc, self.impl = name, desc, impl

    @staticmethod
    def register(name, desc, impl, override=False):
        """Make an intrinsic known under `name`; returns it.

        Raises TypeError unless desc and impl are PrimFuncs over buffers alone, ValueError unless these agree in number,
        dtype and shape, or when the name is taken and not `override`.
        """
        for what, func in (("desc", desc), ("impl", impl)):
            if not isinstance(func, PrimFunc) or len(func.buffers) != len(func.params):
                raise TypeError(f"TensorIntrin {name}: {what} must be a PrimFunc whose parameters are all buffers")
        if len(desc.params) != len(impl.params):
            raise ValueError(f"TensorIntrin {name}: desc has {len(desc.params)} parameters, impl {len(impl.params)}")
        for a, b in zip(desc.buffers, impl.buffers):
            if a.dtype != b.dtype or not structural_equal(a.shape, b.shape):
                raise ValueError(f"TensorIntrin {name}: parameter {a.name} of desc is {_layout(a)}, "
                                 f"{b.name} of impl {_layout(b)}")
        if name in _KNOWN and not override:
            raise ValueError(f"TensorIntrin {name} is registered already; pass override=True to replace it")
        if override:
            _DECLARED.discard(name)
        _KNOWN[name] = TensorIntrin(name, desc, impl)
        return _KNOWN[name]

    @staticmethod
    def replaced():
        """The names of families' intrinsics that are others than their family declares: kernels that use them are of
        this process alone."""
        return [name for name in _KNOWN if name not in _DECLARED and any(re.fullmatch(p, name) for p in _FAMILIES)]

    @staticmethod
    def family(pattern, declare):
        """Make intrinsics of any size known: for a name that the regular expression `pattern` matches, and the numbers
        and words that it finds in it, declare(*found) gives (desc, impl). So a recorded schedule replays anywhere."""
        _FAMILIES[pattern] = declare

    @staticmethod
    def get(name, allow_missing=False):
        """The intrinsic called `name`. Raises ValueError when there is none, or gives None with allow_missing."""
        for pattern, declare in _FAMILIES.items():
            found = None if name in _KNOWN else re.fullmatch(pattern, name)
            if found:
                _DECLARED.add(name)
                return TensorIntrin.register(name, *declare(*map(_number_or_text, found.groups())))
        if name not in _KNOWN and not allow_missing:
            raise ValueError(f"TensorIntrin {name} is not registered; known: {', '.join(_KNOWN) or 'none'}")
        return _KNOWN.get(name)


def _number_or_text(found):
    return int(found) if found and found.isdigit() else found


def _layout(buffer):
    return f"{buffer.dtype}[{', '.join(map(str, buffer.shape))}]"
