"""The graph verifier: what is well formed passes, and each broken rule is named."""
import numpy as np
import pytest

from ingot.ir import te
from ingot.ir.expr import Var, const
from ingot.ir.module import GlobalVar, IRModule
from ingot.ir.relax import (BlockBuilder, Constant, DataflowBlock, DataflowVar, MatchCast, RelaxCall, RelaxTuple,
                            RelaxVar, SeqExpr, ShapeExpr, TensorStructInfo, TupleGetItem, TupleStructInfo, VarBinding,
                            call_op, call_tir, dataflow_function)
from ingot.ir.relax.expr import BindingBlock, Function
from ingot.ir.relax.verifier import VerifyError, verify
from ingot.ir.tir.stmt import BufferStore

N = Var("n", "int64")
X = RelaxVar("x", TensorStructInfo((2, 3), "float32"))
F32 = X.struct_info


def info(*shape, dtype="float32"):
    return TensorStructInfo(shape, dtype)


def bind(value, name="y", struct_info=None):
    return VarBinding(DataflowVar(name, struct_info or value.struct_info), value)


def module(bindings, outputs=None, params=(X,), **functions):
    main = dataflow_function(params, bindings, outputs or [bindings[-1].var])
    return IRModule({"main": main, **functions})


def relu(x=X, name="y"):
    return bind(call_op("nn.relu", x), name)


def triple(shape=(2, 3), dtype="float32"):
    a = te.placeholder(shape, dtype, "a")
    return te.create_prim_func([a, te.compute(shape, lambda *i: a[i] * const(3, dtype), "triple")])


def group(param_info=F32, name="p"):
    p = RelaxVar(name, param_info)
    body = relu(p)
    return dataflow_function([p], [body], [body.var], {"primitive": True})


def call_group(arg=X, result=F32):
    return RelaxCall("call", (arg,), {"gv": GlobalVar("group")}, result)


def refused(mod, message):
    with pytest.raises(VerifyError, match=message):
        verify(mod)


# ---------------------------------------------------------------- well formed

def test_modules_of_the_builder_pass():
    bb, x = BlockBuilder(), RelaxVar("x", info(N, 4))
    with bb.function("main", [x]):
        with bb.dataflow():
            parts = bb.emit(call_op("split", x, sections=(1, 3), axis=1))
            a = bb.emit(TupleGetItem(parts, 1))
            y = bb.emit(call_op("reshape", a, [N * 3]))
        bb.emit_func_output([y, bb.emit_output(call_op("nn.relu", x))])
    assert verify(bb.get()) is bb.get()


def test_dimensions_may_be_written_in_other_words():
    x = RelaxVar("x", info(N, 4))
    pool = dict(pool_size=(2,), strides=(2,), padding=(0, 0))
    wide = RelaxVar("w", info(1, 2, N * 2))
    call = call_op("nn.max_pool1d", wide, **pool)
    assert str(call.struct_info.shape[2]) != "n"
    verify(module([bind(call, struct_info=info(1, 2, N))], params=(x, wide)))


def test_calls_of_functions_and_kernels_pass():
    y = bind(call_group())
    z = bind(call_tir(GlobalVar("triple"), [y.var], F32), "z")
    verify(module([y, z], group=group(), triple=triple()))


def test_kernels_with_dimensions_pass():
    own = Var("k", "int64")
    x = RelaxVar("x", info(N, 3))
    func = triple((own, const(3)))
    explicit = func.replace(params=(*func.params, own))
    verify(module([bind(call_tir(GlobalVar("f"), [x], x.struct_info, [N]))], params=(x,), f=explicit))
    verify(module([bind(call_tir(GlobalVar("f"), [x], x.struct_info))], params=(x,), f=func))  # known from the buffers
    mod = module([bind(call_tir(GlobalVar("f"), [x], info(N, 2), [N]))], params=(x,), f=explicit)
    refused(mod, r"buffer triple of f has shape \(k, 3\), the tensor \(n, 2\)")


def test_flat_buffers_need_as_many_elements():
    flat = triple((6,))
    verify(module([bind(call_tir(GlobalVar("f"), [X], F32))], f=flat))
    refused(module([bind(call_tir(GlobalVar("f"), [X], info(2, 4)))], f=flat), "buffer triple of f has shape")


def test_match_cast_defines_dimensions():
    y = RelaxVar("y", info(N, 3))
    verify(module([MatchCast(y, X), relu(y, "z")]))


# ---------------------------------------------------------------- variables

def test_only_modules_of_functions():
    with pytest.raises(VerifyError, match="takes an IRModule, not a str"):
        verify("module")
    refused(IRModule({"f": X}), "function f is a RelaxVar")


@pytest.mark.parametrize("bindings, message", [
    (lambda: [relu(RelaxVar("ghost", F32))], "binding of y: variable ghost is used where nothing defines it"),
    (lambda: [relu(relu().var, "z"), relu()], "binding of z: variable y is used where nothing defines it"),
    (lambda: [relu(), relu(name="y")], "two variables are named y"),
    (lambda: [relu(name="x")], "two variables are named x"),
    (lambda: [relu()] * 2, "variable y is defined twice"),
    (lambda: [VarBinding(Constant(np.zeros(3, np.float32)), X)], "it binds a Constant"),
])
def test_variables(bindings, message):
    refused(module(bindings(), outputs=[X]), message)


def test_the_result_is_defined():
    refused(module([relu()], outputs=[RelaxVar("ghost", F32)]), "its result: variable ghost is used where nothing")
    mod = module([relu()])
    refused(mod.with_function("main", mod["main"].replace(ret_struct_info=info(2, 4))), "declared as")


def test_dataflow_variables_stay_in_their_block():
    y = relu()
    z = VarBinding(RelaxVar("z", F32), call_op("nn.relu", y.var))

    def function(*blocks, result):
        return IRModule({"main": Function((X,), SeqExpr(blocks, result), result.struct_info, {})})

    verify(function(DataflowBlock((y, z)), result=z.var))
    refused(function(DataflowBlock((y,)), DataflowBlock((z,)), result=z.var), "y is a dataflow variable of an earlier")
    refused(function(BindingBlock((y,)), result=y.var), "a DataflowVar outside a dataflow block")


def test_parameters_are_relax_vars():
    p = DataflowVar("p", F32)
    refused(module([relu(p)], params=(p,)), "a parameter is a DataflowVar")


def test_symbolic_dimensions_are_defined():
    unknown = RelaxVar("w", F32)
    mod = module([bind(call_op("broadcast_to", unknown, [N, 2, 3]))], params=(unknown,))
    refused(mod, "nothing defines the symbolic dimension n of y")
    verify(mod.with_attr("dims", (N,)))


# ---------------------------------------------------------------- values

def declared(call, **changes):
    return [VarBinding(DataflowVar("y", F32), call.replace(**changes))]


@pytest.mark.parametrize("bindings, message", [
    (lambda: [bind(call_op("nn.relu", X), struct_info=info(3, 2))], "the variable is declared as"),
    (lambda: [bind(call_op("nn.relu", X), struct_info=info(2, 3, dtype="float16"))], "the variable is declared as"),
    (lambda: declared(call_op("nn.relu", X).replace(struct_info=info(6))), "inference gives"),
    (lambda: declared(call_op("nn.relu", X), op="nn.unknown"), "unknown operator 'nn.unknown'"),
    (lambda: declared(call_op("nn.relu", X), attrs={"beta": 1}), "nn.relu has no attribute beta; it has data"),
    (lambda: declared(call_op("nn.relu", X), args=(X, X)), "takes 1 to 1 arguments, got 2"),
    (lambda: declared(call_op("add", X, X), args=(X, Constant(np.zeros((4, 1), np.float32)))), "do not broadcast"),
    (lambda: declared(call_op("nn.relu", X), args=(call_op("nn.relu", X),)), "a RelaxCall stands where a variable"),
    (lambda: [bind(TupleGetItem(RelaxTuple((X,)), 1), struct_info=F32)], "which has no such item"),
    (lambda: [bind(TupleGetItem(X, 0), struct_info=F32)], "which has no such item"),
    (lambda: declared(call_op("nn.relu", X), args=(TupleGetItem(RelaxTuple((X,)), 0),)), "bind it to a variable"),
    (lambda: [bind(ShapeExpr((2, 3)), struct_info=F32)], "the variable is declared as"),
])
def test_values(bindings, message):
    refused(module(bindings(), outputs=[X]), message)


@pytest.mark.parametrize("call, message", [
    (lambda: call_group().replace(attrs={"gv": GlobalVar("ghost")}), "call of ghost, which is no function"),
    (lambda: call_group().replace(attrs={}), "call of None, which is no function"),
    (lambda: call_group().replace(attrs={"gv": GlobalVar("triple")}), "triple takes 2 arguments, got 1"),
    (lambda: call_group().replace(args=()), "group takes 1 arguments, got 0"),
    (lambda: call_group(Constant(np.zeros(3, np.float32))), "parameter p of group is"),
    (lambda: call_group(result=info(6)), "the call is declared as"),
    (lambda: call_tir(GlobalVar("group"), [X], F32), "which is a Function instead of a PrimFunc"),
    (lambda: call_tir(GlobalVar("triple"), [X, X], F32), r"2 tensors \(results included\) and 0 dimensions, got 3"),
    (lambda: call_tir(GlobalVar("triple"), [X], F32, [const(1, "int64")]), "0 dimensions, got 2 and 1"),
    (lambda: call_tir(GlobalVar("triple"), [X], info(2, 3, dtype="int32")), "buffer triple of triple is float32"),
    (lambda: call_tir(GlobalVar("triple"), [X], info(3, 2)), r"has shape \(2, 3\), the tensor \(3, 2\)"),
    (lambda: call_tir(GlobalVar("triple"), [X], [F32, F32]), "takes 2 tensors"),
])
def test_calls(call, message):
    refused(module([bind(call())], group=group(), triple=triple()), message)


def test_tuples_of_results():
    func = triple()
    both = call_tir(GlobalVar("f"), [], [F32, F32])
    y = bind(both)
    assert isinstance(y.var.struct_info, TupleStructInfo)
    verify(module([y, bind(TupleGetItem(y.var, 1), "z")], f=func))


def test_prim_funcs_are_verified_too():
    func = triple()
    block = func.root.body
    broken = func.with_root_body(BufferStore(func.buffers[1], const(1.0), (Var("i"), const(0))))
    assert block is not broken.root.body
    refused(module([relu()], f=broken), "function f: PrimFunc main: variable i is used where nothing defines it")
