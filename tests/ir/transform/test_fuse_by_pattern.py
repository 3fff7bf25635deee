"""FuseOpsByPattern and MergeCompositeFunctions: what becomes a function of its own, in which order, and for whom."""
import numpy as np
import pytest

import ingot
from ingot import relax
from ingot.ir.relax.verifier import verify
from ingot.ir.script.functions import from_source
from ingot.relax import transform as rt
from ingot.relax.dpl import is_op, is_tuple_get_item, wildcard
from ingot.script import ir as I
from ingot.script import relax as R
from ingot.script import tir as T

MATMUL = is_op("relax.matmul")(wildcard(), wildcard())
BIASED = is_op("relax.add")(MATMUL, wildcard())
RELU = is_op("relax.nn.relu")(wildcard())


@I.ir_module
class Layer:
    @R.function
    def main(x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32"), b: R.Tensor((4,), "float32")):
        with R.dataflow():
            lv = R.matmul(x, w)
            lv1 = R.add(lv, b)
            lv2 = R.nn.relu(lv1)
            lv3 = R.matmul(lv2, w)
            out = R.add(lv3, b)
            R.output(out)
        return out


@I.ir_module
class Branches:
    @R.function
    def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            product = R.matmul(x, w)
            positive = R.nn.relu(product)
            a = R.exp(positive)
            b = R.exp(product)
            out = R.add(a, b)
            R.output(out)
        return out


def calls(func):
    """The names of the functions that a function calls, operators as they are."""
    values = [b.value for b in func.bindings if isinstance(b.value, relax.Call)]
    return [v.attrs["gv"].name if v.op == "call" else str(v.op) for v in values]


def evaluated(mod, *args):
    return relax.VirtualMachine(relax.build(mod, "c"), ingot.cpu())["main"](*args).numpy()


def arrays(mod):
    rng = np.random.default_rng(0)
    return [rng.standard_normal([int(d) for d in p.struct_info.shape]).astype("float32") for p in mod["main"].params]


def test_matches_become_private_functions():
    mod = rt.FuseOpsByPattern([("my.dense", BIASED)])(Layer)
    name = "fused_relax_matmul_relax_add"
    assert calls(mod["main"]) == [name, "nn.relu", name], "equal groups are one function"
    assert mod[name].attrs == {"Composite": "my.dense", "Primitive": 1}
    assert calls(mod[name]) == ["matmul", "add"] and [p.name for p in mod[name].params] == ["x", "w", "b"]


def test_what_is_partitioned_computes_the_same():
    given = arrays(Layer)
    mod = rt.FuseOpsByPattern([("my.dense", BIASED), ("my.relu", RELU)])(Layer)
    np.testing.assert_allclose(evaluated(mod, *given), evaluated(Layer, *given), rtol=1e-5)


def test_earlier_patterns_go_first():
    mod = rt.FuseOpsByPattern([("my.matmul", MATMUL), ("my.dense", BIASED)])(Layer)
    assert calls(mod["main"]) == ["fused_relax_matmul", "add", "nn.relu", "fused_relax_matmul", "add"]


def test_the_largest_match_is_taken():
    mod = rt.FuseOpsByPattern([("my.any", BIASED | is_op("relax.nn.relu")(BIASED))])(Layer)
    assert calls(mod["main"])[0] == "fused_relax_matmul_relax_add_relax_nn_relu"


def test_a_result_that_others_use_is_returned_as_well():
    both = is_op("relax.nn.relu")(MATMUL)
    mod = rt.FuseOpsByPattern([("my.both", both)])(Branches)
    func = mod["fused_relax_matmul_relax_nn_relu"]
    assert [v.name for v in func.outputs] == ["positive", "product"], "in order of their first use"
    assert [b.value.index for b in mod["main"].bindings[1:3]] == [1, 0]
    given = arrays(Branches)
    np.testing.assert_allclose(evaluated(mod, *given), evaluated(Branches, *given), rtol=1e-5)


def test_a_match_that_needs_its_own_result_is_refused():
    product = is_op("relax.matmul")(wildcard(), wildcard())
    sum_ = is_op("relax.add")(is_op("relax.exp")(is_op("relax.nn.relu")(product)), wildcard())
    with pytest.raises(ValueError, match="A cyclic dependency detected"):
        rt.FuseOpsByPattern([("my.sum", sum_)])(Branches)


def test_a_check_sees_the_match():
    seen = []

    def check(context):
        seen.append(context)
        return getattr(context.annotated_expr["left"], "name_hint", "") == "x"

    left = wildcard()
    pattern = is_op("relax.matmul")(left, wildcard())
    mod = rt.FuseOpsByPattern([("my.first", pattern, {"root": pattern, "left": left}, check)])(Layer)
    assert calls(mod["main"]) == ["fused_relax_matmul", "add", "nn.relu", "matmul", "add"]
    context = seen[-1]
    assert context.matched_expr is context.annotated_expr["root"]
    (var, value), = context.matched_bindings.items()
    assert value is context.matched_expr and context.value_to_bound_var[value] is var
    assert [v.name for v in context.var_usages[var]] == ["lv1"]


def test_constants_stay_inside_or_are_arguments():
    mod = rt.BindParams("main", {"w": np.eye(4, dtype="float32")})(Layer)
    for bind, names in ((True, ["x"]), (False, ["x", "param_1"])):
        func = rt.FuseOpsByPattern([("my.matmul", MATMUL)], bind_constants=bind)(mod)["fused_relax_matmul"]
        assert [p.name for p in func.params] == names


def test_items_of_tuples_are_in_the_match():
    @I.ir_module
    class Halves:
        @R.function
        def main(x: R.Tensor((4, 8), "float32")):
            with R.dataflow():
                both = R.split(x, [4], axis=1)
                first = both[0]
                second = both[1]
                out = R.add(first, second)
                R.output(out)
            return out

    split = is_op("relax.split")(wildcard())
    sum_ = is_op("relax.add")(is_tuple_get_item(split, 0), is_tuple_get_item(split, 1))
    assert calls(rt.FuseOpsByPattern([("my.sum", sum_)])(Halves)["main"]) == ["fused_relax_split_relax_add"]
    mod = rt.FuseOpsByPattern([("my.split", split)])(Halves)
    assert calls(mod["main"]) == ["fused_relax_split", "add"]


def test_another_name_of_a_value_ends_a_match():
    @I.ir_module
    class Renamed:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                y = R.matmul(x, w)
                z = y
                out = R.add(z, x)
                R.output(out)
            return out

    assert rt.FuseOpsByPattern([("my.dense", BIASED)])(Renamed) is not None
    assert "add" in calls(rt.FuseOpsByPattern([("my.dense", BIASED)])(Renamed)["main"])


def test_groups_of_symbolic_dimensions():
    @I.ir_module
    class Dynamic:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                y = R.matmul(x, w)
                out = R.nn.relu(y)
                R.output(out)
            return out

    mod = rt.FuseOpsByPattern([("my.matmul", MATMUL)])(Dynamic)
    assert calls(mod["main"]) == ["fused_relax_matmul", "nn.relu"] and relax.analysis.well_formed(mod)
    assert mod["fused_relax_matmul"].params[0].struct_info.shape[0] is not mod["main"].params[0].struct_info.shape[0]
    given = [np.ones((3, 4), "float32"), np.ones((4, 4), "float32")]
    np.testing.assert_allclose(evaluated(mod, *given), np.full((3, 4), 4.0))


def test_groups_use_dimensions_that_their_arguments_do_not_tell():
    @I.ir_module
    class Spread:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")):
            n, m = T.int64(), T.int64()
            with R.dataflow():
                rows = R.broadcast_to(x, (m, n))
                out = R.exp(rows)
                R.output(out)
            return out

    mod = rt.FuseOpsByPattern([
        ("my.rows", is_op("relax.broadcast_to")(wildcard(), varg_default_wildcard=True))])(Spread)
    assert calls(mod["main"]) == ["fused_relax_broadcast_to", "exp"]
    verify(mod)
    x = np.arange(3, dtype="float32")
    np.testing.assert_allclose(evaluated(mod, x, np.zeros(2, "float32")), np.exp([x, x]), rtol=1e-5)


# ------------------------------------------------------------ functions for generators

def composites(func):
    """The Composite names of the functions inside a function."""
    return [b.value.attrs["Composite"] for b in func.bindings if isinstance(b.value, relax.Function)]


def test_functions_for_a_generator():
    mod = rt.FuseOpsByPattern([("my.dense", BIASED)], annotate_codegen=True)(Layer)
    name = "fused_relax_matmul_relax_add_my"
    assert list(mod.functions) == ["main", name] and calls(mod["main"]) == [name, "nn.relu", name]
    assert mod[name].attrs == {"Codegen": "my", "global_symbol": name} and composites(mod[name]) == ["my.dense"]
    again = rt.FuseOpsByPattern([("my.dense", BIASED)], annotate_codegen=True)(mod)
    ingot.ir.assert_structural_equal(again, mod)


def test_neighbours_for_one_generator_are_merged():
    mod = rt.FuseOpsByPattern([("my.dense", BIASED), ("my.relu", RELU)])(Layer)
    mod = rt.MergeCompositeFunctions()(mod)
    name, = calls(mod["main"])
    assert mod[name].attrs == {"Codegen": "my", "global_symbol": name}
    assert sorted(composites(mod[name])) == ["my.dense", "my.relu"] and list(mod.functions) == ["main", name]


def test_a_generator_between_keeps_functions_apart():
    patterns = [("a.matmul", MATMUL), ("b.relu", RELU), ("a.exp", is_op("relax.exp")(wildcard())),
                ("a.add", is_op("relax.add")(wildcard(), wildcard()))]
    mod = rt.MergeCompositeFunctions()(rt.FuseOpsByPattern(patterns)(Branches))
    kinds = [mod[name].attrs["Codegen"] for name in calls(mod["main"])]
    assert kinds == ["a", "b", "a"]


def test_what_is_no_pattern_is_refused():
    with pytest.raises(TypeError, match="a pattern is"):
        rt.FuseOpsByPattern([("my.dense", "relax.add")])(Layer)


def test_functions_for_a_generator_print_and_read_back():
    mod = rt.FuseOpsByPattern([("my.dense", BIASED)], annotate_codegen=True)(Layer)
    verify(mod)
    ingot.ir.assert_structural_equal(from_source(mod.script()), mod)


def test_arguments_that_are_attributes_here_are_matched():
    @I.ir_module
    class Clipped:
        @R.function
        def main(x: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                out = R.clip(x, 0, 4)
                R.output(out)
            return out

    clip = is_op("relax.clip")(wildcard(), wildcard(), wildcard())
    assert calls(rt.FuseOpsByPattern([("my.clip", clip)])(Clipped)["main"]) == ["fused_relax_clip"]


@I.ir_module
class Images:
    @R.function
    def main(x: R.Tensor((1, 8, 6, 6), "float32"), w: R.Tensor((8, 8, 3, 3), "float32")):
        with R.dataflow():
            a = R.nn.conv2d(x, w, padding=1)
            b = R.nn.relu(a)
            c = R.split(b, 2, axis=1)
            out = R.concat((c[1], c[0]), axis=1)
            R.output(out)
        return out


@pytest.mark.parametrize("bind_constants", [False, True])
def test_composite_functions_without_a_generator_are_compiled_as_if_they_were_none(bind_constants):
    """Weights are packed, layouts chosen and neighbours fused across them; constants and tuples may be inside."""
    x, w = arrays(Images)
    mod = rt.BindParams("main", {"w": w})(Images)
    conv = is_op("relax.nn.conv2d")(wildcard(), wildcard())
    grouped = rt.FuseOpsByPattern([("my.conv", conv), ("my.split", is_op("relax.split")(wildcard())), ("my.relu", RELU)],
                                  bind_constants=bind_constants)(mod)
    assert len(calls(grouped["main"])) == len([c for c in calls(grouped["main"]) if "fused" in c]) + 1
    plain, parts = (ingot.compile(m, "c") for m in (mod, grouped))
    assert list(plain.model.kernels) == list(parts.model.kernels)
    assert np.array_equal(evaluated(mod, x), evaluated(grouped, x))
