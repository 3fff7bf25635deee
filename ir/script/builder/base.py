"""IRBuilder: programs made by calls of Python's, `with` by `with`, in the words of scripts.

    with IRBuilder() as ib:
        with T.prim_func():
            A = T.arg("A", T.Buffer((8,), "float32"))
            with T.serial(8) as i:
                T.buffer_store(A, A[i] + T.float32(1), [i])
    func = ib.get()

Each `with` is a frame, which gathers what stands in it. Where it ends, what it made goes to the frame around it, or is
the builder's result.
"""
from __future__ import annotations

import threading

from ...expr import IterVar, Var
from ...relax.expr import RelaxExpr
from ...tir.buffer import Buffer


class _Open(threading.local):
    """The builders of a thread that are in their `with`, innermost last."""

    def __init__(self):
        self.builders = []


_OPEN = _Open()


class IRBuilder:
    """frames: those that are open, innermost last."""

    def __init__(self):
        self.frames, self._result = [], None

    def __enter__(self):
        _OPEN.builders.append(self)
        return self

    def __exit__(self, kind, error, trace):
        _OPEN.builders.pop()
        if kind is None and self.frames:
            raise ValueError(f"the IRBuilder ends inside {self.frames[-1].title}")

    @staticmethod
    def current():
        """The builder whose `with` this is. Raises ValueError outside of any."""
        if not _OPEN.builders:
            raise ValueError("no IRBuilder is in its `with`: write `with IRBuilder() as ib:` around this")
        return _OPEN.builders[-1]

    @staticmethod
    def is_in_scope():
        """Whether this stands inside `with IRBuilder()`."""
        return bool(_OPEN.builders)

    def get(self):
        """What was built: a module, function or statement. Raises ValueError where there is nothing."""
        if self._result is None:
            raise ValueError("the IRBuilder has built nothing yet: its outermost frame is open, or there was none")
        return self._result

    def add(self, made):
        """Take what a frame, or a call outside of frames, made."""
        if self.frames:
            return self.frames[-1].add(made)
        if self._result is not None:
            raise ValueError("an IRBuilder builds one thing, and this is a second: put both into one frame")
        self._result = made

    def find(self, kind):
        """The innermost open frame of a kind, or None."""
        return next((f for f in reversed(self.frames) if isinstance(f, kind)), None)

    @staticmethod
    def name(s, v):
        """Give a variable, iterator or buffer a name; v itself. Several in a list are name_0, name_1 ..."""
        if isinstance(v, (list, tuple)):
            for n, one in enumerate(v):
                IRBuilder.name(f"{s}_{n}", one)
        elif isinstance(v, IterVar):
            IRBuilder.name(s, v.var)
        elif isinstance(v, (Var, Buffer)) or isinstance(v, RelaxExpr) and hasattr(v, "name"):
            object.__setattr__(v, "name", str(s))  # made here, and seen by nobody who keeps names
            if isinstance(v, Buffer) and v.data is not None and not v.data.name:
                object.__setattr__(v.data, "name", str(s))
        return v

    @staticmethod
    def name_many(s, vs):
        """Give each of `vs` its name of `s`."""
        if len(s) != len(vs):
            raise ValueError(f"{len(s)} names for {len(vs)} values")
        return [IRBuilder.name(one, v) for one, v in zip(s, vs)]


class IRBuilderFrame:
    """Base of frames. `title` says in errors which it is.

    A frame's `opened(builder)` gives what stands after `as`; `closed(builder)` hands over what it made; `add(made)`
    takes what a frame inside it made.
    """

    title = "a frame"

    def __enter__(self):
        builder = IRBuilder.current()
        self._callbacks = []
        value = self.opened(builder)
        builder.frames.append(self)
        return value

    def __exit__(self, kind, error, trace):
        builder = IRBuilder.current()
        if kind is not None:  # what was begun inside is lost with it
            del builder.frames[builder.frames.index(self) if self in builder.frames else len(builder.frames):]
            return self.dropped(kind, error, trace)
        for callback in reversed(self._callbacks):
            callback()
        if not builder.frames or builder.frames[-1] is not self:
            raise ValueError(f"{self.title} ends before what was begun inside it")
        self.close_inside(builder)
        builder.frames.pop()
        self.closed(builder)

    def add_callback(self, callback):
        """Call `callback()` before this frame ends: the last one given first."""
        self._callbacks.append(callback)

    def opened(self, builder):
        return self

    def close_inside(self, builder):
        """What is to be done before the frame leaves the stack."""

    def closed(self, builder):
        """Hand over what was made."""

    def dropped(self, kind, error, trace):
        """What is to be done where an exception ends the frame."""

    def add(self, made):
        raise ValueError(f"a {type(made).__name__} inside {self.title}, where it has no meaning")


__all__ = ["IRBuilder", "IRBuilderFrame"]
