"""R.* of an IRBuilder: graph functions in the words of their script, over relax.BlockBuilder."""
from __future__ import annotations

from ...names import unique_name
from ...relax import expr as X
from ...relax.block_builder import BlockBuilder
from ...relax.lattice import BaseCheckResult, base_check, finer
from ..namespaces import Namespace
from ..relax_names import R as NAMES, InfoSpec, Special
from ..relax_parser import branch_value, last_bound
from .base import IRBuilder, IRBuilderFrame
from .ir import IRModuleFrame
from .tir_frames import finished


class RelaxFrame(IRBuilderFrame):
    """A frame that has a `with` of a BlockBuilder's open, which begin() gives."""

    def opened(self, builder):
        self.bb = self.builder_of()
        self._within = self.begin()
        self.blocks = self._within.__enter__()
        return self

    def builder_of(self):
        return function_frame().bb

    def dropped(self, kind, error, trace):
        self._within.__exit__(kind, error, trace)

    def end(self):
        self._within.__exit__(None, None, None)


class FunctionFrame(RelaxFrame):
    title = "R.function"

    def __init__(self, is_pure, is_private):
        self.is_pure, self.is_private, self.name = is_pure, is_private, None
        self.params, self.attrs, self.ret_struct_info, self.output = [], {}, None, None

    builder_of = staticmethod(BlockBuilder)

    def begin(self):
        return self.bb.function("main", private=True, pure=self.is_pure)

    def closed(self, builder):
        if self.output is None:
            error = ValueError("a graph function gives a value: say R.func_ret_value(value) in it")
            self.dropped(type(error), error, None)
            raise error
        self.bb.emit_func_output(self.output, self.params)
        self.end()
        func = self.bb.get()["main"]
        func = func.replace(attrs={**func.attrs, **self.attrs},
                            ret_struct_info=finer(self.ret_struct_info, func.ret_struct_info))
        finished(builder, func, self.name, self.is_private)


class BlockFrame(RelaxFrame):
    """R.dataflow. output_vars: what R.output lists; when the block has ended, what is visible outside in its place."""

    title = "R.dataflow"

    def __init__(self):
        self.output_vars = []

    def begin(self):
        return self.bb.dataflow()

    def closed(self, builder):
        self.output_vars = self.bb.make_outputs(self.output_vars)
        self.end()


class IfFrame(IRBuilderFrame):
    """R.If. var: when it has ended, the variable that both branches bind last."""

    title = "R.If, outside of R.Then and R.Else"

    def __init__(self, condition):
        self.condition, self.branches, self.var = condition, {}, None

    def opened(self, builder):
        if builder.find(BlockFrame):
            raise ValueError("a dataflow block has no control flow: end it before R.If")
        return self

    def closed(self, builder):
        if len(self.branches) < 2:
            raise ValueError("R.If has an R.Then and an R.Else, which end by binding the same name")
        (name, then), (other, otherwise) = self.branches.values()
        if name != other:
            raise ValueError(f"the branches end by binding {name} and {other}: they must bind the same name, which "
                             "IRBuilder.name gives a variable")
        self.var = function_frame().bb.emit(X.If(self.condition, then, otherwise), name)


class BranchFrame(RelaxFrame):
    """R.Then or R.Else in an R.If."""

    def __init__(self, branch):
        self.title, self.branch = f"R.{branch}", branch

    def opened(self, builder):
        around = builder.frames[-1] if builder.frames else None
        if not isinstance(around, IfFrame) or list(around.branches) != ([] if self.branch == "Then" else ["Then"]):
            raise ValueError("R.Then and R.Else stand directly in an R.If, one of each and in this order")
        return super().opened(builder)

    def begin(self):
        return self.bb.branch()

    def closed(self, builder):
        self.end()
        bound = last_bound(self.blocks)
        if bound is None:
            raise ValueError(f"{self.title} ends by binding a variable, which is its value")
        name = bound.var.name
        builder.frames[-1].branches[self.branch] = name, branch_value(self.blocks, f"{name}_{self.branch.lower()}", set())


# ---------------------------------------------------------------- names of the builder's own

def function_frame():
    """The function that is being built. Raises ValueError outside of one."""
    frame = IRBuilder.current().find(FunctionFrame)
    if frame is None:
        raise ValueError("this stands in a graph function: write `with R.function():` around it")
    return frame


def function(is_pure=True, is_private=False):
    """with R.function(): a graph function of what is built inside."""
    return FunctionFrame(is_pure, is_private)


def arg(name, struct_info):
    """A parameter of the function."""
    frame = function_frame()
    var = X.RelaxVar(frame.bb.unique_name(name), as_info(struct_info))
    frame.params.append(var)
    return var


def func_name(name):
    """Name the function."""
    function_frame().name = name


def func_attr(attrs):
    """Give the function attributes."""
    function_frame().attrs.update(attrs)


def func_ret_struct_info(ret_sinfo):
    """Say the struct info of what the function gives."""
    function_frame().ret_struct_info = as_info(ret_sinfo)


def func_ret_value(value):
    """Say what the function gives."""
    frame = function_frame()
    if frame.output is not None:
        raise ValueError("a function gives one value, and R.func_ret_value is said twice")
    frame.output = value


def output(*variables):
    """Make variables of the dataflow block around this visible outside: its output_vars, when it has ended."""
    frame = IRBuilder.current().find(BlockFrame)
    if frame is None:
        raise ValueError("R.output stands in a dataflow block")
    frame.output_vars.extend(variables)


def emit(value, annotate_struct_info=None):
    """Bind a value to a new variable. annotate_struct_info: its struct info, where a call's is said to be another."""
    bb = function_frame().bb
    value = bb.normalize(value)
    if annotate_struct_info is not None and isinstance(value, X.RelaxCall):
        info = as_info(annotate_struct_info)
        if value.struct_info is not None and base_check(info, value.struct_info) == BaseCheckResult.FAIL_L0:
            raise ValueError(f"the variable is declared as {info}, its value is {value.struct_info}")
        value = value.replace(struct_info=info)
    return bb.emit(value)


def emit_te(func, *args, **kwargs):
    """R.call_tir of the PrimFunc that func(*args) describes, which joins the module around the function."""
    frame, builder = function_frame(), IRBuilder.current()
    call = frame.bb.call_te(func, *args, **kwargs)
    module = builder.find(IRModuleFrame)
    if module is None:
        raise ValueError("R.emit_te adds a function to the module: write `with I.ir_module():` around this")
    gv = call.attrs["gv"] if "gv" in call.attrs else call.op
    name = unique_name(gv.name, set(module.functions), "")
    module.functions[name] = frame.bb.get()[gv]
    return call


def emit_match_cast(value, struct_info):
    """A variable for a value that is checked at run time to be as struct_info says."""
    return function_frame().bb.match_cast(value, as_info(struct_info))


def emit_var_binding(value):
    """Add a VarBinding as it is; its variable."""
    return function_frame().bb.emit_normalized(value)


def as_info(info):
    """Struct info, also of what R.Tensor(...) gives."""
    return X.as_struct_info(info.struct_info() if isinstance(info, InfoSpec) else info)


# ---------------------------------------------------------------- names of the script's

def _given(value):
    """An argument: of struct info as scripts say it, what it means."""
    if isinstance(value, InfoSpec):
        return value.struct_info()
    return type(value)(map(_given, value)) if type(value) in (list, tuple) else value


def _with_infos(row):
    def call(*args, **kwargs):
        return row(*map(_given, args), **{k: _given(v) for k, v in kwargs.items()})
    return call


def _name(name):
    """The meaning of one of the script's names."""
    if name.startswith("_"):
        return None
    row = getattr(NAMES, name)
    return _with_infos(row) if isinstance(row, Special) else row


ROWS = {
    "function": function, "arg": arg, "func_name": func_name, "func_attr": func_attr, "output": output, "emit": emit,
    "func_ret_struct_info": func_ret_struct_info, "func_ret_value": func_ret_value, "dataflow": BlockFrame,
    "emit_te": emit_te, "emit_match_cast": emit_match_cast, "emit_var_binding": emit_var_binding, "If": IfFrame,
    "Then": lambda: BranchFrame("Then"), "Else": lambda: BranchFrame("Else"), "py_print": print, "py_str": str,
}
R = Namespace("R", ROWS, _name)

__all__ = ["R", "FunctionFrame", "BlockFrame", "IfFrame"]
