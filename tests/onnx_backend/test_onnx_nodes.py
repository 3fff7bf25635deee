"""onnx's node tests and stored models against a ledger: which pass, and why the others are refused. No result may be
wrong, and none that passed may be refused again.

    INGOT_UPDATE_LEDGER=1 python -m pytest tests/onnx_backend

writes the ledger anew, which is made for one version of onnx. With another version only wrong results fail."""
import copy
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import ledger as ledgers
import node_cases as cases_of_nodes
from node_cases import PASSES, WRONG, all_cases, difference, node_cases, reason, status
from value_target import is_fourth

from ingot.codegen.target import Target

pytestmark = pytest.mark.optimization("-O0")
LEDGER = Path(__file__).with_name("ledger.json")
UPDATE = os.environ.get("INGOT_UPDATE_LEDGER") == "1"
HOW = "INGOT_UPDATE_LEDGER=1 python -m pytest tests/onnx_backend"
CHUNKS = 24  # so that two workers end together


def read_ledger():
    """(version of onnx, {name: PASSES or the reason of its refusal})."""
    ledger = json.loads(LEDGER.read_text())
    listed = dict.fromkeys(ledger["passes"], PASSES)
    listed.update((name, why) for why, names in ledger["refused"].items() for name in names)
    return ledger["onnx"], listed


def write_ledger(version, listed):
    refused = {}
    for name, why in sorted(listed.items()):
        if why != PASSES:
            refused.setdefault(why, []).append(name)
    ledger = {"onnx": version, "passes": sorted(n for n, why in listed.items() if why == PASSES),
              "refused": dict(sorted(refused.items(), key=lambda group: (-len(group[1]), group[0])))}
    ledgers.write(LEDGER, ledger)


def update_ledger(found):
    """Put these cases in the ledger, which other processes update too."""
    with ledgers.locked(LEDGER):
        version, listed = read_ledger() if LEDGER.exists() else (None, {})
        kept = listed if version == onnx.__version__ else {}
        known = all_cases()
        write_ledger(onnx.__version__, {**{n: why for n, why in kept.items() if n in known}, **found})


def complaints(found, listed):
    """List the cases that are worse than the ledger says, and those that are better and not yet in it."""
    lines = [f"{name}: {is_now}" for name, is_now in found.items() if is_now.startswith(WRONG)]
    for name, is_now in found.items():
        was = listed.get(name)
        if was == PASSES and is_now != PASSES and not is_now.startswith(WRONG):
            lines.append(f"{name} passed, and is refused now: {is_now}")
        elif was not in (None, PASSES) and is_now == PASSES:
            lines.append(f"{name} passes now, and is listed as refused: {HOW}")
    return lines


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_node_tests(chunk):
    cases = all_cases()
    found = {name: status(cases[name]) for name in list(cases)[chunk::CHUNKS]}
    if UPDATE:
        update_ledger({name: why for name, why in found.items() if not why.startswith(WRONG)})
    version, listed = read_ledger()
    assert not (lines := complaints(found, listed if version == onnx.__version__ else {})), "\n".join(lines)


def test_the_ledger_lists_every_case():
    version, listed = read_ledger()
    if UPDATE or version != onnx.__version__:
        pytest.skip(f"the ledger is of onnx {version}, this is {onnx.__version__}")
    assert sorted(listed) == sorted(all_cases())


def test_complaints():
    listed = {"a": PASSES, "b": "no", "c": PASSES, "d": "no", "e": PASSES}
    found = {"a": PASSES, "b": "no", "c": "no", "d": PASSES, "e": f"{WRONG}: 1, not 2", "new": "no"}
    assert complaints(found, listed) == [
        "e: wrong: 1, not 2", "c passed, and is refused now: no",
        "d passes now, and is listed as refused: INGOT_UPDATE_LEDGER=1 python -m pytest tests/onnx_backend"]


@pytest.mark.parametrize("want, got, what", [
    (np.float32([1, 2]), np.float32([1, 2.00001]), ""), (np.float32([1, 2]), np.float32([1, 3]), "differ"),
    (np.float32([1, np.nan]), np.float32([1, np.nan]), ""), (np.float32([1]), np.float32([np.nan]), "differ"),
    (np.float32([1]), np.float64([1]), "float64[1], not float32[1]"), (np.int8([3]), np.int8([4]), "differ"),
    (np.float32([1]), np.float32([[1]]), "float32[1, 1], not"), (None, np.float32([1]), "NoneType is expected"),
    ([np.float32([1])], np.float32([1]), "list is expected"),
    (np.float32([1]), [np.float32([1])], "ndarray is expected"),
    ([np.float32([1])], [np.float32([1])], ""), ([np.float32([1])], [np.float32([2])], "output 0: output 0"),
    ([np.float32([1])], [], "0 outputs, not 1"), (None, None, ""), (np.float32([1]), None, "ndarray is expected")])
def test_difference(want, got, what):
    found = difference([want], [got], 1e-3, 1e-7)
    assert what in found and bool(found) == bool(what)


def test_a_wrong_network_is_seen():
    case = copy.copy(node_cases()["test_add"])
    assert status(case) == PASSES
    case.data_sets = [(inputs, [outputs[0] + np.float32(1)]) for inputs, outputs in case.data_sets]
    assert status(case).startswith(WRONG)


@pytest.mark.parametrize("name, found", [("small", PASSES), ("host", WRONG)])
def test_plain_c_is_asked_about_what_tcc_makes_wrong_alone(monkeypatch, name, found):
    """Not about this machine's target, which stands for it where there is no tcc."""
    case = next(c for c in node_cases().values() if "_expanded" not in c.name and not is_fourth(c.name))
    monkeypatch.setattr(cases_of_nodes, "small_target", lambda: replace(Target.get("c"), name=name))
    monkeypatch.setattr(cases_of_nodes, "_status", lambda case, target: WRONG if target is None else PASSES)
    assert status(case) == found


def test_reasons_name_no_nodes():
    error = ValueError('Resize node "Y" (opset 19): scales must be constant, and depends on data; export the model')
    assert reason(error) == "ValueError: Resize: scales must be constant, and depends on data"
