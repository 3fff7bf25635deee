"""How decoders choose the next token: FUNCTIONS, {name of "vm.builtin.NAME": function}. Those that say so change the
array that they are given; others take float32 of one row, (1, ..., tokens), where nothing else is said."""
from __future__ import annotations

import numpy as np

from .ndarray import array

_GREEDY = 1e-6  # temperatures below take the greatest


def _row(name, values):
    """The numbers of an array of one row. ValueError for another."""
    elements = values.numpy()
    if elements.dtype != np.float32 or not elements.size or elements.size != elements.shape[-1]:
        raise ValueError(f"{name} takes float32 of one row, (1, ..., tokens), got {values.dtype} of shape {values.shape}")
    if np.isnan(elements).any():
        raise ValueError(f"{name}: NaN among the {elements.size} numbers, of which none can be chosen")
    return elements.reshape(-1)


def _of_nucleus(probabilities, top_p, sample):
    """The token at `sample`, in [0, 1), of the likeliest that together reach top_p."""
    order = np.argsort(-probabilities, kind="stable")
    sums = np.cumsum(probabilities[order])
    count = min(int(np.searchsorted(sums, top_p)) + 1, len(sums))
    place = int(np.searchsorted(sums[:count] / sums[count - 1], sample, side="right"))
    return int(order[min(place, count - 1)])


def sample_top_p_from_prob(prob, top_p, uniform_sample):
    """The token that a number from [0, 1) chooses of the likeliest, whose probabilities reach top_p."""
    return _of_nucleus(_row("sample_top_p_from_prob", prob), top_p, uniform_sample)


def sample_top_p_from_logits(logits, temperature, top_p, uniform_sample):
    """As sample_top_p_from_prob, of softmax(logits / temperature); the greatest where that is near 0."""
    row = _row("sample_top_p_from_logits", logits)
    if temperature < _GREEDY:
        return int(row.argmax())
    return _of_nucleus(_softmax(row, temperature), top_p, uniform_sample)


def _softmax(row, temperature):
    powers = np.exp((row - row.max()) / np.float32(temperature))
    return powers / powers.sum()


def multinomial_from_uniform(prob, uniform_sample):
    """(rows, 1) of int64: of each row of `prob` the class in whose part of the sum its sample lies; the last class where
    rounding leaves none."""
    rows, samples = prob.numpy(), uniform_sample.numpy().reshape(-1)
    if rows.ndim != 2 or not rows.shape[1] or len(samples) != len(rows):
        raise ValueError(f"multinomial_from_uniform takes probabilities (rows, classes) and a sample of each row, got "
                         f"{prob.shape} and {uniform_sample.shape}")
    below = (np.cumsum(rows, 1) <= samples[:, None]).sum(1)
    return array(np.minimum(below, rows.shape[1] - 1)[:, None].astype(np.int64))


def apply_repetition_penalty(logits, token_ids, penalty):
    """Changes logits: those of tokens that were there are divided by the penalty, or multiplied where not above 0."""
    row = logits.elements.reshape(-1)
    for token in token_ids.numpy().reshape(-1):
        row[token] = row[token] * penalty if row[token] <= 0 else row[token] / penalty


def apply_presence_and_frequency_penalty(logits, token_ids, token_freqs, presence_penalty, frequency_penalty):
    """Changes logits: less one penalty for each token that was there, and another for each time."""
    times = token_freqs.numpy().reshape(-1) * frequency_penalty + presence_penalty
    np.subtract.at(logits.elements.reshape(-1), token_ids.numpy().reshape(-1), times.astype(np.float32))


def apply_softmax_with_temperature(logits, temperature):
    """Changes logits to softmax(logits / temperature)."""
    row = _row("apply_softmax_with_temperature", logits)
    logits.elements.reshape(-1)[:] = _softmax(row, temperature)


FUNCTIONS = {f.__name__: f for f in (
    sample_top_p_from_prob, sample_top_p_from_logits, multinomial_from_uniform, apply_repetition_penalty,
    apply_presence_and_frequency_penalty, apply_softmax_with_temperature)}
__all__ = ["FUNCTIONS"]
