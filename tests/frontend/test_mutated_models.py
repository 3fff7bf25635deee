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

import mutated_models
from mutated_models import EXTERNAL_DATA, MODELS, MOST_SECONDS, feeds_of, mutant, reference

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
