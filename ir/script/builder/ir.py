"""I.* of an IRBuilder: modules, of functions by their names."""
from __future__ import annotations

from ...module import GlobalVar, IRModule
from ...vdevice import DummyGlobalInfo, VDevice
from .base import IRBuilder, IRBuilderFrame

__path__ = []  # scripts import its parts, `ir.ir` and `ir.frame`: this


class IRModuleFrame(IRBuilderFrame):
    """functions: those of the module by name, None for what is declared only; declared: their signatures."""

    title = "I.ir_module"

    def __init__(self):
        self.functions, self.declared, self.attrs, self.global_infos = {}, {}, {}, {}

    def define(self, name, func):
        if self.functions.get(name) is not None:
            raise ValueError(f"the module has two functions {name}")
        self.functions[name] = func

    def closed(self, builder):
        missing = [name for name, func in self.functions.items() if func is None]
        if missing:
            raise ValueError(f"function {missing[0]} is declared and not defined")
        builder.add(IRModule(self.functions, self.attrs, self.global_infos))


def ir_module():
    """with I.ir_module(): the functions that are built inside, as an IRModule."""
    return IRModuleFrame()


def current_ir_module():
    """The frame of the module that is being built. Raises ValueError outside of one."""
    frame = IRBuilder.current().find(IRModuleFrame)
    if frame is None:
        raise ValueError("this stands in a module: write `with I.ir_module():` around it")
    return frame


def decl_function(func_name, func_signature):
    """The GlobalVar of a function that is defined later. func_signature: a function of its parameters and result."""
    frame = current_ir_module()
    if func_name in frame.functions:
        raise ValueError(f"the module has a function {func_name} already")
    frame.functions[func_name] = None
    frame.declared[func_name] = func_signature
    return GlobalVar(func_name, getattr(func_signature, "struct_info", None))


def def_function(func_name, func):
    """Put a function into the module, which may have been declared."""
    current_ir_module().define(func_name, func)


def module_attrs(attrs, allow_overwrite=False):
    """Give the module attributes, in place of none or, with allow_overwrite, of those that it has."""
    frame = current_ir_module()
    if frame.attrs and not allow_overwrite:
        raise ValueError("the module has attributes already: say allow_overwrite=True to give others")
    frame.attrs = dict(attrs)


def module_get_attrs():
    """The attributes of the module that is being built."""
    return dict(current_ir_module().attrs)


def module_get_attr(attr_key):
    """An attribute of the module, None where there is none."""
    return current_ir_module().attrs.get(attr_key)


def module_set_attr(attr_key, attr_value, allow_overwrite=False):
    """Give the module an attribute; None takes it away."""
    attrs = current_ir_module().attrs
    if attr_key in attrs and not allow_overwrite:
        raise ValueError(f"the module has an attribute {attr_key} already: say allow_overwrite=True to give another")
    attrs[attr_key] = attr_value
    if attr_value is None:
        del attrs[attr_key]


def module_global_infos(global_infos):
    """Give the module its lists of global infos, {"vdevice": [I.vdevice("llvm")]}."""
    frame = current_ir_module()
    if frame.global_infos:
        raise ValueError("the module has global infos already")
    frame.global_infos = {kind: tuple(infos) for kind, infos in global_infos.items()}


def dummy_global_info():
    return DummyGlobalInfo()


def vdevice(target=None, vdevice_id=0, memory_scope="global"):
    """A device that functions name by its number."""
    return VDevice(target, vdevice_id, memory_scope)


def lookup_vdevice(target_kind=None, device_index=-1):
    """The module's device number device_index, of those of a kind where that is given. Raises ValueError for none."""
    listed = [d for d in current_ir_module().global_infos.get("vdevice", ())
              if target_kind in (None, "vdevice", d.kind)]
    if not 0 <= device_index < len(listed):
        raise ValueError(f"the module has {len(listed)} devices {target_kind or ''}, and none numbered {device_index}")
    return listed[device_index]


__all__ = ["IRModuleFrame", "current_ir_module", "decl_function", "def_function", "dummy_global_info", "ir_module",
           "lookup_vdevice", "module_attrs", "module_get_attr", "module_get_attrs", "module_global_infos",
           "module_set_attr", "vdevice"]
