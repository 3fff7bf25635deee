"""Mutants of small models compile, or end in one line that names the node or tensor; results are onnxruntime's.

A seed of the day is drawn, and printed where a mutant fails; INGOT_SEED=... makes the same mutants again, and
INGOT_MUTANTS says how many."""
import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ingot
import mutated_models
from mutated_models import EXTERNAL_DATA, MODELS, MOST_SECONDS, MUTATIONS, difference, feeds_of, mutant, reference

pytest.importorskip("onnxruntime")
SEED = int(os.environ.get("INGOT_SEED") or datetime.date.today().strftime("%Y%m%d"))
MUTANTS = int(os.environ.get("INGOT_MUTANTS") or 240)
SCRIPT = Path(mutated_models.__file__)


def verdicts(seed, count, folder, built=False):
    """{number: (verdict, text)} of mutants, judged in processes whose memory is bounded. Where a process ends, its last
    stage says in whose code; onnxruntime's own crashes count as a refusal of the model."""
    (folder / "w.bin").write_bytes(EXTERNAL_DATA)
    found, first = {}, 0
    while first < count:
        command = [sys.executable, str(SCRIPT), str(seed), str(first), str(count - first), str(folder)]
        result = subprocess.run(command + ["built"] * built, capture_output=True, text=True, cwd=folder,
                                timeout=60 + MOST_SECONDS * (count - first))
        rows = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("[")]
        found |= {number: tuple(rest[:2]) for number, stage, *rest in rows if stage == "done"}
        if result.returncode == 0:
            break
        number, stage = rows[-1][:2] if rows else (first, "start")
        if stage in ("start", "done"):
            raise RuntimeError(f"the process of mutants from {first} on: {result.stderr}")
        found[number] = ("no reference", "") if stage == "onnxruntime" else (
            "fault", f"the process ends in {stage}: {result.stderr.strip()[-300:]}")
        first = number + 1
    return found


@pytest.mark.parametrize("built", [False, True])
def test_mutants(tmp_path, built):
    found = verdicts(SEED, MUTANTS // 10 if built else MUTANTS, tmp_path, built)
    failed = [f"INGOT_SEED={SEED}: mutant {n} ({', '.join(mutant([SEED, n])[1])}): {verdict}: {text}"
              for n, (verdict, text) in sorted(found.items()) if verdict in ("fault", "differs")]
    assert not failed, "\n".join(failed)
    assert len(found) == (MUTANTS // 10 if built else MUTANTS)


def test_the_models_are_valid(tmp_path):
    """Before a mutation: onnxruntime and the importer agree on them, and mutations reach every one of them."""
    from ingot.ir.relax.evaluate import evaluate
    (tmp_path / "w.bin").write_bytes(EXTERNAL_DATA)
    for number, proto in enumerate(MODELS):
        path, feeds = tmp_path / f"{number}.onnx", feeds_of(proto, number)
        path.write_bytes(proto.SerializeToString())
        found = evaluate(ingot.from_onnx(path), feeds)
        assert not difference(list(found) if isinstance(found, tuple) else [found], reference(str(path), feeds)), number
    done = {name for number in range(500) for name in mutant([1, number])[1]}
    assert done == {mutation.__name__ for mutation in MUTATIONS}
    assert mutant([1, 2])[0] == mutant([1, 2])[0]
