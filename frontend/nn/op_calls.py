"""Operators of one's own in modules: tensor expressions, PrimFuncs, registered functions, debugging."""
from __future__ import annotations

import inspect

from ...ir.expr import PrimExpr, const as prim_const
from ...ir.relax.expr import PrimValue, RelaxString, RelaxTuple, ShapeExpr, call_dps_packed, call_pure_packed, call_tir
from ...ir.relax.inplace import call_tir_inplace
from ...ir.relax.struct_info import ObjectStructInfo, TupleStructInfo
from .exporter import Exporter
from .tensor import Tensor, builder, wrap_nested


def tensor_expr_op(tensor_expr_func, name_hint, args, *, attrs=None):
    """What a function of te describes: it gets te.Tensors for nn.Tensors. attrs: of the PrimFunc."""
    given = [a._expr if isinstance(a, Tensor) else a for a in args]
    return wrap_nested(builder().emit_te(tensor_expr_func, *given, primfunc_name_hint=name_hint,
                                         primfunc_attrs=attrs), name_hint)


def _infos(out):
    """Struct info of placeholders."""
    return [t._expr.struct_info for t in (out if isinstance(out, (list, tuple)) else [out])]


def tensor_ir_op(func, name_hint, args, out):
    """Call a PrimFunc. args: tensors, and scalars behind them; out: a Tensor.placeholder of what it writes, or
    several."""
    tensors, scalars = _operands("tensor_ir_op", args)
    infos = _infos(out)
    call = call_tir(builder().add_func(func, name_hint), tensors, infos if len(infos) > 1 else infos[0], scalars)
    return wrap_nested(call, name_hint)


def tensor_ir_inplace_op(func, name_hint, args, inplace_indices, out):
    """Call a PrimFunc that writes to its arguments. inplace_indices: for each result the place of the argument that it
    is, or -1 for a new one; args and out: those of tensor_ir_op."""
    tensors, scalars = _operands("tensor_ir_inplace_op", args)
    call = call_tir_inplace(builder().add_func(func, name_hint), tensors, inplace_indices, _infos(out), scalars)
    return wrap_nested(call, name_hint)


def _operands(op, args):
    """(the tensors, the scalars behind them) of arguments."""
    args = args if isinstance(args, (list, tuple)) else [args]
    for a in args:
        if not isinstance(a, (Tensor, ShapeExpr, PrimExpr)):
            raise TypeError(f"Unsupported type: {op} args expect Tensor or ShapeExpr or PrimExpr, but got {type(a)}")
    return ([a._expr for a in args if isinstance(a, Tensor)],
            tuple(v for a in args if not isinstance(a, Tensor) for v in getattr(a, "values", (a,))))


def _value(value, floats="float64"):
    """An argument of a registered function."""
    if isinstance(value, Tensor):
        return value._expr
    if isinstance(value, str):
        return RelaxString(value)
    if isinstance(value, PrimExpr):
        return PrimValue(value)
    if isinstance(value, (int, float)):
        return PrimValue(prim_const(value, "int64" if isinstance(value, int) else floats))
    if isinstance(value, (list, tuple)):
        return RelaxTuple(tuple(_value(v, floats) for v in value))
    raise TypeError(f"Unsupported input type: {type(value)}")


def extern(name, args, out):
    """Call the registered function `name`, which writes what `out` describes: a Tensor.placeholder, or several."""
    infos = _infos(out)
    info = TupleStructInfo(tuple(infos)) if isinstance(out, (list, tuple)) else infos[0]
    return wrap_nested(call_dps_packed(name, _value(list(args)), info), name)


def debug_func(name, *args, _line_info=None):
    """Call the registered function `name` with the place of this call and the arguments, where debug=True."""
    io = Exporter.current().io_effect
    if io is None:
        raise RuntimeError("Debugging is only supported when debug mode is on: export_tvm(..., debug=True)")
    call = call_pure_packed("vm.builtin.invoke_debug_func", io.effect, RelaxString(name),
                            RelaxString(_line_info or _caller()), *(_value(a, "float32") for a in args),
                            sinfo_args=ObjectStructInfo())
    io.set_state([builder().emit(call, io.effect.name)])


def print_(tensor):
    """Print a tensor, where debug=True."""
    debug_func("vm.builtin.debug_print", tensor, _line_info=_caller())


def _caller():
    """file:line of what called the function that asks."""
    frame = inspect.currentframe().f_back.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


__all__ = ["debug_func", "extern", "print_", "tensor_expr_op", "tensor_ir_inplace_op", "tensor_ir_op"]
