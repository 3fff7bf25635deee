"""DispatchedLibrary: a network for several targets. Python runs the best that fits, as the C does that it exports."""
from __future__ import annotations

from pathlib import Path

from ..codegen.target import Target, is_supported_here
from .library import CompiledLibrary


class DispatchedLibrary(CompiledLibrary):
    """A CompiledLibrary of the first target that this machine runs, which exports the folder of all."""

    def __init__(self, dispatched, jobs=None):
        """dispatched: a DispatchedModel."""
        self.dispatched = dispatched
        here = (m for m in dispatched.models if is_supported_here(Target.get(m.target)))
        super().__init__(next(here, dispatched.models[0]), jobs)

    @property
    def name(self):
        return self.dispatched.name

    def __repr__(self):
        return f"<DispatchedLibrary {self.dispatched.name} for {self.dispatched.target}>"

    def export(self, folder, single_file=False, package=None, sbom=False):
        """Write the folder of C for all targets, as CompiledLibrary.export does."""
        self.dispatched.write(folder, single_file, package, sbom)
        return Path(folder)
