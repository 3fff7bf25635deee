"""relax.dpl: what patterns match, how they use one another, and rewriting by them."""
import ingot as tvm
import numpy as np
import pytest
from ingot import relax, tir
from ingot.ir.transform import pattern_rewrite
from ingot.script import ir as I, relax as R, tir as T
from ingot.tvm.relax.dpl import *  # noqa: F403  (as scripts import it)
from ingot.tvm.relax.dpl import PatternContext, PatternMatchingRewriter, rewrite_bindings, rewrite_call


def tensor(name, *shape, dtype="float32"):
    return relax.Var(name, relax.TensorStructInfo(shape, dtype))


X, Y = tensor("x", 4, 4), tensor("y", 4, 4)
ADD = relax.op.add(X, Y)


@pytest.mark.parametrize("pattern, value, fits", [
    (wildcard(), X, True),
    (is_var("x"), X, True), (is_var("y"), X, False), (is_var(), relax.DataflowVar("d", X.struct_info), True),
    (is_dfv(), X, False), (is_gv("relu"), relax.GlobalVar("fused_relu"), True), (is_gv("conv"), X, False),
    (is_const(), relax.const(1.0), True), (is_const(), X, False), (is_expr(X), X, True), (is_expr(X), Y, False),
    (is_op("relax.add")(is_var("x"), is_var("y")), ADD, True),
    (is_op("relax.add")(is_var("y"), is_var("x")), ADD, True),  # a sum is commutative
    (is_op("relax.subtract")(is_var("y"), is_var("x")), relax.op.subtract(X, Y), False),
    (is_op("relax.add")(is_var("x")), ADD, False),
    (is_op("relax.add")(varg_default_wildcard=True), ADD, True),
    (is_op("relax.add")(wildcard(), wildcard()).has_shape((4, 4)), ADD, True),
    (wildcard().has_shape((4, 5)), X, False), (has_dtype("float16"), X, False), (has_dtype("float32"), X, True),
    (is_shape([4, 4]), relax.ShapeExpr((4, 4)), True), (is_shape([4]), relax.ShapeExpr((4, 4)), False),
    (is_var("x") | is_var("y"), Y, True), (is_var() & has_dtype("int8"), Y, False), (~is_var("x"), Y, True),
    (reject(wildcard()), Y, False),
    (is_tuple([is_var("x"), is_var("y")]), relax.Tuple((X, Y)), True),
    (is_tuple([is_var("x"), is_var("y")]), relax.Tuple((Y, X)), False),
    (is_tuple([is_var("x"), is_var("y")], unordered=True), relax.Tuple((Y, X)), True),
    (is_tuple([is_var("x"), is_var("x")], unordered=True), relax.Tuple((Y, X)), False),
    (is_tuple_get_item(wildcard(), 1), relax.TupleGetItem(relax.Tuple((X, Y)), 1), True),
    (is_tuple_get_item(wildcard(), 0), relax.TupleGetItem(relax.Tuple((X, Y)), 1), False),
    (wildcard().has_attr({"axis": 1}), relax.op.nn.softmax(X, axis=1), True),
    (wildcard().has_attr({"axis": 0}), relax.op.nn.softmax(X, axis=1), False),
    (wildcard().has_attr({"axis": 0}), X, False),
    (wildcard().has_struct_info(relax.TensorStructInfo(None, "float32", 2)), X, True),
    (wildcard().has_struct_info(relax.TensorStructInfo(None, "float32", 3)), X, False),
])
def test_a_pattern_of_one_value(pattern, value, fits):
    assert pattern.match(value) is fits


def test_a_pattern_that_occurs_twice_matches_one_value():
    once = wildcard()
    twice = is_op("relax.add")(once, once)
    assert twice.match(relax.op.add(X, X)) and not twice.match(ADD)


def test_dimensions_of_a_pattern_stand_for_one_value_each():
    n = tir.Var("n", "int64")
    square = wildcard().has_struct_info(relax.TensorStructInfo((n, n), "float32"))
    assert square.match(X) and not square.match(tensor("z", 4, 5))


def test_quotients_of_products_match_in_either_order():
    a, b, c = (tensor(name, 4, 4) for name in "abc")
    pattern = is_op("relax.divide")(is_op("relax.multiply")(is_var("a"), is_var("b")), is_var("c"))
    assert pattern.match(relax.op.multiply(a, relax.op.divide(b, c)))
    assert pattern.match(relax.op.multiply(relax.op.divide(a, c), b))
    assert not pattern.match(relax.op.multiply(relax.op.divide(c, a), b))


def test_what_was_matched_is_named_by_its_pattern():
    left, right = wildcard(), wildcard()
    pattern = is_op("relax.add")(left, right)
    found = pattern.extract_matched_expr(ADD)
    assert found[left] is X and found[right] is Y and found[pattern] is ADD
    assert pattern.extract_matched_expr(X) is None


def test_an_item_that_no_tuple_has():
    with pytest.raises(IndexError, match="item 2 of a pattern of a tuple of 2"):
        is_tuple([wildcard(), wildcard()])[2]


# ---------------------------------------------------------------- values that use one another

@I.ir_module
class Branches:
    @R.function
    def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        with R.dataflow():
            product = R.matmul(x, w)
            left = R.nn.relu(product)
            right = R.sigmoid(product)
            out = R.add(left, right)
            R.output(out)
        return out


BLOCK = Branches["main"].body.blocks[0]


def test_a_diamond():
    with PatternContext() as context:
        product = is_op("relax.matmul")(wildcard(), wildcard())
        relu, sigmoid = is_op("relax.nn.relu")(product), is_op("relax.sigmoid")(product)
        out = is_op("relax.add")(relu, sigmoid)
    matched = context.match_dfb(BLOCK)
    assert [matched[p].name for p in (product, relu, sigmoid, out)] == ["product", "left", "right", "out"]


def test_only_used_by_what_also_another_uses():
    with PatternContext() as context:
        product = is_op("relax.matmul")(wildcard(), wildcard())
        product >> is_op("relax.nn.relu")(product)
    assert context.match_dfb(BLOCK) is None
    with PatternContext() as context:
        product = is_op("relax.matmul")(wildcard(), wildcard())
        product ^ is_op("relax.nn.relu")(product)
    assert context.match_dfb(BLOCK)


def test_sequences_are_made_again_by_dup():
    with PatternContext() as context:
        relu = is_op("relax.nn.relu")(wildcard())
        once = relu >> is_op("relax.add")(relu, wildcard())
        again = once.dup()
        assert once[0] is not again[0]
    assert context.match_dfb(BLOCK) is None  # there is one relu


def test_the_innermost_context():
    with PatternContext() as outer:
        with PatternContext() as inner:
            assert PatternContext.current() is inner
        assert PatternContext.current() is outer
    with pytest.raises(ValueError, match="no PatternContext"):
        PatternContext.current()


# ---------------------------------------------------------------- rewriting

def both(mod_or_func, other, *inputs):
    """What two graph functions give, compiled."""
    made = []
    for func in (mod_or_func, other):
        mod = tvm.IRModule({"main": func})
        vm = relax.VirtualMachine(relax.build(mod, "llvm"), tvm.cpu())
        made.append(vm["main"](*map(tvm.nd.array, inputs)).numpy())
    return made


def test_calls_rewritten_until_nothing_matches():
    @R.function
    def main(x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        with R.dataflow():
            a = R.add(x, x)
            b = R.add(a, a)
            R.output(b)
        return b

    x = wildcard()
    new = rewrite_call(is_op("relax.add")(x, x), lambda call, found: R.multiply(found[x], R.const(2.0)), main)
    assert [b.value.op for b in new.bindings] == ["multiply", "multiply"]
    same = rewrite_call(is_op("relax.add")(x, x), lambda call, found: call, main)
    assert same is main
    data = np.random.default_rng(0).standard_normal((4, 4)).astype("float32")
    np.testing.assert_array_equal(*both(main, new, data))


def test_three_products_of_one_input_become_one():
    @R.function
    def main(x: R.Tensor((2, 8), "float32"), a: R.Tensor((8, 4), "float32"), b: R.Tensor((8, 4), "float32")):
        with R.dataflow():
            q = R.matmul(x, a)
            k = R.matmul(x, b)
            out = R.concat((q, k), axis=0)
            R.output(out)
        return out

    with PatternContext() as context:
        x, a, b = wildcard(), wildcard(), wildcard()
        first, second = is_op("relax.matmul")(x, a), is_op("relax.matmul")(x, b)

    def merge(matched, values):
        both = R.matmul(matched[x], R.concat([matched[a], matched[b]], axis=1))
        halves = R.split(both, 2, axis=1)
        return {matched[first]: halves[0], matched[second]: halves[1]}

    new = rewrite_bindings(context, merge, main)
    assert [b.value.op for b in new.bindings if hasattr(b.value, "op")] == ["concat", "matmul", "split", "concat"]
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(s).astype("float32") for s in ((2, 8), (8, 4), (8, 4))]
    np.testing.assert_allclose(*both(main, new, *inputs), rtol=1e-5)


def test_a_rule_from_functions_with_symbolic_dimensions():
    @R.rewriter
    class Rule:
        @R.function
        def pattern(a: R.Tensor(("n", "m"), "float32")):
            return R.permute_dims(R.permute_dims(a))

        @R.function
        def replacement(a: R.Tensor(("n", "m"), "float32")):
            return a

    @R.function
    def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        y = R.permute_dims(x)
        z = R.permute_dims(y)
        w = R.nn.relu(z)
        return w

    new = Rule(main)
    assert [b.value.op for b in new.bindings] == ["nn.relu"] and new.bindings[0].value.args[0] is main.params[0]
    assert Rule(new) is new
    (other := Rule | PatternMatchingRewriter.from_pattern(is_op("relax.nn.relu")(wildcard()), lambda v, found: v))
    assert [b.value.op for b in other(tvm.IRModule({"main": main}))["main"].bindings] == ["nn.relu"]


def test_a_tuple_as_pattern_matches_values_wherever_they_are():
    rule = PatternMatchingRewriter.from_module(rule_of_two_products())

    @R.function
    def main(a: R.Tensor((4, 4), "float32"), b: R.Tensor((4, 4), "float32"), s: R.Tensor((4, 4), "float32")):
        p = R.matmul(a, s)
        q = R.matmul(b, s)
        return R.add(p, q)

    new = rule(main)
    assert sum(getattr(b.value, "op", "") == "matmul" for b in new.bindings) == 1
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((4, 4)).astype("float32") for _ in range(3)]
    np.testing.assert_allclose(*both(main, new, *inputs), rtol=1e-5)


def test_values_of_which_one_uses_the_other_are_no_tuple():
    rule = PatternMatchingRewriter.from_module(rule_of_two_products())

    @R.function
    def main(a: R.Tensor((4, 4), "float32"), s: R.Tensor((4, 4), "float32")):
        p = R.matmul(a, s)
        q = R.matmul(p, s)
        return R.add(p, q)

    assert rule(main) is main


def rule_of_two_products():
    @I.ir_module
    class Rule:
        @R.function
        def pattern(a: R.Tensor((4, 4), "float32"), b: R.Tensor((4, 4), "float32"), s: R.Tensor((4, 4), "float32")):
            p = R.matmul(a, s)
            q = R.matmul(b, s)
            return (p, q)

        @R.function
        def replacement(a: R.Tensor((4, 4), "float32"), b: R.Tensor((4, 4), "float32"),
                        s: R.Tensor((4, 4), "float32")):
            return R.split(R.matmul(R.concat([a, b]), s), 2)
    return Rule


def test_functions_of_a_rule_come_into_the_module():
    @R.rewriter
    class Rule:
        @R.function
        def pattern(a: R.Tensor((4,), "float32")):
            return R.add(a, a)

        @R.function
        def replacement(a: R.Tensor((4,), "float32")):
            return Rule.twice(a)

        @R.function(private=True)
        def twice(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            return R.multiply(a, R.const(2.0))

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = R.add(x, x)
        z = R.add(y, y)
        return z

    mod = tvm.ir.transform.Sequential([Rule])(tvm.IRModule({"main": main}))
    assert list(mod.functions) == ["main", "twice"]
    relax.verifier.verify(mod)
    with pytest.raises(ValueError, match="apply it to a module"):
        Rule(main)


@pytest.mark.parametrize("functions, error, text", [
    (("replacement",), KeyError, "pattern"), (("pattern",), KeyError, "replacement")])
def test_a_rule_needs_both_functions(functions, error, text):
    mod = rule_of_two_products()
    mod = mod.with_functions({n: f for n, f in mod.functions.items() if n in functions})
    with pytest.raises(error, match=text):
        PatternMatchingRewriter.from_module(mod)


def test_a_rule_of_two_signatures():
    @I.ir_module
    class Rule:
        @R.function
        def pattern(a: R.Tensor((4,), "float32")):
            return a

        @R.function
        def replacement(a: R.Tensor((5,), "float32")):
            return a

    with pytest.raises(ValueError, match="must have the same signature"):
        PatternMatchingRewriter.from_module(Rule)


def test_a_rule_that_always_matches_is_refused(monkeypatch):
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = R.nn.relu(x)
        return y

    monkeypatch.setattr(pattern_rewrite, "_LIMIT", 5)
    with pytest.raises(ValueError, match="what it makes matches again"):
        rewrite_call(is_op("relax.nn.relu")(wildcard()), lambda v, f: R.nn.relu(R.nn.relu(v.args[0])), main)


# ---------------------------------------------------------------- the passes that tidy up

@I.ir_module
class Untidy:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        n, m = T.int64(), T.int64()
        with R.dataflow():
            a = R.match_cast(x, R.Tensor((m, 4), "float32"))
            b = R.nn.relu(a)
            again = R.match_cast(x, R.Tensor((m, 4), "float32"))
            c = R.nn.relu(again)
            unused = R.exp(c)
            pair = (b, c)
            d = R.add(pair[0], pair[1])
            e = d
            R.output(e)
        return e

    @R.function(private=True)
    def unreached(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return x


def test_canonical_bindings_then_common_values_then_dead_code():
    passes = relax.transform
    mod = tvm.ir.transform.Sequential([
        passes.CanonicalizeBindings(), passes.EliminateCommonSubexpr(), passes.CanonicalizeBindings(),
        passes.DeadCodeElimination()])(Untidy)
    assert list(mod.functions) == ["main"]
    main = mod["main"]
    assert [(b.var.name, b.value.op) for b in main.bindings] == [("b", "nn.relu"), ("e", "add")]
    assert main.bindings[1].value.args[0] is main.bindings[1].value.args[1]
    relax.verifier.verify(mod)


def test_casts_that_contradict_one_another():
    @R.function
    def main(x: R.Tensor((3,), "float32"), y: R.Tensor((4,), "float32")):
        n = T.int64()
        a = R.match_cast(x, R.Tensor((n,), "float32"))
        b = R.match_cast(y, R.Tensor((n,), "float32"))
        return R.add(a, b)

    with pytest.raises(ValueError, match="MatchCast statements must be consistent: n"):
        relax.transform.CanonicalizeBindings()(tvm.IRModule({"main": main}))


def test_a_function_may_call_one_that_comes_later():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, "n"), "float32")):
            y = Module.later(x)
            return y

        @R.function
        def later(x: R.Tensor(("m", "k"), "float32")) -> R.Tensor(("k", "m"), "float32"):
            return R.permute_dims(x)

    n = Module["main"].params[0].struct_info.shape[1]
    info = Module["main"].bindings[0].var.struct_info
    assert info.shape[0] is n and info.shape[1].value == 2
    relax.verifier.verify(Module)
    data = np.arange(6, dtype="float32").reshape(2, 3)
    vm = relax.VirtualMachine(relax.build(Module, "llvm"), tvm.cpu())
    np.testing.assert_array_equal(vm["main"](tvm.nd.array(data)).numpy(), data.T)


def test_a_tuple_of_tensors_is_one_argument_of_a_pattern():
    both = wildcard()
    pattern = is_op("relax.concat")(both)
    found = pattern.extract_matched_expr(relax.op.concat([X, Y], 1))
    assert len(found[both]) == 2 and found[both][1] is Y
    assert is_op("relax.concat")(is_tuple([is_var("x"), is_var("y")])).match(relax.op.concat([X, Y], 1))
    assert not is_op("relax.concat")(is_tuple([is_var("y"), is_var("x")])).match(relax.op.concat([X, Y], 1))


def test_a_rule_may_look_at_constants_and_leave_struct_info_to_the_rewriter():
    op, arg, number = is_op("relax.add") | is_op("relax.multiply"), wildcard(), is_const()

    @R.function(private=True)
    def before(x: R.Tensor((4,))):
        with R.dataflow():
            y = R.add(x, R.const(1.0))
            out = R.multiply(y, R.const(3.0))
            R.output(out)
        return out

    def twice(call, found):
        value = found[number].data.numpy()
        assert type(value) is np.ndarray
        return relax.Call(found[op], [found[arg], relax.const(2.0)]) if value[()] == 1.0 else call

    @R.function(private=True)
    def expected(x: R.Tensor((4,))):
        with R.dataflow():
            y = R.add(x, R.const(2.0))
            out = R.multiply(y, R.const(3.0))
            R.output(out)
        return out
    tvm.ir.assert_structural_equal(rewrite_call(op(arg, number), twice, before), expected)
