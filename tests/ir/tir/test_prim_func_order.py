"""PrimFunc's arguments in Ingot's order and in TVM's."""
import ingot as tvm
from ingot import tir
from ingot.ir.node import structural_equal


def test_tvms_order_of_arguments():
    n, a = tir.Var("n", "int32"), tir.decl_buffer((16,), "float32", "A")
    handle = tir.Var("a", "handle")
    body = tir.BufferStore(a, tir.const(1.0, "float32"), (n,))
    mine = tir.PrimFunc((handle, n), {handle: a}, body, {"global_symbol": "f"})
    for other in (tir.PrimFunc([handle, n], body, None, {handle: a}, {"global_symbol": "f"}),
                  tir.PrimFunc([handle, n], body, buffer_map={handle: a}, attrs={"global_symbol": "f"}),
                  tir.PrimFunc([a, n], body).with_attr("global_symbol", "f")):
        assert structural_equal(mine, other) and other.buffers == [a] and other.attrs == mine.attrs
    assert tir.PrimFunc([n], tir.Evaluate(n)).replace(attrs={"x": 1}).attrs == {"x": 1}
    done = tvm.tir.transform.Simplify()(tvm.IRModule({"main": tir.PrimFunc([n], tir.Evaluate(n + 0))}))
    assert done["main"].params == (n,)
