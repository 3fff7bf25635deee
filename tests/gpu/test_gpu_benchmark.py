"""What benchmarks/gpu.py does without a card: it compiles the test of device functions, and reads what ptxas says."""
import ast
import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ingot
from ingot.codegen.nvcc import find_nvcc

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT / "benchmarks"), str(ROOT / "tests/codegen")]
import gpu  # noqa: E402
import gpu_models  # noqa: E402
import gpu_sweep  # noqa: E402
import gpu_torch  # noqa: E402
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


def test_blocks_of_hopper_have_more_shared_memory():
    """A tile of 128 x 256 with its ring, and two of 128 x 128."""
    assert [gpu.blocks_of(*kernel, "sm_90a") for kernel in ((154, 288, 196672), (90, 288, 98368))] == [1, 2]
    assert gpu.blocks_of(154, 288, 196672, "sm_80") == 0


RESNET, BERT = dict(size=32, stages=((1, 8, 1), (1, 16, 2))), dict(tokens=8, blocks=1, width=32, heads=4, words=50)


def items():
    return [*gpu_models.small(), gpu_models.linear(4, 8, 16), gpu_models.resnet50(1, np.float32, **RESNET),
            gpu_models.bert_base(2, np.float32, **BERT)]


@pytest.mark.parametrize("item", items(), ids=lambda item: item.name)
def test_items_are_models_with_inputs_that_fit(item):
    import onnx
    onnx.checker.check_model(item.model, full_check=True)
    shapes = [tuple(d.dim_value for d in i.type.tensor_type.shape.dim) for i in item.model.graph.input]
    assert shapes == [a.shape for a in item.inputs] and item.flops > 0
    assert [*gpu_torch.ways(item, compiled=False)][0] == "torch"


def test_operations_are_counted():
    assert gpu_models.matmul(4, 8, 16, np.float16).flops == gpu_models.linear(4, 8, 16).flops == 2 * 4 * 8 * 16
    assert gpu_models.resnet50(1, size=224, stages=gpu_models.RESNET).flops == pytest.approx(8.2e9, rel=0.02)


@pytest.mark.parametrize("item", items(), ids=lambda item: item.name)
def test_torch_computes_the_same(item):
    torch = pytest.importorskip("torch")
    data = gpu_torch.plain(item.model)
    module = gpu_torch.module_of(torch, *data).float()
    arrays = [a.astype(np.float32) if a.dtype == np.float16 else a for a in item.inputs]
    with torch.no_grad():
        found = module(*map(torch.from_numpy, arrays)).numpy()
    wanted = ingot.compile(item.model, threads="none")(*item.inputs).astype(np.float32)
    assert np.abs(found - wanted).max() < 2e-3 * np.abs(wanted).max()


def test_ways_of_torch():
    conv, attention, net = gpu_models.convolution(1, 8, 9, 8, 3, 1), gpu_models.attention(1, 2, 8, 16), items()[-2]
    assert [*gpu_torch.ways(conv)] == ["torch", "torch nhwc"]
    assert [*gpu_torch.ways(net)] == ["torch", "torch nhwc", "torch.compile"]
    assert [*gpu_torch.ways(attention)] == ["torch", "flash_attention", "cudnn_attention", "efficient_attention"]


def test_the_sweep_gives_rows_of_data():
    first = list(itertools.islice(gpu_sweep.variants([gpu_models.matmul(128, 128, 128, np.float16)], "cuda-sm_80"), 3))
    rows = gpu_sweep.rows_of([(item, plan, 1e-6 * (3 - n)) for n, (item, plan, _) in enumerate(first)])
    assert rows[0] == "# matmul float16 128x128x128" and "1.0 us, 4.2 TFLOP/s" in rows[1]
    read = [ast.literal_eval(row.partition("#")[0].rstrip(", ")) for row in rows[1:]]
    assert [(p.rule, p.algorithm, p.parts) for _, p, _ in reversed(first)] == read
    assert all(library.model.kernels for _, _, library in first)


def test_shared_memory_of_a_launch_is_read():
    host = """TRY(net, a_launch(ingot_dim3(8, 1, 1), ingot_dim3(128, 1, 1), 49152, stream, x, y));
    TRY(net, b_launch(ingot_dim3((n + 7) / 8, 1, 1),
        ingot_dim3(128, 1, 1), 0, stream, x));"""
    assert [gpu.dynamic_shared(host, k) for k in ("a", "b", "c")] == [49152, 0, 0]


def test_a_dry_run_compiles_everything_and_says_what_would_run(monkeypatch, tmp_path, capsys):
    parts = dict(zip(gpu.ITEMS, ([gpu_models.matmul(4, 8, 16, np.float16)], [], [gpu_models.attention(1, 2, 8, 16)],
                                 items()[-2:])))
    monkeypatch.setattr(gpu, "ITEMS", {part: (lambda some=some: iter(some)) for part, some in parts.items()})
    gpu.main(["--dry-run", "--json", str(tmp_path / "out.json")])
    said = capsys.readouterr().out
    assert "matmul float16 4x8x16; against torch\n" in said and "against torch, torch nhwc, torch.compile" in said
    found = json.loads((tmp_path / "out.json").read_text())
    assert [row["item"] for row in found["networks"]] == ["ResNet-50 float32 batch 1", "BERT-base float32 batch 2"]
    assert all(row["kernels"] for part in parts for row in found[part])


def test_without_a_card_it_says_why(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("INGOT_CUDART", "/nowhere/libcudart.so")
    monkeypatch.setattr(gpu, "compiler", lambda items, target, arch: [i.name for i in items])
    monkeypatch.setattr(gpu, "ITEMS", {"products": lambda: iter([gpu_models.matmul(4, 8, 16, np.float16)])})
    gpu.main(["products", "--json", str(tmp_path / "out.json")])
    assert "cannot load CUDA's runtime library" in capsys.readouterr().out
    assert '"matmul float16 4x8x16"' in (tmp_path / "out.json").read_text()
    with pytest.raises(SystemExit):
        gpu.main(["everything"])


@pytest.mark.parametrize("lacking, part", [("find_nvcc", "compiler"), ("find_sanitizer", "sanitizer")])
def test_a_part_that_lacks_something_is_skipped(monkeypatch, tmp_path, capsys, lacking, part):
    monkeypatch.setattr(gpu, lacking, lambda: None)
    monkeypatch.setattr(gpu, "card", lambda: {"compute_major": 9})
    monkeypatch.setattr(gpu, "ITEMS", {"products": lambda: iter([gpu_models.matmul(4, 8, 16, np.float16)])})
    gpu.main([part, "--json", str(tmp_path / "out.json")])
    assert "skipped: no " in capsys.readouterr().out
    assert json.loads((tmp_path / "out.json").read_text())[part]["skipped"].startswith("no ")
