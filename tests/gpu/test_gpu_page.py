"""docs/cuda-convolution.md shows the kernel that Ingot emits, all of it: INGOT_UPDATE_README=1 writes its lines
anew."""
import os
import re
from pathlib import Path

import numpy as np
from networks import make_model
from onnx import helper

import ingot

PAGE = Path(__file__).parents[2] / "docs" / "cuda-convolution.md"
SECTION = re.compile(r"(<!-- lines from: (.*?) -->\n```cuda\n)(.*?)(?=^```$)", re.DOTALL | re.MULTILINE)


def kernel():
    """The lines of the kernel, without the steps of its schedule."""
    rng = np.random.default_rng(0)
    nodes = [helper.make_node("Conv", ["x", "weight", "bias"], ["c"], name="conv1", pads=[1] * 4),
             helper.make_node("Relu", ["c"], ["y"], name="relu1")]
    weights = {n: rng.random(s, np.float32) for n, s in {"weight": (32, 16, 3, 3), "bias": (32,)}.items()}
    model = make_model("cnn", nodes, {"x": (np.float32, (16, 16, 32, 32))}, {"y": (np.float32, (16, 32, 32, 32))},
                       weights)
    text = ingot.inspect_stage(model, "c", target="cuda-sm_80", kernel="conv1")
    return re.sub(r"\n \* schedule: .*?\*/", " */", text, flags=re.DOTALL).strip().splitlines()


def sections(lines, marks):
    """The lines from each mark on to the next one. A mark is a part of the first line; of "a ... b" the lines behind it
    have b."""
    starts = []
    for mark in marks:
        word, _, more = mark.partition(" ... ")
        found = [n for n, line in enumerate(lines) if n > (starts or [-1])[-1] and word in line and any(
            more in other for other in lines[n:n + 4])]
        behind = lines[(starts or [0])[-1]]
        assert found, f"docs/cuda-convolution.md: the kernel has no line with {mark!r} behind {behind}"
        starts.append(found[0])
    assert starts[0] == 0, "the first lines are left out"
    return ["\n".join(lines[a:b]) + "\n" for a, b in zip(starts, [*starts[1:], len(lines)])]


def test_the_page_shows_the_whole_kernel():
    page = PAGE.read_text()
    shown = iter(sections(kernel(), [m[2] for m in SECTION.finditer(page)]))
    wanted = SECTION.sub(lambda m: m[1] + next(shown), page)
    if os.environ.get("INGOT_UPDATE_README"):
        PAGE.write_text(wanted)
        return
    assert page == wanted, "INGOT_UPDATE_README=1 python -m pytest tests/gpu/test_gpu_page.py rewrites its lines"
