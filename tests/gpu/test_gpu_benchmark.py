"""What benchmarks/gpu.py does without a card: it compiles the test of device functions, and reads what ptxas says."""
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ingot.codegen.nvcc import find_nvcc

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT / "benchmarks"), str(ROOT / "tests/codegen")]
import gpu  # noqa: E402
from test_cuda_program import symbolic  # noqa: E402

needs_nvcc = pytest.mark.skipif(find_nvcc() is None, reason="no nvcc")


@needs_nvcc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_the_test_of_device_functions_compiles(tmp_path, arch):
    nvcc, source = find_nvcc(), ROOT / "benchmarks/device_test.cu"
    names = {f"ingot_wgmma_{n}" for n in gpu.re.findall(r"WGMMA\((m64n\w+),", source.read_text())}
    assert len(names) == 7
    (tmp_path / "ingot_wgmma.h").write_text(gpu.wgmma_header(names))
    gencode = f"arch={arch.replace('sm', 'compute')},code={arch}"
    done = subprocess.run([nvcc.path, "-std=c++17", "-gencode", gencode, "-I", gpu.RUNTIME / "cuda", "-I", gpu.RUNTIME,
                           "-I", tmp_path, "-Werror", "all-warnings", "-Xptxas", "-v",
                           *(f"-L{path}" for path in nvcc.library_folders), "-o", tmp_path / "test", source],
                          capture_output=True, text=True)
    assert done.returncode == 0 and "C75" not in done.stderr, done.stderr
    ran = subprocess.run([tmp_path / "test"], capture_output=True, text=True)
    assert "WRONG" not in ran.stdout


@needs_nvcc
def test_ptxas_is_read(tmp_path):
    symbolic().write(tmp_path / "net")
    rows = gpu.ptxas_report(tmp_path / "net", "sm_80")
    assert len(rows) == 2 and {r["threads"] for r in rows} == {64}
    assert all(r["registers"] > 0 and r["spills"] == 0 and not r["serialized"] for r in rows)


@pytest.mark.parametrize("registers, threads, shared, share", [(32, 256, 0, 1.0), (255, 128, 0, 0.125),
                                                               (32, 1024, 0, 1.0), (32, 256, 100_000, 0.125)])
def test_occupancy(registers, threads, shared, share):
    assert gpu.occupancy(registers, threads, shared) == share


def test_items_are_models_with_inputs_that_fit():
    import onnx
    for item in [gpu.matmul(4, 8, 16, np.float16), gpu.convolution(1, 8, 14, 16, 3, 2)]:
        onnx.checker.check_model(item.model, full_check=True)
        shapes = [tuple(d.dim_value for d in i.type.tensor_type.shape.dim) for i in item.model.graph.input]
        assert shapes == [a.shape for a in item.inputs]
    assert gpu.matmul(4, 8, 16, np.float16).flops == 2 * 4 * 8 * 16


def test_without_a_card_it_says_why(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("INGOT_CUDART", "/nowhere/libcudart.so")
    monkeypatch.setattr(gpu, "compiler", lambda items, target, arch: [i.name for i in items])
    monkeypatch.setattr(gpu, "products", lambda: iter([gpu.matmul(4, 8, 16, np.float16)]))
    gpu.main(["products", "--json", str(tmp_path / "out.json")])
    assert "cannot load CUDA's runtime library" in capsys.readouterr().out
    assert '"matmul float16 4x8x16"' in (tmp_path / "out.json").read_text()
    with pytest.raises(SystemExit):
        gpu.main(["everything"])
