"""AlterOpImpl and suggest_layout_transforms: programs in other layouts compute the same."""
import numpy as np
import pytest

import ingot as tvm
from ingot import relax, tir
from ingot.ir.node import collect
from ingot.ir.relax.evaluate import evaluate
from ingot.ir.relax.expr import RelaxCall
from ingot.ir.script.functions import from_source
from ingot.ir.tir.stmt import Block, For
from ingot.tir import IndexMap

SPLIT = "lambda i, j: (i, j // 4, j % 4)"


def module(columns, results=1):
    outs = [f"O{n}: T.Buffer((3, {columns}), 'float32')" for n in range(results)]
    stores = [f"O{n}[vi, vj] = A[vi, vj] {'+-'[n]} B[vi, vj] * A[vi, vj]" for n in range(results)]
    infos = [f"R.Tensor((3, {columns}), 'float32')"] * results
    lines = "\n                    ".join(stores)
    return from_source(f"""@I.ir_module
class M:
    @T.prim_func(private=True)
    def fma(A: T.Buffer((3, {columns}), 'float32'), B: T.Buffer((3, {columns}), 'float32'), {', '.join(outs)}):
        T.func_attr({{"operator_name": "my.fma"}})
        for i, j in T.grid(3, {columns}):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                {stores[0] if results == 1 else lines.replace('    ' * 5, '    ' * 4)}

    @R.function
    def main(x: R.Tensor((3, {columns}), 'float32'), y: R.Tensor((3, {columns}), 'float32')):
        with R.dataflow():
            lv = R.call_tir(M.fma, (x, y), out_sinfo={infos[0] if results == 1 else '[' + ', '.join(infos) + ']'})
            gv = R.call_tir(M.fma, ({'lv, y' if results == 1 else 'lv[0], lv[1]'}),
                            out_sinfo={infos[0] if results == 1 else '[' + ', '.join(infos) + ']'})
            R.output(gv)
        return gv
""")


def blocked(columns, results=1):
    """The function by blocks of 4 columns."""
    shape = f"(3, {-(-columns // 4)}, 4)"
    outs = [f"O{n}: T.Buffer({shape}, 'float32')" for n in range(results)]
    stores = [f"O{n}[vi, vj, vk] = A[vi, vj, vk] {'+-'[n]} B[vi, vj, vk] * A[vi, vj, vk]" for n in range(results)]
    lines = "\n            ".join(stores)
    return from_source(f"""@T.prim_func(private=True)
def fma(A: T.Buffer({shape}, 'float32'), B: T.Buffer({shape}, 'float32'), {', '.join(outs)}):
    for i, j, k in T.grid(*{shape}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            {lines}
""".replace(f"*{shape}", shape[1:-1]))


@pytest.mark.parametrize("columns, results", [(8, 1), (8, 2), (6, 1), (3, 2)])
def test_the_program_computes_the_same(columns, results):
    before = module(columns, results)
    after = relax.transform.AlterOpImpl({"my.fma": blocked(columns, results)}, {
        "my.fma": [eval(SPLIT)] * (2 + results)}, {}, {})(before)
    assert "my_fma_replacement" in after and ("remove_pad" in after) == (columns % 4 > 0)
    calls = [c for c in collect(after["main"], RelaxCall) if c.op == "call_tir"]
    assert sum(c.attrs["gv"].name == "my_fma_replacement" for c in calls) == 2
    assert not any(c.attrs["gv"].name == "fma" for c in calls)
    rng = np.random.default_rng(0)
    given = [rng.standard_normal((3, columns)).astype("float32") for _ in range(2)]
    for want, got in zip(evaluate(before, given), evaluate(after, given)):
        np.testing.assert_array_equal(got, want)


def test_what_stays_and_separators():
    index_map, separators = IndexMap.from_func_with_separators(
        lambda i, j: (i, j // 4, IndexMap.AXIS_SEPARATOR, j % 4), index_dtype="int64")
    after = relax.transform.AlterOpImpl({"my.fma": blocked(8)}, {"my.fma": [(index_map, separators)] * 3}, {
        "my.fma": [separators, [], []]}, {"my.fma": [[], [], separators]})(module(8))
    moved = [c.attrs for c in collect(after["main"], RelaxCall) if c.op == "layout_transform"]
    assert [list(a["axis_separators"]) for a in moved] == [[2], [], []] * 2
    assert [list(a["input_axis_separators"]) for a in moved] == [[], [], [2]] * 2
    same = relax.transform.AlterOpImpl({"my.fma": module(8)["fma"]}, {"my.fma": []}, {}, {})(module(8))
    assert not any(c.op == "layout_transform" for c in collect(same["main"], RelaxCall))


@pytest.mark.parametrize("maps, message", [
    ([eval(SPLIT)] * 2, "2 layouts, its implementation 3 parameters"),
    ([eval(SPLIT), eval(SPLIT), 5], "IndexMap, a function of indices or None, not 5"),
    ([None, None, lambda i, j: (i + j,)], "result 2 of my.fma cannot be brought back"),
    ([lambda i: (i,), None, None], "parameter 0 of my.fma: .* takes 1 indices"),
])
def test_errors_name_the_operator(maps, message):
    with pytest.raises(ValueError, match=message):
        relax.transform.AlterOpImpl({"my.fma": blocked(8)}, {"my.fma": maps}, {}, {})(module(8))


# ---------------------------------------------------------------- suggested layouts

ROWS = """@T.prim_func
def rows(A: T.Buffer((4, 8, 5), 'float32'), W: T.Buffer((8,), 'float32'), O: T.Buffer((4, 8), 'float32')):
    for i, j, k in T.grid(4, 8, 5):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                O[vi, vj] = T.float32(0)
            O[vi, vj] = O[vi, vj] + A[vi, vj, vk] * W[vj]
"""


@pytest.mark.parametrize("index_map", [lambda i, j: (j, i), lambda i, j: (i, j // 4, j % 4), lambda i, j: (i * 8 + j,)])
def test_suggested_layouts_keep_what_is_computed(index_map):
    func = from_source(ROWS)
    suggested = relax.analysis.suggest_layout_transforms(func, [index_map])
    (block, maps), = suggested.items()
    assert isinstance(block, Block) and {getattr(k, "name", "block") for k in maps} >= {"block", "O", "A"}
    sch = tir.Schedule(func)
    for what, chosen in maps.items():
        if isinstance(what, Block):
            sch.transform_block_layout(what.name_hint, chosen)
        else:
            sch.transform_layout("C", what, chosen)
    made = sch.mod["main" if "main" in sch.mod else "rows"]
    shapes = [tuple(int(d) for d in made.buffer_map[p].shape) for p in made.params]
    out = IndexMap.from_func(index_map, index_dtype="int32")
    assert shapes[2] == tuple(int(d) for d in out.map_shape((4, 8)))
    rng = np.random.default_rng(1)
    a, w = rng.standard_normal((4, 8, 5)).astype("float32"), rng.standard_normal(8).astype("float32")
    by_name = {getattr(k, "name", None): m for k, m in maps.items()}
    given = [by_name[n].map_ndarray(v) if n in by_name else v for n, v in (("A", a), ("W", w))]
    result = tvm.nd.empty(shapes[2], "float32")
    tvm.build(sch.mod, target="c")(*map(tvm.nd.array, given), result)
    np.testing.assert_allclose(result.numpy(), out.map_ndarray((a * w[:, None]).sum(-1)), rtol=1e-5, atol=1e-5)
    assert collect(made.body, For)[-1].extent.value == shapes[2][0]  # the outermost loop goes over the output in order


def test_what_is_not_understood_is_left_out():
    flat = from_source("""@T.prim_func
def flat(A: T.Buffer((4, 4), 'float32'), O: T.Buffer((16,), 'float32')):
    for i, j in T.grid(4, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            O[vi * 4 + vj] = A[vi, vj]
""")
    suggest = relax.analysis.suggest_layout_transforms
    assert suggest(flat, [lambda i: (i // 4, i % 4)]) == {} == suggest(flat, [])
    assert suggest(from_source(ROWS), [lambda i, j: (i, j // 5, j % 5)]) == {}  # 5 does not divide 8
    with pytest.raises(ValueError, match="Mismatch between output buffer shape and index map: O has 1"):
        suggest(flat, [IndexMap.from_func(lambda i, j: (j, i))])
    with pytest.raises(ValueError, match="Incompatible PrimFunc and write_transformations"):
        suggest(flat, [lambda i: (i,)] * 3)
    with pytest.raises(TypeError, match="not 2"):
        suggest(flat, [2])


def test_remainders_have_all_their_places():
    by_four = IndexMap.from_func(lambda i: (i // 4, i % 4), index_dtype="int64")
    assert [int(d) for d in by_four.map_shape((3,))] == [1, 4]
    inverse, outside = by_four.non_surjective_inverse((3,))
    assert [int(tvm.arith.Analyzer().simplify(tir.stmt_functor.substitute(
        outside, dict(zip(inverse.initial_indices, map(tir.IntImm, ["int64"] * 2, at)))))) for at in (
            (0, 2), (0, 3))] == [0, 1]
