"""The functions vm.builtin.* of the virtual machine."""
import numpy as np
import pytest

import ingot
from ingot.contrib import tvmjs
from ingot.runtime import ShapeTuple
from ingot.runtime.builtins import PLAIN_CALLS
from ingot.runtime.vm_functions import (ASSERT_EQUAL_TO_IMM, ASSERT_EQUAL_TO_LOAD, LOAD_SHAPE, NO_OP, STORE_TO_HEAP,
                                        USE_IMM)

X = ingot.nd.array(np.arange(6, dtype="float32").reshape(2, 3))


def builtin(name):
    return ingot.get_global_func(f"vm.builtin.{name}")


def test_shapes_go_through_a_heap():
    heap = builtin("alloc_shape_heap")(None, 2)
    builtin("match_shape")(X, heap, 2, STORE_TO_HEAP, 1, ASSERT_EQUAL_TO_IMM, 3, "of x")
    builtin("match_shape")(ShapeTuple([7, 2]), heap, 2, NO_OP, 0, ASSERT_EQUAL_TO_LOAD, 1, "of y")
    assert builtin("make_shape")(heap, 2, LOAD_SHAPE, 1, USE_IMM, 5) == (2, 5)
    assert builtin("make_prim_value")(heap, LOAD_SHAPE, 1) == 2
    with pytest.raises(RuntimeError, match=r"of z expects dimension 0 to be 2, got \[7\]"):
        builtin("match_shape")(ShapeTuple([7]), heap, 1, ASSERT_EQUAL_TO_LOAD, 1, "of z")
    with pytest.raises(RuntimeError, match="expects 1 dimensions"):
        builtin("match_shape")(X, heap, 1, NO_OP, 0, "")


@pytest.mark.parametrize("name, args, error", [
    ("tensor", (X, 2, "float32", "w"), None), ("tensor", (X, -1, "", "w"), None), ("tensor", (X, 2, "w"), None),
    ("tensor", (X, 2), None),
    ("tensor", (X, 3, "w"), "w expects a tensor of ndim 3, got 2"),
    ("tensor", (X, 2, "int32", "w"), "w expects a tensor of dtype int32, got float32"),
    ("tensor", ([], 2, "w"), "w expects a tensor"), ("shape", (ShapeTuple([1, 2]), 2, "w"), None),
    ("shape", (ShapeTuple([1, 2]), 1, "w"), "w expects a shape of ndim 1, got 2"),
    ("shape", (X, 2, "w"), "a ShapeTuple"),
    ("tuple", ((X, X), 2, "w"), None), ("tuple", ((X,), 2, "w"), "elements 2, got 1"),
    ("tuple", (X, 2, "w"), "a tuple"),
    ("func", (print, "w"), None), ("func", (X, "w"), "w expects a function"),
    ("prim_value", (3, "int64", "w"), None), ("prim_value", (3.5, "int64", "w"), "a number of dtype int64"),
])
def test_checks_name_what_does_not_fit(name, args, error):
    check = builtin(f"check_{name}_info")
    if error is None:
        check(*args)
        return
    with pytest.raises((TypeError, ValueError), match=error):
        check(*args)


@pytest.mark.parametrize("sinks, most", [(0, 5), (2, 5), (0, 4), (3, 4)])
def test_a_window_keeps_its_sinks_and_the_newest_rows(sinks, most):
    name = "attention_kv_cache_window_override" + ("_with_sinks" if sinks else "")
    empty = ingot.nd.array(np.full((1, 2), -1, "int32"))
    cache = builtin("attention_kv_cache_create")(empty, ShapeTuple([1, 2]), 0)
    kept = []  # row of the cache -> which row of all it holds
    for n in range(12):
        if len(kept) < most:
            place = len(kept)
            kept.append(n)
        else:
            place = place + 1 if place + 1 < most else sinks
            kept[place] = n
        rows = ingot.nd.array(np.full((1, 2), n, "int32"))
        builtin(name)(cache, rows, most, *([sinks] if sinks else []))
        assert builtin("attention_kv_cache_view")(cache).numpy()[:, 0].tolist() == kept
    with pytest.raises(ValueError, match="has no room for 6"):
        builtin(name)(cache, ingot.nd.array(np.zeros((6, 2), "int32")), most, *([sinks] if sinks else []))


def test_forks_of_a_cache_do_not_see_each_other():
    cache = builtin("attention_kv_cache_create")(X, ShapeTuple([2, 3]), -1)
    fork = cache.fork()
    builtin("attention_kv_cache_update")(fork, ingot.nd.array(np.ones((2, 3), "float32")))
    builtin("attention_kv_cache_append")(cache.fork(), X)
    assert np.array_equal(cache.view().numpy(), X.numpy()) and fork.view().numpy().min() == 1


def test_forks_of_a_cache_may_all_go_on():
    cache = builtin("attention_kv_cache_create")(X, ShapeTuple([8, 3]), -1)
    first, second = cache.fork(), cache.fork()
    for n, one in enumerate((first, second, cache, first.fork())):
        builtin("attention_kv_cache_append")(one, ingot.nd.array(np.full((2, 3), n, "float32")))
        memory = one.data
        builtin("attention_kv_cache_append")(one, ingot.nd.array(np.full((1, 3), n, "float32")))
        assert one.data is memory  # rows are moved once, if at all
    for n, one in enumerate((first, second, cache)):
        assert np.array_equal(one.view().numpy(), np.concatenate([X.numpy(), np.full((3, 3), n)]))


def test_tensors_lie_inside_their_memory():
    reshape = builtin("reshape")
    assert reshape(X, ShapeTuple([6])).numpy().tolist() == list(range(6))
    for shape in ([7], [4, 2]):
        with pytest.raises(ValueError, match="only contains 24 bytes"):
            reshape(X, ShapeTuple(shape))
    with pytest.raises(ValueError, match="would occupy bytes -4 <= i_byte < 0"):
        PLAIN_CALLS["memory.view"](X, (1,), "float32", -4)


@pytest.mark.parametrize("given, expected", [
    ("shape=R.shape([6])", [0, 1, 2, 3, 4, 5]), ('dtype="int32"', X.numpy().view("int32").tolist()),
    ("shape=R.shape([2]), relative_byte_offset=R.prim_value(8)", [2, 3])])
def test_views_run_with_any_of_their_arguments(given, expected):
    mod = ingot.script.from_source(f"""@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        y = R.memory.view(x, {given})
        return y
""")
    assert ingot.script.from_source(mod.script())["main"].ret_struct_info == mod["main"].ret_struct_info
    assert ingot.relax.VirtualMachine(ingot.relax.build(mod))["main"](X).numpy().tolist() == expected


def test_a_cache_forgets_and_replaces_rows():
    cache = builtin("attention_kv_cache_create")(X, ShapeTuple([2, 3]), -1)
    builtin("attention_kv_cache_append")(cache, X)
    builtin("attention_kv_cache_array_popn")((cache,), 1)
    builtin("attention_kv_cache_update")(cache, ingot.nd.array(np.ones((3, 3), "float32")))
    assert builtin("attention_kv_cache_view")(cache, ShapeTuple([3, 3])).numpy().tolist() == np.ones((3, 3)).tolist()
    with pytest.raises(ValueError, match="9 rows cannot be there in a cache with room for 2"):
        builtin("attention_kv_cache_create")(X, ShapeTuple([2, 3]), 9)
    with pytest.raises(ValueError, match="4 rows cannot be taken off a cache of 3"):
        builtin("attention_kv_cache_array_popn")((cache,), 4)
    with pytest.raises(ValueError, match=r"rows of float32\[2, 2\] do not fit a cache of float32\['n', 3\]"):
        builtin("attention_kv_cache_append")(cache, ingot.nd.array(np.ones((2, 2), "float32")))
    builtin("attention_kv_cache_array_clear")((cache,))
    assert builtin("attention_kv_cache_view")(cache).shape == (0, 3)


def test_weights_in_a_folder_of_shards(tmp_path):
    rng = np.random.default_rng(0)
    weights = {"w_0": rng.random((3, 4), np.float32), "w_1": np.arange(5, dtype=np.int32),
               "big": np.array([3.4e38, -3.4e38, np.inf, 0], np.float32)}
    tvmjs.dump_ndarray_cache(weights, str(tmp_path), meta_data={"by": "test"})
    weights["w_1"] += 1
    tvmjs.dump_ndarray_cache({**weights, "w_2": ingot.nd.array(weights["w_0"])}, tmp_path, update_if_exists=True)
    loaded, meta = tvmjs.load_ndarray_cache(tmp_path / "ndarray-cache.json", ingot.cpu())
    assert meta == {"by": "test"} and loaded["w_1"].numpy().tolist() == [1, 2, 3, 4, 5]
    np.testing.assert_allclose(loaded["w_2"].numpy(), weights["w_0"], rtol=2 ** -8)
    assert np.isfinite(loaded["big"].numpy()).tolist() == [True, True, False, True]
    narrow, _ = tvmjs.load_ndarray_cache(str(tmp_path / "ndarray-cache-b16.json"), ingot.cpu())
    assert narrow["w_0"].dtype == "bfloat16" and np.array_equal(
        narrow["w_0"].numpy().astype(np.float32), loaded["w_0"].numpy())
    builtin("ndarray_cache.load")(str(tmp_path), ingot.cpu().device_type, 0)
    assert len(builtin("param_array_from_cache")("w", -1)) == 3
    by_name = builtin("param_array_from_cache_by_name")
    assert [v.shape for v in by_name(["big", "w_0"])] == [(4,), (3, 4)]
    with pytest.raises(ValueError, match="the cache has no w_7"):
        by_name(["w_7"])
    with pytest.raises(ValueError, match="Cannot update record w_1, size mismatch"):
        tvmjs.dump_ndarray_cache({"w_1": np.zeros(1)}, tmp_path, update_if_exists=True)
    builtin("ndarray_cache.clear")()
    tvmjs.dump_ndarray_cache({f"p_{n}": np.full(300_000, n) for n in range(2)}, tmp_path / "2", "raw", shard_cap_mb=3)
    assert len(list((tmp_path / "2").glob("params_shard_*.bin"))) == 2
    assert tvmjs.load_ndarray_cache(tmp_path / "2")[0]["p_1"].numpy()[-1] == 1
    tvmjs.dump_ndarray_cache({"w_1": np.ones(5, np.float32)}, tmp_path, "raw")
    assert not (tmp_path / "ndarray-cache-b16.json").exists()  # it was of the weights before
    tvmjs.dump_ndarray_cache({"w_2": np.ones(5, np.float32)}, tmp_path, update_if_exists=True)
    narrow, _ = tvmjs.load_ndarray_cache(tmp_path / "ndarray-cache-b16.json")
    assert [narrow[n].dtype for n in ("w_1", "w_2")] == ["float32", "bfloat16"]


@pytest.mark.parametrize("old, new, message", (
    ('"records"', '"rows"', "ndarray-cache.json is no index of weights"),
    ("[", "", "ndarray-cache.json is no index of weights"),
    ('"raw"', '"f16"', "the format of w must be 'raw' or 'f32-to-bf16', not 'f16'"),
    ('"byteOffset": 0', '"byteOffset": 4', r"w, float32\[2\], cannot be the 8 bytes from 4 of 8"),
    ('"float32"', '"float16"', r"w, float16\[2\], cannot be the 8 bytes from 0 of 8"),
))
def test_weights_that_are_not_as_their_index_says_are_refused(tmp_path, old, new, message):
    tvmjs.dump_ndarray_cache({"w": np.ones(2, np.float32)}, tmp_path, "raw")
    index = tmp_path / "ndarray-cache.json"
    index.write_text(index.read_text().replace(old, new, 1))
    with pytest.raises(ValueError, match=message):
        tvmjs.load_ndarray_cache(tmp_path)
