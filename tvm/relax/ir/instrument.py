"""WellFormedInstrument: modules are verified before and after each pass."""
from __future__ import annotations

from ....ir.transform.instrument import PassInstrument
from ..analysis import well_formed

MENDS = ("Normalize", "NormalizeGlobalVar")  # passes that are there for malformed modules


class WellFormedInstrument(PassInstrument):
    """Raises ValueError, naming the pass, where a module is malformed before or after it."""

    def __init__(self, check_struct_info=True, validate_before_transform=True):
        self.before = validate_before_transform

    def run_before_pass(self, mod, pass_info):
        if self.before and pass_info.name not in MENDS:
            self._check(mod, pass_info, "before")

    def run_after_pass(self, mod, pass_info):
        if pass_info.name not in MENDS:
            self._check(mod, pass_info, "after")

    @staticmethod
    def _check(mod, pass_info, when):
        if not well_formed(mod):
            raise ValueError(f"the module is malformed {when} {pass_info.name}: relax.verifier.verify says where")
