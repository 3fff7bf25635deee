"""Instruments: what watches passes run. Give them to PassContext(instruments=[...])."""
from __future__ import annotations

import inspect
import time
from dataclasses import dataclass, field

from ..relax.verifier import verify


class PassInstrument:
    """Base of instruments; override what matters. A pass for which any should_run is False is left out."""

    def enter_pass_ctx(self):
        """Called when the context is entered."""

    def exit_pass_ctx(self):
        """Called when the context is left."""

    def should_run(self, mod, info):
        """Whether the pass runs. info: its PassInfo."""
        return True

    def run_before_pass(self, mod, info):
        """Called with the module that the pass gets."""

    def run_after_pass(self, mod, info):
        """Called with the module that the pass returned."""


def pass_instrument(cls=None):
    """Class decorator: a class with any of PassInstrument's methods becomes an instrument."""
    def decorate(cls):
        if not inspect.isclass(cls):
            raise TypeError("pass_instrument decorates a class")
        return cls if issubclass(cls, PassInstrument) else type(cls.__name__, (cls, PassInstrument), {
            "__doc__": cls.__doc__, "__module__": cls.__module__})
    return decorate if cls is None else decorate(cls)


@dataclass
class _Timing:
    name: str
    seconds: float = 0.0
    inner: list = field(default_factory=list)


class PassTimingInstrument(PassInstrument):
    """Times passes; `render()` is a table of them, passes inside of others indented."""

    def __init__(self):
        self._clear()

    def _clear(self):
        self.top = _Timing("total")
        self.open = [(self.top, 0.0)]

    enter_pass_ctx = _clear

    def exit_pass_ctx(self):
        """Timings stay readable after the context; the next one starts anew."""

    def run_before_pass(self, mod, info):
        timing = _Timing(info.name)
        self.open[-1][0].inner.append(timing)
        self.open.append((timing, time.perf_counter()))

    def run_after_pass(self, mod, info):
        while len(self.open) > 1:  # what a failing pass left open is closed as well
            timing, start = self.open.pop()
            timing.seconds = time.perf_counter() - start
            if timing.name == info.name:
                return

    def render(self):
        """Lines "pass, milliseconds, milliseconds without inner passes, percent of all"; "" before any pass ran."""
        total = sum(t.seconds for t in self.top.inner)
        rows = []

        def add(timing, depth):
            own = timing.seconds - sum(t.seconds for t in timing.inner)
            share = 100 * timing.seconds / total if total else 0.0
            rows.append(("  " * depth + timing.name, f"{timing.seconds * 1e3:.3f}", f"{own * 1e3:.3f}", f"{share:.1f}"))
            for inner in timing.inner:
                add(inner, depth + 1)

        for timing in self.top.inner:
            add(timing, 0)
        if not rows:
            return ""
        rows = [("pass", "ms", "own ms", "%"), *rows, ("total", f"{total * 1e3:.3f}", "", "100.0")]
        widths = [max(len(r[n]) for r in rows) for n in range(4)]
        return "\n".join("  ".join([r[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(r[1:], widths[1:]))]).rstrip()
                         for r in rows)


class PassPrintingInstrument(PassInstrument):
    """Prints the module before and after the passes of the given names; None means all passes."""

    def __init__(self, print_before_pass_names=(), print_after_pass_names=()):
        self.names = {"before": print_before_pass_names, "after": print_after_pass_names}

    def _print(self, when, mod, info):
        names = self.names[when]
        if names is None or info.name in names:
            print(f"# {when.capitalize()} Running Pass: {info.name}\n{mod.script()}")

    def run_before_pass(self, mod, info):
        self._print("before", mod, info)

    def run_after_pass(self, mod, info):
        self._print("after", mod, info)


class PrintBeforeAll(PassPrintingInstrument):
    """Prints the module before every pass."""

    def __init__(self):
        super().__init__(print_before_pass_names=None)


class PrintAfterAll(PassPrintingInstrument):
    """Prints the module after every pass."""

    def __init__(self):
        super().__init__(print_after_pass_names=None)


class WellFormedInstrument(PassInstrument):
    """Verifies every function before the first pass and after each; raises what the verifier does, naming the pass."""

    def __init__(self):
        self.started = False

    def enter_pass_ctx(self):
        self.started = False

    def run_before_pass(self, mod, info):
        if not self.started:
            self.started = True
            _verify(mod, "before", info)

    def run_after_pass(self, mod, info):
        _verify(mod, "after", info)


def _verify(mod, when, info):
    try:
        verify(mod)
    except ValueError as error:
        raise type(error)(f"{when} pass {info.name}: {error}") from error
