"""Decoders with a KV cache, step by step, against onnxruntime: as they are, and with the caches in place."""
import shutil
import subprocess

import numpy as np
import pytest
from c_build import COMPILERS, STRICT

import ingot
from decoders import DECODERS, ROOM, SIZE, VOCABULARY

ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: it has the right results")
VOCABULARIES = {"llama": 96, "gpt2": VOCABULARY, "group_query_shared": VOCABULARY}
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


@pytest.mark.parametrize("name, opt_level", [
    *((name, 2) for name in DECODERS), *((name, 0) for name in ("llama", "attention", "static_cache"))])
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


@pytest.mark.parametrize("name", ["llama", "gpt2", "group_query_shared"])
def test_the_c_of_caches_in_place_is_strict_and_stays_inside(name, tmp_path):
    """Under sanitizers, the caches at the end of their memory; the prompt fills all but a row, and one row too many is
    refused."""
    decoder = DECODERS[name]()
    with ingot.compile(decoder.proto, target="c", threads="none", dims=dict(decoder.dims), bounds=dict(decoder.bounds),
                       aliases=dict(decoder.aliases), name="steps", weights="array") as library:
        folder = library.export(tmp_path / "c", single_file=True)
        inputs, dims = library.inputs, library.model.dims
    shared = "shared" in name
    sizes = {"sequence_length": "n", "past_sequence_length": "past", "total_sequence_length": "past + n"}
    caches = [t for t in inputs if t.updated]
    names = {"input_ids": "ids", "attention_mask": "mask"}
    arguments = ", ".join(["net", *(sizes[d] for d in dims), *(names.get(t.source_name) or f"cache[{caches.index(t)}]"
                                                               for t in inputs), "logits"])
    heads = next(iter(decoder.caches.values()))
    (tmp_path / "main.c").write_text(f"""
#include <stdio.h>
#include <stdlib.h>
#include "steps.h"
int main(void)
{{
    enum {{ ROOM = {ROOM}, BYTES = {heads * ROOM * SIZE} * sizeof(float) }};
    steps *net;
    float *cache[{len(caches)}];
    size_t bytes = 1u << 20;
    void *arena = aligned_alloc(STEPS_ARENA_ALIGN, bytes);
    if (steps_init(&net, arena, bytes) != INGOT_OK) return 1;
    for (int i = 0; i < {len(caches)}; ++i) cache[i] = calloc(1, BYTES);
    for (int64_t past = 0, n = ROOM - 1; past < ROOM; past += n, n = 1) {{
        int64_t *ids = calloc((size_t)n, sizeof *ids), *mask = malloc((size_t)(past + n) * sizeof *mask);
        float *logits = malloc((size_t)n * {VOCABULARIES[name]} * sizeof *logits);
        for (int64_t i = 0; i < past + n; ++i) mask[i] = 1;
        if (steps_run({arguments}) != INGOT_OK) return 2;
        free(ids); free(mask); free(logits);
    }}
    {{
        int64_t past = ROOM, n = 1, ids[1] = {{0}}, mask[ROOM + 1];
        static float logits[{VOCABULARIES[name]}];
        for (int i = 0; i <= ROOM; ++i) mask[i] = 1;
        (void)past; (void)n;
        if (steps_run({arguments}) != INGOT_ERR_DIM) return 3;
    }}
    for (int i = 0; i < {len(caches)}; ++i) free(cache[i]);
    free(arena);
    return 0;
}}
""")
    assert caches and not (shared and "past_sequence_length" in dims)
    for compiler in filter(shutil.which, COMPILERS):
        strict = [f for f in STRICT if f != "-std=c99"]
        subprocess.run([compiler, "-std=c99", *strict, f"-I{folder}", "-c", folder / "steps.c", "-o",
                        tmp_path / "strict.o"], check=True)
    if shutil.which("cc") is None:
        pytest.skip("cc is not installed")
    program = tmp_path / "steps"
    subprocess.run(["cc", "-std=gnu11", "-O1", "-g", "-DINGOT_ROLLED", "-fsanitize=address,undefined",
                    "-fno-sanitize-recover", f"-I{folder}", tmp_path / "main.c", folder / "steps.c", "-lm", "-o",
                    program], check=True)
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
