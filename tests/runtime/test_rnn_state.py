"""vm.builtin.rnn_state_*: the states of recurrent layers for many sequences, with a history to go back to."""
import numpy as np
import pytest

import ingot as tvm
from ingot.runtime import ShapeTuple
from ingot.script import tir as T

HISTORY, MOST = 3, 3


def builtin(name):
    return tvm.get_global_func(f"vm.builtin.{name}")


def _get(storage, slots, current, output):
    np.asarray(output)[...] = np.asarray(storage)[np.asarray(slots), np.asarray(current)]


def _set(storage, slots, current, data):
    np.asarray(storage)[np.asarray(slots), (np.asarray(current) + 1) % HISTORY] = np.asarray(data)


@T.prim_func
def kernel_get(var_storage: T.handle, var_slots: T.handle, var_current: T.handle, var_output: T.handle):
    batch = T.int32()
    storage = T.match_buffer(var_storage, (3, 3, 2, 2), "float16")
    slots = T.match_buffer(var_slots, (batch,), "int32")
    current = T.match_buffer(var_current, (batch,), "int32")
    output = T.match_buffer(var_output, (batch, 2, 2), "float16")
    for i, j, k in T.grid(batch, 2, 2):
        with T.block("get"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            output[vi, vj, vk] = storage[slots[vi], current[vi], vj, vk]


def state():
    get = tvm.build(kernel_get, target="c")["kernel_get"]
    first = [tvm.nd.array(np.zeros((2, 2), "float16")), tvm.nd.array(np.ones(3, "float32"))]
    return builtin("rnn_state_create")(2, MOST, HISTORY, [get, _get], [_set, _set], first)


def step(made, seq_ids, number, tokens=1):
    """A step that sets all states to `number` + the place of the sequence in the batch; what was there before."""
    builtin("kv_state_begin_forward")(made, ShapeTuple(seq_ids), ShapeTuple([tokens] * len(seq_ids)))
    found = []
    for layer in range(2):
        for n, (shape, dtype) in enumerate([((2, 2), "float16"), ((3,), "float32")]):
            out = tvm.nd.empty((len(seq_ids), *shape), dtype)
            builtin("rnn_state_get")(made, layer, n, out)
            found.append(out.numpy().reshape(len(seq_ids), -1)[:, 0].tolist())
            new = np.stack([np.full(shape, number + k, dtype) for k in range(len(seq_ids))])
            assert builtin("rnn_state_set")(made, layer, n, tvm.nd.array(new)) is made
    builtin("kv_state_end_forward")(made)
    return found


def last(made, seq_id, layer=1):
    return [float(builtin("rnn_state_debug_get")(made, layer, n, seq_id).numpy().max()) for n in (0, 1)]


def test_states_go_on_fork_and_go_back():
    made = state()
    for seq_id in (4, 7):
        builtin("kv_state_add_sequence")(made, seq_id)
    assert step(made, [4, 7], 10) == [[0, 0], [1, 1]] * 2
    assert step(made, [7], 20) == [[11], [11]] * 2
    builtin("kv_state_fork_sequence")(made, 7, 9, -1)
    assert step(made, [9, 4], 30) == [[20, 10], [20, 10]] * 2
    assert last(made, 7) == [20, 20] and last(made, 9) == [30, 30] and last(made, 4) == [31, 31]
    builtin("kv_state_popn")(made, 9, 2)  # the history goes back to before the fork
    assert last(made, 9) == [11, 11] and last(made, 7) == [20, 20]
    with pytest.raises(ValueError, match="sequence 9 can go back by 0 steps, not by 1"):
        builtin("kv_state_popn")(made, 9, 1)
    step(made, [7], 40, tokens=5)  # no way leads back over a prompt
    with pytest.raises(ValueError, match="sequence 7 can go back by 0 steps"):
        builtin("kv_state_popn")(made, 7, 1)
    builtin("kv_state_remove_sequence")(made, 7)
    builtin("kv_state_add_sequence")(made, 8)
    assert last(made, 8) == [0, 1]  # a slot that another one had begins anew


def test_errors_say_what_to_do():
    made = state()
    builtin("kv_state_add_sequence")(made, 1)
    with pytest.raises(ValueError, match="no step has begun: call vm.builtin.kv_state_begin_forward"):
        builtin("rnn_state_get")(made, 0, 1, tvm.nd.empty((1, 3), "float32"))
    for args, words in ((([2], [1]), "sequence 2 cannot be found"), (([1], [0]), "how many tokens it adds"),
                        (([1], [2], [-1, -1]), "chains only")):
        with pytest.raises(ValueError, match=words):
            builtin("kv_state_begin_forward")(made, *map(ShapeTuple, args))
    builtin("kv_state_begin_forward")(made, ShapeTuple([1]), ShapeTuple([2]), ShapeTuple([-1, 0]))
    with pytest.raises(ValueError, match="layer 2 has no state 0"):
        builtin("rnn_state_get")(made, 2, 0, tvm.nd.empty((1, 2, 2), "float16"))
    with pytest.raises(ValueError, match="cannot be forked at 1"):
        builtin("kv_state_fork_sequence")(made, 1, 2, 1)
    for seq_id in (2, 3):
        builtin("kv_state_add_sequence")(made, seq_id)
    with pytest.raises(RuntimeError, match="room for 3 sequences"):
        builtin("kv_state_add_sequence")(made, 5)
    with pytest.raises(TypeError, match="a paged KV cache or an RNN state, not a ShapeTuple"):
        builtin("kv_state_clear")(ShapeTuple([1]))
    with pytest.raises(ValueError, match="2 states need as many functions"):
        builtin("rnn_state_create")(1, 1, 1, [_get], [_set], [tvm.nd.empty((1,), "float32")] * 2)
