"""Process replay: hashes of the C that small networks become, so that a change to generated code is seen in review.

    INGOT_UPDATE_REPLAY=1 python -m pytest tests/replay

writes them anew; a change that should not change generated C commits none of it."""
import hashlib
import json
import os
from pathlib import Path

import pytest

import ingot
import ledger
from ingot.codegen.compile import Options, compile_module
from networks import SMALL, attention_net, conv_net, with_symbolic_batch

HASHES = Path(__file__).with_name("hashes.json")
UPDATE = os.environ.get("INGOT_UPDATE_REPLAY") == "1"
HOW = "INGOT_UPDATE_REPLAY=1 python -m pytest tests/replay"
TARGETS = ("c", "x86-64-v3", "x86-64-v4-zen4", "x86-64-v4-amx", "aarch64-linux-gnu")
NETWORKS = {**SMALL, "any_batch": lambda: with_symbolic_batch(conv_net()), "any_length": attention_net}


def generated(mod, target):
    """{file: text} of the C that is a network's own: no runtime, no weights, no self-test, whose numbers are those of
    this machine's numpy. Without the network's name before the numbers of files."""
    model = compile_module(mod, Options.check(target=target), "0" * 64)
    own = f"{model.name}_kernels_"
    return {name.replace(own, "kernels_"): text.replace(f"/* {own}", "/* kernels_")
            for name, text in model.files().items() if isinstance(text, str) and (
        name in (f"{model.name}.c", f"{model.name}.h") or "kernels" in name)}


def digest(files):
    text = "".join(f"{name}\n{files[name]}\n" for name in sorted(files))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def update(name, found):
    with ledger.locked(HASHES):
        known = json.loads(HASHES.read_text()) if HASHES.exists() else {}
        known = {n: hashes for n, hashes in {**known, name: found}.items() if n in NETWORKS}
        ledger.write(HASHES, dict(sorted(known.items())))


@pytest.mark.parametrize("name", NETWORKS)
def test_generated_c_is_as_committed(name):
    mod = ingot.from_onnx(NETWORKS[name](), name=name)
    found = {target: digest(generated(mod, target)) for target in TARGETS}
    if UPDATE:
        update(name, found)
    known = json.loads(HASHES.read_text()).get(name, {})
    changed = [target for target in TARGETS if known.get(target) != found[target]]
    assert not changed, f"""the C of {name} changed for {', '.join(changed)}. To see how, write it here and on main:
    python -c "import sys; sys.path[:0] = ['tests', 'tests/replay']; import onnx, test_replay; \\
onnx.save(test_replay.NETWORKS['{name}'](), '{name}.onnx')"
    python -m ingot compile {name}.onnx --target {changed[0]} -o after       (-o before, with main checked out)
    git diff --no-index before after
Where the change is meant: {HOW}"""


def test_a_changed_kernel_is_seen():
    files = generated(ingot.from_onnx(NETWORKS["autoencoder"](), name="autoencoder"), "c")
    kernels = next(name for name in files if name.startswith("kernels"))
    assert digest({**files, kernels: files[kernels].replace("+", "-", 1)}) != digest(files)
    assert not any("weights.c" in name or "selftest" in name for name in files)
