"""Weights that lie apart from the code, as those beyond 1.5 GB do, assemble and link with gcc and clang."""
import shutil
import subprocess

import numpy as np
import pytest
from onnx import helper

import ingot
from ingot.codegen import package
from ingot.codegen.blob import Blob
from ingot.ir import pieces
from networks import make_model


def product(weights):
    return make_model("large", [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
                      {"x": (np.float32, [2, weights.shape[0]])}, {"y": (np.float32, [2, weights.shape[1]])},
                      {"w": weights})


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_blob_of_its_own_section_links(monkeypatch, tmp_path, compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    monkeypatch.setattr(package, "LARGE_BLOB", 1)
    folder = tmp_path / "large"
    ingot.compile(product(np.ones((8, 5), np.float32)), target="x86-64-v3", threads="none").export(folder)
    assert ".lrodata" in (folder / "large_weights.S").read_text()
    command = ["make", "-C", str(folder), f"CC={compiler}", "selftest"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


@pytest.mark.parametrize("single_file", [False, True])
def test_more_weights_than_arrays_hold(monkeypatch, tmp_path, single_file):
    monkeypatch.setattr(package, "MOST_ARRAY_BYTES", 100)
    library = ingot.compile(product(np.ones((8, 5), np.float32)), weights="array")
    with pytest.raises(ValueError, match="bytes of weights are too many for arrays in C, of at most 100 bytes: use"):
        library.export(tmp_path / "large", single_file=single_file)
    assert not (tmp_path / "large").exists()
    ingot.compile(product(np.ones((8, 5), np.float32)), weights="file").export(tmp_path / "large")


@pytest.mark.parametrize("order", ["little", "big"])
def test_weights_that_are_views_are_written_in_pieces(monkeypatch, order):
    monkeypatch.setattr(pieces, "PIECE_BYTES", 64)
    plain = np.arange(6 * 10 * 4, dtype=np.float32).reshape(6, 10, 4)
    views = [plain, plain.transpose(1, 0, 2), plain[::-1, ::3], np.full((), 7, np.float32), plain[:0]]
    written = list(Blob(views, order).pieces())
    assert max(len(bytes(p)) for p in written) <= 240
    expected = b"".join(v.astype(v.dtype.newbyteorder(order)).tobytes() + bytes(-v.nbytes % 64) for v in views)
    assert b"".join(map(bytes, written)) == expected == bytes(Blob(views, order))
