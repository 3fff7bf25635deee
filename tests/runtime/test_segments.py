"""Segments: what of a function with objects can be networks of C is compiled, and computes what the machine does."""
from functools import partial

import numpy as np
import pytest
from value_target import small_target

import ingot as tvm
from ingot import relax
from ingot.relax.frontend import nn
from ingot.ir.transform.canonicalize_bindings import with_dims
from ingot.runtime import executable as executables
from ingot.runtime.machine import FitError, Machine, ShapeTuple
from ingot.script import ir as I, relax as R, tir as T  # noqa: E741

RNG = np.random.default_rng(0)


@I.ir_module
class Steps:
    @R.function(pure=False)
    def main(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 8), "float32"), state: R.Object):
        n = T.int64()
        a = R.matmul(x, w)
        b = R.nn.relu(a)
        c = R.call_packed("test.segments.keep", state, b, sinfo_args=R.Tensor((n, 8), "float32"))
        parts = R.split(c, 2, axis=1)
        left = parts[0]
        right = parts[1]
        d = R.concat([right, left], axis=1)
        e = R.matmul(d, w)
        f = R.nn.relu(e)
        _ = R.call_packed("test.segments.keep", state, f, sinfo_args=R.Tensor((n, 8), "float32"))
        g = R.nn.softmax(f, axis=-1)
        h = R.add(g, b)
        return (h, state)

    @R.function
    def sizes(s: R.Shape(["m"]), x: R.Tensor((3,), "float32"), state: R.Object):
        m = T.int64()
        a = R.broadcast_to(R.exp(x), R.shape([m, 3]))
        b = R.sum(a, axis=[0])
        return (b, R.multiply(b, b), state)

    @R.function
    def inside(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 8), "float32"), state: R.Object):
        n = T.int64()

        @R.function
        def twice(a: R.Tensor((n, 8), "float32")) -> R.Tensor((n, 8), "float32"):
            b = R.matmul(a, w)
            c = R.matmul(b, w)
            return c
        y = twice(x)
        big = R.greater(R.sum(y), R.const(0, "float32"))
        if big:
            z = R.nn.softmax(R.add(y, y))
        else:
            z = R.matmul(y, w)
        return (z, state)


class Kept:
    """An object that is no value of the machine's own."""

    def __init__(self):
        self.rows = []


def keep(state, x):
    state.rows.append(x.numpy())
    return x


@pytest.fixture(scope="module")
def built():
    tvm.register_func("test.segments.keep", keep, override=True)
    return relax.build(Steps, small_target())


def by_hand(executable, name, *args):
    """What the machine computes, binding by binding."""
    machine = Machine(executable.source, lambda n: partial(machine_run, n), executable.kernel)

    def machine_run(n, *given):
        return machine.run(n, given)
    return machine.run(name, args)


def tensors(*shapes):
    return [tvm.nd.array((RNG.standard_normal(s) * 0.5).astype("float32")) for s in shapes]


def test_a_packed_function_stands_between_segments(built):
    vm = relax.VirtualMachine(built, tvm.cpu())
    for rows in (3, 1, 7, 3):  # one machine, several lengths
        x, w = tensors((rows, 8), (8, 8))
        kept, wanted = Kept(), Kept()
        found, same = vm["main"](x, w, kept)
        expected, _ = by_hand(built, "main", x, w, wanted)
        assert np.abs(found.numpy() - expected.numpy()).max() < 1e-5 and same is kept
        assert len(kept.rows) == 2 and all(np.abs(a - b).max() < 1e-5 for a, b in zip(kept.rows, wanted.rows))
    assert built.stats().splitlines()[0] == ("main(x, w, state): run binding by binding, with the networks main_segment, "
                                             "main_segment1, main_segment2")
    assert not built.refused and all(built.segment(n) for n in built.segments)


def test_dimensions_that_no_argument_tells_come_as_a_shape(built):
    segment = built.outlined["sizes_segment"]
    assert [p.name for p in segment.params] == ["x", "sizes"] and "global_symbol" not in segment.attrs
    for m in (4, 1, 9):
        (x,) = tensors(3)
        total, square, _ = relax.VirtualMachine(built, tvm.cpu())["sizes"](ShapeTuple([m]), x, None)
        assert np.allclose(total.numpy(), m * np.exp(x.numpy()), rtol=1e-5)
        assert np.allclose(square.numpy(), total.numpy() ** 2, rtol=1e-5)


def test_dimensions_of_one_name_are_two():
    @R.function
    def main(s: R.Shape(["n"]), t: R.Shape(["m"]), x: R.Tensor((3,), "float32")):
        n, m = T.int64(), T.int64()
        a = R.broadcast_to(R.exp(x), R.shape([n, m, 3]))
        b = R.sum(a, axis=[1])
        return b

    one, two = main.params[0].struct_info.values[0], main.params[1].struct_info.values[0]
    named = with_dims(main, {two: tvm.tir.Var(one.name, two.dtype)})
    vm = relax.VirtualMachine(relax.build(tvm.IRModule({"main": named}), small_target()), tvm.cpu())
    (x,) = tensors(3)
    found = vm["main"](ShapeTuple([2]), ShapeTuple([5]), x).numpy()
    assert vm.executable.segments and np.allclose(found, np.tile(5 * np.exp(x.numpy()), (2, 1)), rtol=1e-5)


def test_functions_and_branches_inside_have_segments(built):
    assert {"inside_segment", "inside_segment1", "inside_segment2"} & set(built.segments)
    for sign in (1, -1):
        x, w = (tvm.nd.array(np.abs(t.numpy()) * s) for t, s in zip(tensors((4, 8), (8, 8)), (sign, 1)))
        found = relax.VirtualMachine(built, tvm.cpu())["inside"](x, w, 0)[0]
        assert np.abs(found.numpy() - by_hand(built, "inside", x, w, 0)[0].numpy()).max() < 1e-5


def test_weights_go_by_reference(built, monkeypatch):
    x, w = tensors((2, 8), (8, 8))
    library, seen = built.segment("main_segment"), []
    answers = library.answers
    monkeypatch.setattr(library, "answers", lambda values, given: (seen.extend(values), answers(values, given))[1])
    relax.VirtualMachine(built, tvm.cpu())["main"](x, w, Kept())
    assert any(np.shares_memory(a, w.__array__()) for a in seen)


def test_what_a_network_cannot_take_is_for_the_machine(built):
    vm = relax.VirtualMachine(built, tvm.cpu())
    x, w = tensors((0, 8), (8, 8))
    assert vm["main"](x, w, Kept())[0].shape == (0, 8)
    tvm.register_func("test.segments.keep", lambda state, x: tvm.nd.array(np.zeros((5, 7), "float32")), override=True)
    try:
        with pytest.raises(FitError, match="main_segment1.*axis 1 is 7, and must be 8"):
            vm["main"](*tensors((5, 8), (8, 8)), Kept())
    finally:
        tvm.register_func("test.segments.keep", keep, override=True)


def test_what_the_compiler_refuses_is_run_binding_by_binding(monkeypatch, caplog, built):
    def refuse(mod, options):
        raise ValueError("no rule for this")
    monkeypatch.setattr(executables, "compile_module", refuse)
    executable = relax.build(Steps, small_target())
    x, w = tensors((3, 8), (8, 8))
    found = relax.VirtualMachine(executable, tvm.cpu())["main"](x, w, Kept())[0]
    assert np.array_equal(found.numpy(), by_hand(executable, "main", x, w, Kept())[0].numpy())
    assert "main_segment: run binding by binding: no rule for this" in executable.stats()
    assert "main_segment is run binding by binding: no rule for this" in caplog.text


def test_equal_segments_are_one_and_the_pass_is_usable_alone():
    @I.ir_module
    class Layers:
        @R.function
        def main(x: R.Tensor(("n", 8), "float32"), v: R.Tensor((8, 8), "float32"), w: R.Tensor((8, 8), "float32"),
                 state: R.Object):
            n = T.int64()
            a = R.matmul(x, v)
            b = R.call_pure_packed("test.segments.keep", state, a, sinfo_args=R.Tensor((n, 8), "float32"))
            c = R.matmul(b, w)
            d = R.call_pure_packed("test.segments.keep", state, c, sinfo_args=R.Tensor((n, 8), "float32"))
            return d

        @R.function
        def network(x: R.Tensor((2, 2), "float32")) -> R.Tensor((2, 2), "float32"):
            y = R.matmul(x, x)
            return y

    after = relax.transform.OutlineSegments()(Layers)
    assert set(map(str, after.functions)) == {"main", "network", "main_segment"} and relax.analysis.well_formed(after)
    assert tvm.ir.structural_equal(tvm.script.from_source(after.script()), after)
    assert tvm.ir.structural_equal(after["network"], Layers["network"])
    assert set(relax.transform.OutlineSegments(least=3)(Layers).functions) == set(Layers.functions)
    assert relax.transform.OutlineSegments()(after).script() == after.script()


def test_a_cache_of_keys_keeps_its_steps():
    class Attention(nn.Module):
        def __init__(self):
            self.q, self.k = (nn.Linear(8, 8, bias=False) for _ in range(2))
            self.keys = nn.KVCache(2, [8])

        def forward(self, x, total):
            self.keys.append(self.k(x))
            keys = self.keys.view(total)
            scores = nn.op.matmul(self.q(x), nn.op.permute_dims(keys, [1, 0]))
            return nn.op.matmul(nn.op.softmax(scores, axis=-1), keys)

    module = Attention()
    for p, t in zip((module.q.weight, module.k.weight), tensors((8, 8), (8, 8))):
        p.data = t
    with small_target():
        step = module.jit({"forward": {"x": nn.spec.Tensor(("n", 8), "float32"), "total": int}}, out_format="numpy")
    assert step.vm.executable.segments
    keys, (q, k) = np.zeros((0, 8), "float32"), (m.weight.data.numpy() for m in (module.q, module.k))
    for rows in (3, 1, 2):
        x = tensors((rows, 8))[0].numpy()
        keys = np.concatenate([keys, x @ k.T])
        scores = np.exp(x @ q.T @ keys.T)
        assert np.abs(step["forward"](x, len(keys)) - scores / scores.sum(-1, keepdims=True) @ keys).max() < 1e-5
