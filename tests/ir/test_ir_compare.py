"""assert_structural_equal says where two programs differ; equality and hashes with free variables and views."""
import pytest

from ingot import ir, relax
from ingot.ir import tir
from ingot.ir.expr import Var
from ingot.ir.script.functions import from_source
from ingot.runtime import ObjectPath

TEXT = """
@I.ir_module
class Module:
    @T.prim_func
    def first(A: T.Buffer((8,), "float32")):
        T.evaluate(0)

    @T.prim_func
    def second(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32"), n: T.int32):
        for i, j in T.grid(8, 4):
            with T.block("copy"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.block_attr({"kind": "plain"})
                B[vi, vj] = A[vi, vj] + T.float32(1)
        T.evaluate(n)
"""

# what is changed in TEXT -> (the path, the two sides, which text is underlined)
CHANGES = {
    ("T.float32(1)", "T.float32(2)"): (
        '<root>.functions["second"].body.block.body.seq[0].body.body.block.body.value.b.value', "1.0", "2.0",
        "B[vi, vj] = A[vi, vj] + T.float32(1.0)"),
    ("A[vi, vj] +", "B[vi, vj] +"): (
        '.block.reads[0].buffer', "A  (Buffer of float32)", "B  (Buffer of float32)", 'with T.block("copy"):'),
    ('"plain"', '"other"'): ('.annotations["kind"]', "'plain'", "'other'", 'with T.block("copy"):'),
    ("grid(8, 4)", "grid(8, 2)"): ('.seq[0].body.extent.value', "4", "2", None),
    ("n: T.int32", "n: T.int64"): ('.params[2].dtype', '"int32"', '"int64"', None),
    ("T.evaluate(n)", "T.evaluate(n); T.evaluate(n)"): (
        '.body.block.body.seq', "(for ", "T.evaluate(n)  (Evaluate), T.evaluate(n)", None),
    ("def first", "def third"): ('.functions', "", "", None),
    ('(8, 4), "float32"), n', '(8, 4), "float16"), n'): ('.buffer_map', "float32", "float16", None),
}


@pytest.mark.parametrize("change", CHANGES)
def test_where_two_modules_differ(change):
    path, left, right, marked = CHANGES[change]
    lhs, rhs = from_source(TEXT), from_source(TEXT.replace(*change), check_well_formed=False)
    assert not ir.structural_equal(lhs, rhs)
    with pytest.raises(ValueError) as caught:
        ir.assert_structural_equal(lhs, rhs)
    lines = str(caught.value).split("\n")
    assert lines[0].startswith("the programs differ at <root>.") and path in lines[0], lines[0]
    assert lines[1].startswith("  lhs: ") and left in lines[1], lines[1]
    assert lines[2].startswith("  rhs: ") and right in lines[2], lines[2]
    assert "lhs:" in lines[3:] and "rhs:" in lines[3:]
    if marked:
        line = next(n for n, text in enumerate(lines) if set(text.strip()) == {"^"})
        assert lines[line - 1].strip() == marked and len(lines[line]) == len(lines[line - 1])
        assert "# function second" in lines and "def first" not in str(caught.value)


def test_equal_programs_pass():
    ir.assert_structural_equal(from_source(TEXT), from_source(TEXT))
    assert ir.structural_hash(from_source(TEXT)) == ir.structural_hash(from_source(TEXT))
    again = ir.load_json(ir.save_json(from_source(TEXT)))
    ir.assert_structural_equal(again, from_source(TEXT))


def test_free_variables():
    x, y = Var("x"), Var("y")
    assert not ir.structural_equal(x + 1, y + 1) and ir.structural_equal(x + 1, y + 1, map_free_vars=True)
    ir.assert_structural_equal(x + 1, y + 1, map_free_vars=True)
    assert ir.structural_hash(x + 1, map_free_vars=True) == ir.structural_hash(y + 1, map_free_vars=True)
    with pytest.raises(ValueError, match=r"differ at <root>\.a:\n  lhs: x  \(Var of int32\)\n  rhs: y"):
        ir.assert_structural_equal(x + 1, y + 1)
    with pytest.raises(ValueError, match=r"differ at <root>\.b:"):
        ir.assert_structural_equal(tir.Add(x, x), tir.Add(x, y), map_free_vars=True)


def test_different_kinds_and_plain_values():
    with pytest.raises(ValueError, match=r"differ at <root>:\n  lhs: x  \(Var of int32\)\n  rhs: x \+ 1  \(Add\)"):
        ir.assert_structural_equal(Var("x"), Var("x") + 1)
    with pytest.raises(ValueError, match=r"differ at <root>\[1\]:\n  lhs: 2\n  rhs: 3"):
        ir.assert_structural_equal((1, 2), (1, 3))
    with pytest.raises(ValueError, match=r'differ at <root>\["a"\]\[0\]'):
        ir.assert_structural_equal({"a": (1,)}, {"a": (2,)})


def test_views_of_known_memory_are_compared():
    def program(size, dtype="float32"):
        return from_source(f"""
            @T.prim_func
            def main(A: T.Buffer((8, 4), "float32"), p: T.handle):
                B = T.Buffer(({size},), "{dtype}", data=A.data)
                C = T.Buffer((4,), "int8", data=p)
                B[3] = A[0, 0]
                C[1] = T.int8(1)
        """)
    assert ir.structural_equal(program(32), program(32))
    assert ir.structural_hash(program(32)) == ir.structural_hash(program(32))
    assert not ir.structural_equal(program(32), program(16))
    ir.assert_structural_equal(from_source(str(program(32))), program(32))


def test_the_first_mismatch_as_paths():
    x, y = Var("x"), Var("y")
    root = ObjectPath.root()
    one, two = (tir.SeqStmt([tir.Evaluate(x), tir.Evaluate(x + n)]) for n in (1, 2))
    longer = tir.SeqStmt([*one.seq, tir.Evaluate(x)])
    at = root.attr("seq").array_index(1).attr("value").attr("b").attr("value")
    rows = [(one, two, at, at), (two, longer, at, at),  # what differs goes before how many there are
            (one, longer, root.attr("seq").missing_array_element(2), root.attr("seq").array_index(2)),
            ((x, 1), (x, 2), root.array_index(1), root.array_index(1)),
            ({"a": x, "b": y}, {"a": x}, root.map_value("b"), root.missing_map_entry()), (one, one, None, None)]
    for lhs, rhs, left, right in rows:
        expected = None if left is None else (left, right)
        assert ir.get_first_structural_mismatch(lhs, rhs) == expected
        assert ir.get_first_structural_mismatch(rhs, lhs) == (expected and (right, left))
    assert str(at) == "<root>.seq[1].value.b.value" and at.parent.is_prefix_of(at) and not at.is_prefix_of(at.parent)
    assert root.map_value(x) == root.map_value(x) != root.map_value(y) and len({at, rows[0][2]}) == 1


def test_dimensions_equal_a_shape_of_them():
    x = relax.Var("x", relax.TensorStructInfo((2, 3), "float32"))
    equal = ir.structural_equal
    assert equal(x.struct_info.shape, relax.ShapeExpr([2, 3])) and equal(relax.ShapeExpr([2, 3]), x.struct_info.shape)
    assert not equal(x.struct_info.shape, relax.ShapeExpr([3, 2])) and not equal(x.struct_info.shape, None)
    assert len(relax.Tuple([x, x])) == 2 and relax.Tuple([])
