"""Reflection: structural equality, hashing and JSON follow from the fields of the nodes."""
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot import ir
from ingot.ir import tir
from ingot.ir.expr import (Add, Cast, FloatImm, FloorDiv, FloorMod, IntImm, Let, Max, Min, Mul, Select, Sub, Var, const,
                           free_vars, substitute)
from ingot.ir.module import IRModule
from ingot.ir.node import (REGISTRY, Mutator, PureMutator, Visitor, collect, load_json, post_order, save_json,
                           structural_equal, structural_hash)
from ingot.ir.relax.expr import Constant, RelaxVar, TensorStructInfo, VarBinding
from ingot.runtime.ndarray import array

I, J = Var("i"), Var("j")


def scale(name="A", loop="i", factor=2.0):
    """A function that scales a vector in place, with names to choose."""
    a, i, v = tir.decl_buffer((8,), name=name), Var(loop), Var("v" + loop)
    block = tir.Block((tir.IterVar(tir.Range.from_min_extent(0, 8), v),), (a[v:v + 1],), (a[v:v + 1],), "scale",
                      body=tir.BufferStore(a, a[v] * factor, (v,)))
    return tir.prim_func([a], tir.for_(i, 8, tir.BlockRealize((i,), const(True), block)))


# ---------------------------------------------------------------- equality

def test_names_of_defined_variables_do_not_matter():
    assert structural_equal(scale("A", "i"), scale("B", "x"))
    assert structural_hash(scale("A", "i")) == structural_hash(scale("B", "x"))


def test_different_functions_differ():
    assert not structural_equal(scale(), scale(factor=3.0))
    assert structural_hash(scale()) != structural_hash(scale(factor=3.0))


def test_free_variables_are_themselves_only():
    assert structural_equal(I + 1, I + 1)
    assert not structural_equal(I + 1, Var("i") + 1)
    assert structural_equal(I + 1, Var("k") + 1, map_free_vars=True)


def test_free_variables_pair_one_to_one():
    assert not structural_equal(I + I, I + J, map_free_vars=True)
    assert not structural_equal(I + J, I + I, map_free_vars=True)
    assert structural_equal(I + J, J + I, map_free_vars=True)
    assert structural_hash(I + J, map_free_vars=True) == structural_hash(J + I, map_free_vars=True)


def test_a_defined_variable_pairs_only_with_its_counterpart():
    a, b = Var("a"), Var("b")
    assert structural_equal(Let(a, const(1), a + I), Let(b, const(1), b + I))
    assert not structural_equal(Let(a, const(1), a + I), Let(b, const(1), I + b))


def test_dtype_of_a_defined_variable_matters():
    a, b = Var("a", "int32"), Var("a", "int64")
    assert not structural_equal(Let(a, const(1), a), Let(b, const(1, "int64"), b))


def test_order_of_a_dict_does_not_matter():
    one, two = IRModule(attrs={"a": 1, "b": 2}), IRModule(attrs={"b": 2, "a": 1})
    assert structural_equal(one, two) and structural_hash(one) == structural_hash(two)
    assert not structural_equal(one, IRModule(attrs={"a": 2, "b": 1}))


def test_floats_compare_by_bits():
    nan = FloatImm("float32", float("nan"))
    assert structural_equal(nan, FloatImm("float32", float("nan")))
    assert not structural_equal(FloatImm("float32", 0.0), FloatImm("float32", -0.0))
    assert structural_hash(FloatImm("float32", 0.0)) != structural_hash(FloatImm("float32", -0.0))


def test_int_float_and_bool_differ():
    values = [IRModule(attrs={"a": v}) for v in (1, 1.0, True)]
    assert sum(structural_equal(a, b) for a in values for b in values) == 3
    assert len({structural_hash(v) for v in values}) == 3


def test_arrays_compare_by_content_and_dtype():
    ones = Constant(np.ones(3, "float32"))
    assert structural_equal(ones, Constant(np.ones(3, "float32")))
    assert not structural_equal(ones, Constant(np.ones(3, "float64")))
    assert not structural_equal(ones, Constant(np.ones((1, 3), "float32")))
    assert structural_hash(ones) == structural_hash(Constant(np.ones((6,), "float32")[::2]))
    assert not structural_equal(Constant(np.array(np.nan, "float32")), Constant(np.array(1.0, "float32")))


def test_ignored_fields_do_not_matter():
    assert structural_equal(Constant(np.ones(2), "w"), Constant(np.ones(2), "other"))
    half = Constant(np.float16(0.5))
    assert structural_equal(load_json(save_json(half)), half) and half.struct_info.shape == ()


# ---------------------------------------------------------------- random expressions

def expressions(variables):
    leaves = st.one_of(st.sampled_from(variables), st.integers(-9, 9).map(const))

    def grow(children):
        operator = st.sampled_from([Add, Sub, Mul, FloorDiv, FloorMod, Min, Max])
        return st.one_of(
            st.builds(lambda c, a, b: c(a, b), operator, children, children),
            st.builds(lambda a, b, c: Select(tir.LT(a, b), b, c), children, children, children),
            st.builds(lambda a: Cast("int32", Cast("int64", a)), children))
    return st.recursive(leaves, grow, max_leaves=12)


@settings(max_examples=60, deadline=None)
@given(expressions([I, J]))
def test_json_gives_the_same_structure(e):
    back = load_json(save_json(e))
    assert structural_equal(e, back, map_free_vars=True)
    assert structural_hash(e) == structural_hash(back)


@settings(max_examples=60, deadline=None)
@given(expressions([I, J]), expressions([I, J]))
def test_hash_agrees_with_equality(a, b):
    assert structural_equal(a, a)
    if structural_equal(a, b):
        assert structural_hash(a) == structural_hash(b)
    else:
        assert structural_hash(a) != structural_hash(b)  # 64 bits: a collision here is a bug


@settings(max_examples=40, deadline=None)
@given(expressions([I, J]))
def test_renaming_maps_back(e):
    x, y = Var("x"), Var("y")
    renamed = substitute(e, {I: x, J: y})
    assert structural_equal(e, renamed, map_free_vars=True)
    assert structural_equal(e, substitute(renamed, {x: I, y: J}))


# ---------------------------------------------------------------- JSON

def test_json_of_a_module_with_arrays():
    x = RelaxVar("x", TensorStructInfo((Var("n", "int64"), 3), "float32"))
    weights = Constant(np.arange(6, dtype="float16").reshape(2, 3), "w")
    mod = IRModule({"scale": scale()}, {
        "binding": VarBinding(x, weights), "eps": 1e-5, "none": None, "nan": float("nan"), "names": ("a", "b"),
        "empty": np.zeros((0, 4), "int8"), "yes": True})
    back = load_json(save_json(mod))
    assert structural_equal(mod, back) and structural_hash(mod) == structural_hash(back)
    assert back.attrs["binding"].value.data.dtype == np.float16 and back.attrs["yes"] is True
    assert save_json(back) == save_json(mod)


def test_json_keeps_sharing():
    v = Var("v")
    back = load_json(save_json(Add(v, Mul(v, v))))
    assert back.a is back.b.a and back.b.a is back.b.b


def test_json_refuses_other_values():
    with pytest.raises(TypeError, match="cannot save a object as JSON"):
        save_json(IRModule(attrs={"x": object()}))


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", '{"nodes": [{"type": "NoSuchNode"}], "root": {"node": 0}}',
                                  '{"nodes": [], "root": {"node": 3}}', '{"nodes": [{"type": "Var"}], "root": 1}'])
def test_bad_json_is_one_clear_error(text):
    with pytest.raises(ValueError, match="not a saved Ingot module"):
        load_json(text)


def test_hash_is_the_same_in_every_process():
    code = ("from ingot.ir import tir; from ingot.ir.expr import *; from ingot.ir.node import structural_hash;"
            "a = tir.decl_buffer((4, 4)); i = Var('i');"
            "f = tir.prim_func([a], tir.for_(i, 4, tir.BufferStore(a, a[i, 0] * 2.5, (i, i))), {'x': 1, 'y': 'z'});"
            "print(structural_hash(f))")
    seen = {subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, check=True,
                           capture_output=True, text=True).stdout for seed in ("1", "77")}
    assert len(seen) == 1 and seen.pop().strip().isdigit()


# ---------------------------------------------------------------- visiting and copying

def test_mutator_returns_unchanged_trees_themselves():
    f = scale()

    class Nothing(Mutator):
        pass

    class Double(Mutator):
        def visit_FloatImm(self, e):
            return FloatImm(e.dtype, 2 * e.value)
    assert Nothing().visit(f) is f
    assert structural_equal(Double().visit(f), scale(factor=4.0))


def test_visitor_dispatches_by_class_name():
    seen = []

    class Loads(Visitor):
        def visit_BufferLoad(self, n):
            seen.append(n)
            self.generic_visit(n)
    Loads().visit(scale())
    assert len(seen) == 1


def test_post_order_visits_children_first():
    order = []
    post_order(Add(I, Mul(J, const(2))), lambda n: order.append(type(n).__name__))
    assert order == ["Var", "Var", "IntImm", "Mul", "Add"]


def test_collect_lists_each_object_once():
    assert collect(Add(I, Mul(I, J)), Var) == [I, J] and free_vars(I + J * I) == [I, J]


def test_replace_copies_only_when_something_changes():
    e = Add(I, J)
    assert e.replace(a=I) is e
    assert e.replace(a=J).a is J and e.a is I


def test_nodes_are_frozen_and_registered_once():
    from ingot.ir.node import Node, node
    with pytest.raises(AttributeError):
        I.name = "k"
    with pytest.raises(TypeError, match="two node classes are named Var"):
        node(type("Var", (Node,), {"__annotations__": {"x": int}}))
    assert REGISTRY["IntImm"] is IntImm


def test_a_pure_mutator_rewrites_a_shared_node_once():
    """x * x * ... as a tree of 2^20 leaves over 21 nodes: each is rewritten once, and what was shared still is."""
    x, seen = Var("x", "int32"), []

    class Counted(PureMutator):
        def visit_Add(self, e):
            seen.append(e)
            return self.generic_visit(e)

        def visit_Var(self, v):
            return Var("y", "int32")

    root = x
    for _ in range(20):
        root = Add(root, root)
    made = Counted().visit(root)
    assert len(seen) == 20
    assert made.a is made.b and made.a.a is made.a.b
    y = Var("y", "int32")
    assert len(collect(substitute(root, {x: y}), Add)) == 20
    assert free_vars(substitute(root, {x: y})) == [y]


def test_a_leaf_without_a_method_stays_and_one_with_a_method_is_visited():
    """Also after the class of Mutators has met such leaves."""
    class Twice(Mutator):
        def visit_IntImm(self, n):
            return IntImm(n.dtype, 2 * n.value)

    class Plain(Mutator):
        pass

    one, x = IntImm("int32", 1), Var("x", "int32")
    for _ in range(2):
        assert Plain().visit((x, Add(x, one)))[1].b is one
        assert Twice().visit(Add(x, one)).b.value == 2
        assert Twice().visit((one,))[0].value == 2


def test_tensors_in_attributes_are_the_same_by_their_elements():
    def module(values, dtype="float32"):
        return IRModule(attrs={"data": array(np.array(values, dtype))})
    one = module([1, float("nan")])
    assert structural_equal(one, module([1, float("nan")]))
    assert structural_hash(one) == structural_hash(module([1, float("nan")]))
    for other in (module([2, float("nan")]), module([1, float("nan")], "float64"), module([[1, float("nan")]])):
        assert not structural_equal(one, other) and structural_hash(one) != structural_hash(other)
    assert ir.base.structural_equal is ir.structural_equal
