"""Effects: state beside the tensors of a module's methods, which functions take and return."""
from __future__ import annotations

from ...ir.relax import op as relax_op
from ...ir.relax.expr import RelaxVar
from ...ir.relax.struct_info import ObjectStructInfo


class Effect:
    """An effect: what begins it, what functions take, and what they return at their end."""

    def emit_init(self, name_hint, builder):
        """Bind the first state; a list of variables."""
        raise NotImplementedError(f"{type(self).__name__}.emit_init")

    def create(self, name_hint):
        """The variables that a function takes for it."""
        raise NotImplementedError(f"{type(self).__name__}.create")

    def set_state(self, state_vars):
        """The current state: as many variables as create made."""
        raise NotImplementedError(f"{type(self).__name__}.set_state")

    def finalize(self):
        """The state at the end of a function, a list of variables."""
        raise NotImplementedError(f"{type(self).__name__}.finalize")

    def to(self, dtype=None):
        """Change the dtype, of effects that have one."""


class IOEffect(Effect):
    """The order of printing and of debug functions, where a module is exported with debug=True."""

    effect = None

    def emit_init(self, name_hint, builder):
        return [builder.emit(relax_op.call("null_value"), f"{name_hint}_io")]

    def create(self, name_hint):
        return [RelaxVar(f"{name_hint}_io", ObjectStructInfo())]

    def set_state(self, state_vars):
        self.effect, = state_vars

    def finalize(self):
        effect, self.effect = self.effect, None
        return [effect]


__all__ = ["Effect", "IOEffect"]
