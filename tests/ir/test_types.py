"""Types of variables and functions."""
import pytest

from ingot import ir
from ingot.ir import tir


def test_types_are_equal_by_structure():
    number = ir.PrimType("float")
    pointer = ir.PointerType(number, "shared")
    assert number.dtype == "float32" and pointer == ir.PointerType(ir.PrimType("float32"), "shared")
    assert pointer != ir.PointerType(number) and number != pointer and pointer != "shared"
    assert len({pointer, ir.PointerType(ir.PrimType("float32"), "shared")}) == 1
    function = ir.FuncType([number, pointer], ir.TupleType([number]))
    assert function.arg_types == (number, pointer) and function.ret_type.fields == (number,)
    assert ir.load_json(ir.save_json(function)) == function
    with pytest.raises(TypeError, match="a PointerType is to a type"):
        ir.PointerType("float32")


def test_variables_of_types():
    pointer = ir.PointerType(ir.PrimType("float32"), "global.texture")
    x = tir.Var("x", pointer)
    assert x.dtype == "handle" and x.type_annotation is pointer
    assert x.replace(name="y").type_annotation is pointer
    n = tir.Var("n", ir.PrimType("int64"))
    assert n.dtype == "int64" and n.type_annotation == ir.PrimType("int64")
    assert tir.decl_buffer((4,), data=x).data is x
