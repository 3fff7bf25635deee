"""Whole networks in OpenCL: their self-tests pass on pocl, and oclgrind sees neither a race nor an access outside."""
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from folders import folder_of
from networks import (attention_net, conv_net, embedding_net, make_model, mobile_net, recurrent_net,
                      residual_net, shuffle_net, with_symbolic_batch)
from onnx import helper
from test_gpu_opencl import missing

SVM = Path(__file__).parent / "svm.c"


def one(op, inputs, output, weights=None, dtype=np.float32, **attrs):
    """A network of one node. inputs: {name: shape}."""
    node = helper.make_node(op, [*inputs, *(weights or {})], ["y"], **attrs)
    return make_model(op.lower(), [node], {n: (dtype, s) for n, s in inputs.items()}, {"y": (dtype, output)},
                      weights or {}, opset=18)


NETWORKS = {
    "conv": conv_net, "embedding": embedding_net, "attention": lambda: attention_net(length=6, mask=True),
    "residual": residual_net, "mobile": mobile_net, "shuffle": shuffle_net, "recurrent": recurrent_net,
    "softmax": lambda: one("Softmax", {"x": (3, 50)}, (3, 50)),
    "matmul": lambda: one("MatMul", {"a": (70, 40), "b": (40, 50)}, (70, 50)),
    "symbolic": lambda: with_symbolic_batch(one("Softmax", {"x": (3, 50)}, (3, 50))),
    "float16": lambda: one("MatMul", {"a": (9, 40), "b": (40, 20)}, (9, 20), dtype=np.float16),
    "float64": lambda: one("Exp", {"x": (9, 40)}, (9, 40), dtype=np.float64),
    "transpose": lambda: one("Transpose", {"x": (33, 50)}, (50, 33), perm=[1, 0]),
    "reduce": lambda: one("ReduceMean", {"x": (7, 300)}, (7, 1), {"axes": np.array([1])}),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """{network: its folder}, with the self-test built, and linked with memory for simulators as `simulated`."""
    if missing():
        pytest.skip(missing())
    folders = {}

    def build(name):
        if name not in folders:
            folder = tmp_path_factory.mktemp(name) / "net"
            folder_of(NETWORKS[name](), folder, target="opencl")
            run(folder, "make", "-s", "selftest", "CFLAGS=-O0", "LOG=1")
            folders[name] = folder
        return folders[name]
    return build


def run(folder, *command):
    done = subprocess.run([*map(str, command)], cwd=folder, capture_output=True, text=True)
    text = done.stdout + done.stderr
    assert done.returncode == 0, text[-3000:]
    return text


@pytest.mark.parametrize("name", NETWORKS)
def test_pocl_runs_it(built, name):
    assert "ok" in run(built(name), "./selftest")


@pytest.mark.skipif(shutil.which("oclgrind") is None, reason="no oclgrind")
@pytest.mark.parametrize("name", [n for n in NETWORKS if n != "residual"])  # which takes it long
def test_oclgrind_sees_no_race(built, name):
    folder = built(name)
    run(folder, "cc", "-O0", "-o", "simulated", *(o.name for o in folder.glob("*_selftest*.o")), SVM,
        next(folder.glob("lib*.a")).name, "-lOpenCL", "-lm")
    text = run(folder, "oclgrind", "--data-races", "./simulated")
    assert "race" not in text and "Invalid" not in text, text[-3000:]
    assert "ok" in text
