"""Products of bytes by vectors take the bytes of a row one by one where a vector is multiplied by a number."""
import pytest

from ingot.ir import tir
from ingot.ir.expr import Broadcast, Call, Ramp, const
from ingot.ir.node import collect
from ingot.ir.tir.stmt import BufferLoad, BufferStore
from ingot.ir.transform.dot_bytes import dot_bytes

X = tir.decl_buffer((16,), "uint8", "x")
W, SUMS = (tir.decl_buffer((16,), "int32", name) for name in ("w", "sums"))
LANES = Ramp(const(0), const(1), 16)
WORD = Call("int32", "tir.load_word", (BufferLoad(X, (const(4),)),))


def product(word):
    value = Call("int32x16", "tir.dot_u8s8", (word, BufferLoad(W, (LANES,)), BufferLoad(SUMS, (LANES,))))
    func = tir.prim_func([X, W, SUMS], BufferStore(SUMS, value, (LANES,)))
    return func.replace(body=func.root.body)


def test_a_word_of_memory():
    call, = (c for c in collect(dot_bytes(product(Broadcast(WORD, 16)), dots=["dot_u8s8"]).body, Call))
    first, columns, sums = call.args
    assert call.op == "tir.dot_u8s8_at" and (first.buffer, columns.buffer, sums.buffer) == (X, W, SUMS)
    assert first.indices[0].value == 4


@pytest.mark.parametrize("word, dots", [
    (Broadcast(WORD, 16), ["dot_s16s16"]), (Broadcast(const(7, "int32"), 16), ["dot_u8s8"]),
    (BufferLoad(W, (LANES,)), ["dot_u8s8"])])
def test_what_stays(word, dots):
    assert "tir.dot_u8s8" in [c.op for c in collect(dot_bytes(product(word), dots=dots).body, Call)]
