"""The examples and the demo build, run and answer; the trained model that they use reads its pictures."""
import shutil
import subprocess
import sys

import numpy as np
import pytest

from ingot.codegen.toolchains import toolchain
import ingot
from networks import ROOT

EXAMPLES = ROOT / "examples"
NEEDED = {"c": ["make", "cc"], "cpp": ["make", "cc", "c++"], "cross": ["make", "aarch64-linux-gnu-gcc", "qemu-aarch64"]}


@pytest.fixture
def digits(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    import digits
    return digits


@pytest.mark.parametrize("name", NEEDED)
def test_an_example_answers(name, tmp_path):
    for program in NEEDED[name]:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("digits", "digit", "digits_cpp"))
    done = subprocess.run(["make", "-C", tmp_path / "examples" / name, "run", f"INGOT={sys.executable} -m ingot"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "this is a 7" in done.stdout or "7.pgm: 7" in done.stdout
    assert "warning" not in done.stderr


def test_a_decoder_says_what_onnxruntime_says(tmp_path):
    ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: it has the right tokens")
    for program in ("make", "cc"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    folder = tmp_path / "decoder"
    shutil.copytree(EXAMPLES / "decoder", folder, ignore=shutil.ignore_patterns("decoder", "decode", "*.onnx"))
    done = subprocess.run(["make", "-s", "-C", folder, "run", f"INGOT={sys.executable} -m ingot",
                           f"PYTHON={sys.executable}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stderr
    said = list(map(int, done.stdout.splitlines()[-1].split()))
    session = ort.InferenceSession(str(folder / "decoder.onnx"), providers=["CPUExecutionProvider"])
    caches = {i.name: np.zeros((1, i.shape[1], 0, i.shape[3]), np.float32) for i in session.get_inputs()[2:]}
    tokens = [3, 1, 4, 1, 5, 9, 2, 6]
    for _ in said:  # all tokens anew, without a past
        feeds = {"input_ids": np.array([tokens]), "attention_mask": np.ones((1, len(tokens)), np.int64)}
        tokens.append(int(session.run(["logits"], {**feeds, **caches})[0][0, -1].argmax()))
    assert said == tokens[8:] and len(said) == 8
    for wrong in ([], ["0", "1"], ["60", *["1"] * 8], ["x", "1"]):
        assert subprocess.run([folder / "decode", *wrong], capture_output=True).returncode == 2, wrong
    refused = subprocess.run([folder / "decode", "1", "96"], capture_output=True, text=True)
    assert refused.returncode == 1 and "index" in refused.stderr  # the vocabulary has 96 tokens


def test_the_program_refuses_what_is_no_picture(tmp_path):
    if shutil.which("cc") is None:
        pytest.skip("cc is not installed")
    with ingot.compile(EXAMPLES / "digits.onnx", name="digits", threads="none") as library:
        folder = library.export(tmp_path / "digits", single_file=True)
        flags = [flag for flag in toolchain(library.model.target).cflags if not flag.startswith("-O")]
    subprocess.run(["cc", "-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", *flags, f"-I{folder}",
                    EXAMPLES / "c" / "main.c", folder / "digits.c", "-lm", "-o", tmp_path / "digit"], check=True)
    wrong = {"none.pgm": None, "kind.pgm": "P5\n8 8\n16\n", "size.pgm": "P2\n4 4\n16\n" + "1 " * 16,
             "short.pgm": "P2\n8 8\n16\n" + "1 " * 63, "zero.pgm": "P2\n8 8\n0\n" + "1 " * 64}
    for name, text in wrong.items():
        if text is not None:
            (tmp_path / name).write_text(text)
        done = subprocess.run([tmp_path / "digit", tmp_path / name], capture_output=True, text=True)
        assert done.returncode == 2 and done.stderr.startswith("usage: "), name


def test_the_model_reads_its_pictures(digits):
    with ingot.compile(EXAMPLES / "digits.onnx", threads="none") as library:
        found = [int(library(digits.read_pgm(EXAMPLES / "pictures" / f"{n}.pgm")).argmax()) for n in range(10)]
    assert found == list(range(10))


def test_gradients_are_those_of_the_loss(digits):
    """Against differences in float64; seeds without ties of a maximum, where there is no gradient."""
    rng = np.random.default_rng(4)
    weights = {name: w + 0.1 * rng.standard_normal(w.shape) for name, w in digits.initial_weights(rng).items()}
    images, labels = rng.random((4, 1, 8, 8)), np.array([0, 3, 5, 9])

    def loss():
        scores, _ = digits.forward(weights, images)
        return (np.log(np.exp(scores).sum(1)) - scores[np.arange(4), labels]).mean()

    found = digits.gradients(weights, images, labels)
    for name, w in weights.items():
        place = tuple(rng.integers(0, n) for n in w.shape)
        kept, values = w[place], []
        for step in (1e-6, -1e-6):
            w[place] = kept + step
            values.append(loss())
        w[place] = kept
        assert (values[0] - values[1]) / 2e-6 == pytest.approx(found[name][place], rel=1e-4, abs=1e-8), name


def test_the_demo():
    pytest.importorskip("sklearn", reason="scikit-learn is not installed: it ships the pictures of digits")
    for program in ("make", "cc"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    done = subprocess.run([sys.executable, "benchmarks/demo.py"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for digit in (7, 3, 0):
        assert f"this is a {digit} (" in done.stdout and f"its label is {digit}" in done.stdout
    assert "right answers" in done.stdout and "time of a run" in done.stdout
