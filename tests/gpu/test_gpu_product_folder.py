"""What `ingot compile --target cuda-...` writes: its files, that they build, and what they refuse."""
import subprocess

import onnx
import emulated
import pytest
from folders import check_host_code, check_kernels, folder_of, nvcc
from networks import attention_net, conv_net, needs_zoo, with_symbolic_batch, zoo, zoo_names
from onnx import TensorProto, helper

import ingot
from ingot import cli
from ingot.codegen.compile import STAGES, Options, compile_module

NETWORKS = {"conv_net": conv_net, "any_batch": lambda: with_symbolic_batch(conv_net()), "any_length": attention_net}


@pytest.fixture
def model_file(tmp_path):
    onnx.save(conv_net(), tmp_path / "net.onnx")
    return str(tmp_path / "net.onnx")


@pytest.fixture(scope="module", params=NETWORKS)
def network(request, tmp_path_factory):
    """(CompiledModel, its folder)"""
    folder = tmp_path_factory.mktemp("cuda") / request.param
    return folder_of(NETWORKS[request.param](), folder, request.param), folder


def test_a_folder_has_all_that_it_needs(network):
    made, folder = network
    name, files = made.name, {path.name for path in folder.iterdir()}
    assert files >= {f"{name}.h", f"{name}.c", f"{name}_kernels.h", f"{name}_kernels_0.cu", "ingot.h", "ingot.c",
                     f"{name}_weights.bin", f"{name}_weights.S", f"{name}_selftest_data.bin",
                     f"{name}_selftest_data.S", f"{name}_selftest.c",
                     f"{name}_example.c", "Makefile", "CMakeLists.txt", "README.md"}
    assert "cuda" not in (folder / f"{name}.h").read_text().replace("cuda-sm_80", "").replace("cudaMalloc", "").replace(
        "cudaError", "").replace("cudaStream_t", "")  # it needs none of CUDA's headers


def test_the_same_network_gives_the_same_files(network):
    made, _ = network
    again = compile_module(ingot.from_onnx(NETWORKS[made.name](), name=made.name),
                           Options.check(target="cuda-sm_80"), "0" * 64).files()
    assert {n: t for n, t in made.files().items() if isinstance(t, str)} == {
        n: t for n, t in again.items() if isinstance(t, str)}


def test_host_code_compiles_strictly(network):
    check_host_code(network[1])
    check_host_code(network[1], "-DINGOT_PROFILE")


def test_nvcc_compiles_the_kernels_without_warnings_and_spills(network):
    made, folder = network
    if made.name != "any_length":  # whose attention holds the scores of a thread on its stack
        check_kernels(folder, made.kernels)


def test_nvcc_compiles_kernels_of_small_floats(tmp_path):
    made = folder_of(conv_net(), tmp_path / "half", "half", dtype="float16")
    check_kernels(tmp_path / "half", made.kernels, ("sm_80",))


def test_make_builds_it_and_without_a_device_says_so(network):
    made, folder = network
    done = subprocess.run(["make", f"NVCC={nvcc().path}", "selftest", "example"], cwd=folder, capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    done = subprocess.run(["./selftest"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0 or "driver" in done.stderr or "no CUDA-capable device" in done.stderr
    assert "WRONG" not in done.stdout


def model_of(*nodes, inputs, outputs):
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "decides", [info(n, t, s) for n, t, s in inputs],
                              [info(n, t, s) for n, t, s in outputs])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def branch(name, op):
    return helper.make_graph([helper.make_node(op, ["x"], [name])], name, [],
                             [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])])


def test_a_run_waits_for_what_decides_a_branch(tmp_path):
    model = model_of(helper.make_node("If", ["c"], ["y"], name="choose", then_branch=branch("a", "Relu"),
                                      else_branch=branch("b", "Neg")),
                     inputs=[("c", TensorProto.BOOL, []), ("x", TensorProto.FLOAT, [4])],
                     outputs=[("y", TensorProto.FLOAT, [4])])
    folder_of(model, tmp_path / "net", "choose")
    check_host_code(tmp_path / "net")
    text = (tmp_path / "net" / "choose.c").read_text()
    assert "cudaStreamSynchronize(stream)" in text
    assert "no graph can capture it" in (tmp_path / "net" / "choose.h").read_text()
    if emulated.MISSING is None:
        for program in ("selftest", "example"):
            done = emulated.run_folder(tmp_path / "net", program=program)
            assert done.returncode == 0, done.stdout + done.stderr


def test_names_of_the_code_around_are_no_tensors(tmp_path):
    """An input called stream, one called float4: each gets a number; a network called device gets a letter."""
    info = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("Add", ["stream", "float4"], ["dim3"])], "device",
                              [info(n, TensorProto.FLOAT, [5]) for n in ("stream", "float4")],
                              [info("dim3", TensorProto.FLOAT, [5])])
    made = folder_of(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "net", "device")
    assert made.name == "device_" and [t.name for t in (*made.inputs, *made.outputs)] == ["stream_1", "float4_1",
                                                                                          "dim3_1"]
    check_host_code(tmp_path / "net")


def test_the_command_line_refuses_one_file(model_file, tmp_path, capsys):
    assert cli.main(["compile", model_file, "-o", str(tmp_path / "out"), "--single-file", "--target",
                     "cuda-sm_80"]) == 2
    assert "one file holds C alone" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@needs_zoo
@pytest.mark.parametrize("name", [n for n in zoo_names if n in ("tiny_resnet8", "tiny_dscnn")] or ["none"])
def test_kernels_of_the_zoo_compile_without_warnings_and_spills(name, tmp_path):
    made = folder_of(zoo().load(name), tmp_path / name, name, weights="file")
    check_host_code(tmp_path / name)
    check_kernels(tmp_path / name, made.kernels)


@pytest.mark.parametrize("stage", [s for s in STAGES if s != "c"])
def test_every_stage_can_be_inspected(model_file, stage, capsys):
    assert cli.main(["inspect", model_file, "--target", "cuda-sm_80", "--stage", stage]) == 0
    assert capsys.readouterr().out.strip()


def test_the_c_of_kernels_is_that_of_the_folder(model_file, capsys):
    library = ingot.compile(model_file, target="cuda-sm_80")
    name, kernels = library.name, library.model.kernels
    for wanted in ("conv1", "softmax"):
        assert cli.main(["inspect", model_file, "--target", "cuda-sm_80", "--stage", "c", "--kernel", wanted]) == 0
        assert kernels[f"{name}_{wanted}"].body.rstrip() in capsys.readouterr().out
    assert cli.main(["inspect", model_file, "--target", "cuda-sm_80", "--stage", "c"]) == 0
    text = capsys.readouterr().out
    assert all(k.body in text for k in kernels.values()) and f"{name}_run(" in text


@pytest.mark.parametrize("command", ["verify", "bench"])
def test_commands_that_run_say_that_there_is_no_device(model_file, command, capsys):
    nvcc()
    if ingot.cuda(0).exist:
        pytest.skip("there is a device")
    assert cli.main([command, model_file, "--target", "cuda-sm_80"]) == 2
    assert "no CUDA driver here" in capsys.readouterr().err
