"""Weights of recurrent layers four of which lie in three words: what they keep, and the steps."""
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from ops_basic_check import check as check_steps
from test_ops_basic_recurrent import inputs, projected

from ingot.ir.relax.ops import recurrent_weights
from ingot.ir.relax.ops.short_weights import LARGEST, LEAST, fits, float_words, of_float_words

OFF = 2.0 ** -16  # of a float, at most
FLOATS = st.floats(-1, 1, width=32) | st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-30, -1e-38, 2.0 ** -126, 0.999999])
ANY = arrays(np.float32, (2, 8, 8), elements=FLOATS)


@given(ANY, st.sampled_from([4, 8]), st.sampled_from([1.0, 1e-6, 1e30]))
def test_floats_are_the_nearest_that_carry_a_quarter_of_others(w, lanes, scale):
    w = (w * np.float32(scale)).astype(np.float32)
    words = float_words(w, lanes)
    assert words.shape == (2, 2, 8 // lanes, 3, lanes) and words.dtype == np.float32 and np.isfinite(words).all()
    kept = of_float_words(words)
    assert kept.shape == w.shape
    assert (np.abs(kept - w) <= np.maximum(OFF * np.abs(w), 1.01 * LEAST)).all()
    assert (np.signbit(kept) == np.signbit(w))[np.abs(w) > LEAST].all()
    assert (np.abs(words) >= LEAST * 0.99).all()  # no word is denormal


def test_words_follow_one_another_as_they_are_read():
    w = np.arange(1, 65, dtype=np.float32).reshape(8, 8) / 256
    words = float_words(w, 4)
    np.testing.assert_allclose(words[1, 1], w[4:7, 4:], rtol=OFF)
    np.testing.assert_allclose(of_float_words(words), w, rtol=OFF)


@pytest.mark.parametrize("largest, depth, kept", [
    (1.0, 8, True), (0.0, 8, True), (1e30, 8, True), (1.0, 6, False), (float(LARGEST) * 2, 8, False),
    (float(LEAST) * 1e9, 8, False), (np.inf, 8, False), (np.nan, 8, False)])
def test_what_fits(largest, depth, kept):
    w = np.zeros((depth, 4), np.float32)
    w[1, 2] = largest
    assert fits(w) == kept and not fits(w.astype(np.float64))


STEPS = [("nn.gru", 3, {}), ("nn.gru", 3, {"linear_before_reset": True}), ("nn.lstm", 4, {}), ("nn.rnn", 1, {}),
         ("nn.gru", 3, {"direction": "bidirectional"})]


@pytest.mark.parametrize("width, lanes", [(8, 0), (4, 0), (8, 4), (4, 4)])
@pytest.mark.parametrize("name, gates, attrs", STEPS)
def test_steps_with_weights_in_panels(name, gates, attrs, width, lanes):
    """The same as with weights as they come, or with those that the words stand for."""
    attrs = {"hidden_size": 8, **attrs}
    p, r, *rest = projected(inputs(name, attrs.get("direction", "forward"), hidden=8))
    panels = recurrent_weights.pack(r, gates, width, lanes)
    kept = recurrent_weights.unpack(panels)
    assert (kept == r).all() if not lanes else (np.abs(kept - r) <= OFF * np.abs(r)).all()
    results = check_steps(name + "_steps", p, panels, *rest, attrs=attrs)
    for a, b in zip(results, check_steps(name + "_steps", p, kept, *rest, attrs=attrs)):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
