"""Decoders with a KV cache, step by step, against onnxruntime: as they are, and with the caches in place."""
import numpy as np
import pytest

import ingot
from decoders import DECODERS, ROOM, SIZE

ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: it has the right results")
PROMPT, STEPS = (3, 1, 4, 1, 5), 4


class Reference:
    """What onnxruntime says, step by step. past: the caches as it gives them."""

    def __init__(self, decoder):
        self.session = ort.InferenceSession(decoder.proto.SerializeToString(), providers=["CPUExecutionProvider"])
        self.names = [o.name for o in self.session.get_outputs()]
        rows = 0 if decoder.growing else ROOM
        self.past = {name: np.zeros((1, heads, rows, SIZE), np.float32) for name, heads in decoder.caches.items()}

    def step(self, feeds):
        found = dict(zip(self.names, self.session.run(None, {**feeds, **self.past})))
        self.past = {n.replace("present", "past_key_values"): v for n, v in found.items() if n != "logits"}
        return found


def steps(decoder):
    """(feeds without caches, tokens so far, reference before the step) of a prompt and some greedy tokens."""
    reference, ids, past = Reference(decoder), np.array([PROMPT]), 0
    for _ in range(STEPS):
        feeds = decoder.feeds(ids, past)
        before = dict(reference.past)
        found = reference.step(feeds)
        yield feeds, past, past + ids.shape[1], before, found
        past, ids = past + ids.shape[1], found["logits"][:, -1:].argmax(-1)


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_as_it_is(name):
    decoder = DECODERS[name]()
    with ingot.compile(decoder.proto, threads="none", dims=dict(decoder.dims), bounds=dict(decoder.bounds)) as library:
        for feeds, _, total, before, wanted in steps(decoder):
            found = library.run({**feeds, **before})
            assert found.keys() == wanted.keys()
            for key, value in wanted.items():  # of caches the rows that there are; what lies behind them is undefined
                close(found[key][:, :, :total], value[:, :, :total])


@pytest.mark.parametrize("opt_level", [0, 2])
@pytest.mark.parametrize("name", DECODERS)
def test_caches_in_place(name, opt_level):
    """Each run writes its own rows of the caches, nothing else, and reads no row behind them: what is not written is
    not even a number."""
    decoder = DECODERS[name]()
    hole = np.nan if decoder.growing else 0
    caches = {n: np.full((1, heads, ROOM, SIZE), hole, np.float32) for n, heads in decoder.caches.items()}
    with ingot.compile(decoder.proto, threads="none", dims=dict(decoder.dims), bounds=dict(decoder.bounds),
                       aliases=dict(decoder.aliases), opt_level=opt_level) as library:
        assert [t.source_name for t in library.outputs] == ["logits"]
        for feeds, past, total, _, wanted in steps(decoder):
            before = {n: c.copy() for n, c in caches.items()}
            told = {d: past for d in library.model.dims if d == "past_sequence_length" and name == "attention"}
            close(library.run({**feeds, **caches, **told})["logits"], wanted["logits"])
            for n, cache in caches.items():
                close(cache[:, :, past:total], wanted[n.replace("past_key_values", "present")][:, :, past:total])
                for rows in (slice(0, past), slice(total, None)):
                    np.testing.assert_array_equal(cache[:, :, rows], before[n][:, :, rows])
