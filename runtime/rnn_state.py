"""States of recurrent layers for many sequences at once, with the states of the last steps to go back to."""
from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .ndarray import NDArray


@dataclass
class _Sequence:
    slot: int  # where its states are
    length: int = 0
    current: int = 0  # which of its `max_history` states is the last one
    back: int = 0  # how many steps can be taken back


class RNNState:
    """`layers` times the states `initial`, an NDArray each, of at most `most` sequences. gets, sets: for each state a
    function (storage [most, history, ...], slots [batch], which of the history [batch], states [batch, ...]); a set
    writes the state after that one.

    A step: begin_forward, then get and set for each layer, then end_forward, which makes what was set the last state.
    """

    def __init__(self, layers, most, history, gets, sets, initial):
        if min(layers, most, history) < 1 or not initial:
            raise ValueError(f"an RNN state has at least one layer, sequence, state of history and state a layer, not "
                             f"{layers}, {most}, {history} and {len(initial)}")
        if not len(gets) == len(sets) == len(initial):
            raise ValueError(f"{len(initial)} states need as many functions that get and set them, not {len(gets)} and "
                             f"{len(sets)}")
        self.most, self.history, self.gets, self.sets = most, history, tuple(gets), tuple(sets)
        self.initial = [np.asarray(a) for a in initial]
        self.storage = [[NDArray(np.zeros((most, history, *a.shape), a.dtype)) for a in self.initial]
                        for _ in range(layers)]
        self.clear()

    def clear(self):
        """Forget all sequences."""
        self.sequences, self.free, self.step = {}, list(range(self.most - 1, -1, -1)), None

    def __getitem__(self, seq_id):
        """A sequence. ValueError for one that is not there."""
        if seq_id not in self.sequences:
            raise ValueError(f"The sequence {seq_id} cannot be found in the RNN state; kv_state_add_sequence adds one")
        return self.sequences[seq_id]

    def _new(self, seq_id, make):
        if seq_id in self.sequences:
            raise ValueError(f"The sequence {seq_id} is already in the RNN state")
        if not self.free:
            raise RuntimeError(f"The RNN state has room for {self.most} sequences, all of which are in use")
        self.sequences[seq_id] = make(self.free.pop())
        return self.sequences[seq_id]

    def _all(self):
        return [(np.asarray(storage), n) for layer in self.storage for n, storage in enumerate(layer)]

    def add_sequence(self, seq_id):
        """A sequence in the initial state."""
        slot = self._new(seq_id, _Sequence).slot
        for storage, n in self._all():
            storage[slot, 0] = self.initial[n]

    def remove_sequence(self, seq_id):
        self.free.append(self[seq_id].slot)
        del self.sequences[seq_id]

    def fork_sequence(self, parent_id, child_id, position=-1):
        """A sequence in the state of another, and with its history. ValueError for a position before its end."""
        parent = self[parent_id]
        if position not in (-1, parent.length):
            raise ValueError(f"the states of sequence {parent_id} are those after {parent.length} tokens: it cannot be "
                             f"forked at {position}; fork it (-1), then popn what is too much")
        child = self._new(child_id, lambda slot: replace(parent, slot=slot))
        for storage, _ in self._all():
            storage[child.slot] = storage[parent.slot]

    def popn(self, seq_id, count):
        """Go back by some steps. ValueError for more than the history has."""
        sequence = self[seq_id]
        if not 0 <= count <= sequence.back:
            raise ValueError(f"sequence {seq_id} can go back by {sequence.back} steps, not by {count}")
        sequence.length -= count
        sequence.back -= count
        sequence.current = (sequence.current - count) % self.history

    # ------------------------------------------------------------ a step

    def begin_forward(self, seq_ids, lengths, parents=None):
        """A step of sequences by `lengths` tokens. ValueError for token trees that are no chains."""
        seq_ids, lengths = list(seq_ids), list(lengths)
        if len(seq_ids) != len(lengths) or len(set(seq_ids)) != len(seq_ids) or min(lengths, default=0) < 1:
            raise ValueError(f"begin_forward takes different sequences, and for each how many tokens it adds, not "
                             f"{seq_ids} and {lengths}")
        if parents is not None and list(parents) != [k - 1 for n in lengths for k in range(n)]:
            raise ValueError("an RNN state takes token trees that are chains only")
        sequences = [self[i] for i in seq_ids]
        slots, current = ([getattr(s, name) for s in sequences] for name in ("slot", "current"))
        self.step = (list(zip(sequences, lengths)), *(NDArray(np.array(a, "int32")) for a in (slots, current)))

    def end_forward(self):
        """What was set is the last state. After a step of several tokens no way leads back."""
        for sequence, length in self._step()[0]:
            sequence.length += length
            sequence.back = min(sequence.back + 1, self.history - 1) if length == 1 else 0
            sequence.current = (sequence.current + 1) % self.history
        self.step = None

    def _step(self):
        if self.step is None:
            raise ValueError("no step has begun: call vm.builtin.kv_state_begin_forward first")
        return self.step

    def _state(self, layer, state):
        if not 0 <= layer < len(self.storage) or not 0 <= state < len(self.initial):
            raise ValueError(f"layer {layer} has no state {state}: there are {len(self.storage)} layers of "
                             f"{len(self.initial)} states")
        return self.storage[layer][state]

    def get(self, layer, state, output):
        """Write the last states of the step's sequences to output [batch, ...]."""
        self.gets[state](self._state(layer, state), *self._step()[1:], output)

    def set(self, layer, state, data):
        """Take data [batch, ...] as the next states of the step's sequences; itself."""
        self.sets[state](self._state(layer, state), *self._step()[1:], data)
        return self

    def debug_get(self, layer, state, seq_id):
        """A copy of the last state of a sequence."""
        sequence = self[seq_id]
        return NDArray(np.array(np.asarray(self._state(layer, state))[sequence.slot, sequence.current]))


FUNCTIONS = {"rnn_state_create": RNNState, "rnn_state_get": RNNState.get, "rnn_state_set": RNNState.set,
             "rnn_state_debug_get": RNNState.debug_get}

__all__ = ["FUNCTIONS", "RNNState"]
