"""Equal models and options give equal bytes: in any process, in any folder, whatever order sets have there."""
import hashlib
import os
import subprocess
import sys

import onnx
import pytest

from networks import conv_net, embedding_net, light_case, needs_zoo, with_symbolic_batch, zoo

NETWORKS = {
    "conv_net": conv_net, "any_batch": lambda: with_symbolic_batch(conv_net()), "embedding_net": embedding_net,
    "squeezenet": lambda: onnx.load(light_case("squeezenet")[0]), "kws_gru_lstm": lambda: zoo().load("kws_gru_lstm"),
    "mobilenet_v2": lambda: zoo().load("mobilenet_v2"),
}
CASES = [*("conv_net", "any_batch", "embedding_net", "squeezenet"),
         *(pytest.param(name, marks=needs_zoo) for name in ("kws_gru_lstm", "mobilenet_v2"))]


def written(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.parametrize("name", CASES)
def test_two_processes_write_the_same_bytes(tmp_path, name):
    onnx.save(NETWORKS[name](), tmp_path / f"{name}.onnx")
    processes = []
    for seed in ("1", "20"):
        (tmp_path / seed).mkdir()
        os.link(tmp_path / f"{name}.onnx", tmp_path / seed / f"{name}.onnx")
        processes.append(subprocess.Popen(
            [sys.executable, "-m", "ingot", "compile", f"{name}.onnx", "-o", "out"], cwd=tmp_path / seed,
            stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONHASHSEED": seed}))
    assert [process.wait(300) for process in processes] == [0, 0]
    first, second = written(tmp_path / "1" / "out"), written(tmp_path / "20" / "out")
    assert first == second and len(first) > 8
