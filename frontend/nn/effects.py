"""Effects: state beside the tensors of a module's methods, which functions take and return."""
from __future__ import annotations

from ...ir.relax import op as relax_op
from ...ir.relax.expr import PrimValue, RelaxVar, ShapeExpr, call_pure_packed
from ...ir.relax.struct_info import ObjectStructInfo, TensorStructInfo
from .tensor import Tensor, builder, get_default_dtype


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


class _OneObject(Effect):
    """An effect of one object, self.state."""

    state = None

    def create(self, name_hint):
        return [RelaxVar(name_hint, ObjectStructInfo())]

    def set_state(self, state_vars):
        self.state, = state_vars

    def finalize(self):
        state, self.state = self.state, None
        return [state]


class IOEffect(_OneObject):
    """The order of printing and of debug functions, where a module is exported with debug=True."""

    def emit_init(self, name_hint, builder):
        return [builder.emit(relax_op.call("null_value"), f"{name_hint}_io")]

    def create(self, name_hint):
        return super().create(f"{name_hint}_io")

    @property
    def effect(self):
        return self.state


class KVCache(_OneObject):
    """A growing tensor of [length, *unit_shape]: append adds rows, view gives the first ones.

    Its functions are vm.builtin.attention_kv_cache_*, which whoever runs the C supplies.
    """

    def __init__(self, init_seq_len, unit_shape, dtype=None):
        self.init_seq_len, self.unit_shape = init_seq_len, [int(n) for n in unit_shape]
        self.dtype = dtype or get_default_dtype()

    def emit_init(self, name_hint, builder):
        shape = ShapeExpr((self.init_seq_len, *self.unit_shape))
        zeros = builder.emit(relax_op.call("zeros", shape, self.dtype))
        return [builder.emit(call_pure_packed("vm.builtin.attention_kv_cache_create", zeros, shape, PrimValue(0),
                                              sinfo_args=ObjectStructInfo()), name_hint.replace(".", "_"))]

    def to(self, dtype=None):
        self.dtype = dtype or self.dtype

    def view(self, seq_len):
        """The first seq_len rows, a Tensor [seq_len, *unit_shape]."""
        shape = ShapeExpr((seq_len, *self.unit_shape))
        return Tensor(_expr=builder().emit(call_pure_packed("vm.builtin.attention_kv_cache_view", self.state, shape,
                                                            sinfo_args=TensorStructInfo(shape, self.dtype))))

    def append(self, new_element):
        """Add rows, a Tensor [n, *unit_shape] of the cache's dtype."""
        if new_element.dtype != self.dtype:
            raise TypeError(f'KVCache has been set to use dtype "{self.dtype}", but got "{new_element.dtype}"')
        self.state = builder().emit(relax_op.call("call_inplace_packed", "vm.builtin.attention_kv_cache_append",
                                                  self.state, new_element._expr, inplace_indices=[0],
                                                  sinfo_args=ObjectStructInfo()))


__all__ = ["Effect", "IOEffect", "KVCache"]
