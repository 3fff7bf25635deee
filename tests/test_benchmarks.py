"""The benchmarks' tables, their way of measuring, and one run of each on tiny models. Nothing here depends on how fast
anything is."""
import importlib
import json
import math
import xml.dom.minidom
from dataclasses import astuple
from types import SimpleNamespace

import numpy as np
import pytest

from ingot.codegen.target import Target
from ingot.codegen.toolchain import missing_tools
from ingot.codegen.toolchains import is_supported_here
from networks import ROOT, conv_net, needs_zoo, tiny_names


@pytest.fixture(scope="module", autouse=True)
def scripts():
    """benchmarks/ is a folder of scripts: they import one another from it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        yield


def script(name):
    return importlib.import_module(name)


def row(model, ms, ort, ov, threads=1, naive=None):
    return script("zoo").Row(model, threads, {"Ingot": ms, "onnxruntime": ort, "OpenVINO": ov}, naive, 0.5, 1.5, 3e-7,
                             {"Ingot": 2e-6}, 44_000_000, 40_000_000, {} if ov else {"OpenVINO": "no"})


# ---------------------------------------------------------------- what all share

def test_operators_of_decoders(tmp_path, capsys):
    """One case of each kind, and a peer without the operator."""
    attention, file = script("attention"), tmp_path / "table.md"
    cases = [attention.attention("prompt", 3, 0, 2, 1, 16), attention.attention("step", 1, 5, 2, 2, 16, False),
             attention.in_place("in place", 5, 4, 2, 16), attention.rms(2, 32), attention.rotary(3, 2, 16)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "CASES", cases)
        assert attention.main(["--seconds", "0", "--markdown", str(file)]) == 0
        assert attention.main(["--seconds", "0", "--cases", "step"]) == 0
        with pytest.raises(SystemExit):
            attention.main(["--cases", "no such case"])
    assert len(file.read_text().splitlines()) == 4 + len(cases)
    rows = [attention.Row("a", {"Ingot": 2e-6, "onnxruntime": 3e-6}, 1e-7), attention.Row("b", {"Ingot": 2e-6}, None)]
    assert attention.table(rows)[2:] == ["| a | 2.00 | 3.00 | 1.50 | 1e-07 |", "| b | 2.00 | has none |  |  |"]


def test_the_deepest_chain_of_frames_is_a_run_a_kernel_and_what_it_calls():
    model = SimpleNamespace(name="net", kernels={"net__a": None, "net__b": None})
    found = {"net_run": 100, "ingot_run_0": 300, "net__a": 1000, "net__b": 50, "ingot_expf": 10, "net_init": 5000}
    assert script("stack").chain(model, found) == (1310, "net__a")


def test_geometric_mean():
    assert script("measure").geometric_mean([2.0, 0.5]) == pytest.approx(1.0)
    assert script("measure").geometric_mean([]) == 1.0


@pytest.mark.parametrize("ms, text", [(1234.5, "1234"), (99.94, "99.9"), (1.2345, "1.23"), (0.012345, "0.0123")])
def test_numbers_have_three_digits(ms, text):
    assert script("measure").number(ms) == text


def test_replace_between():
    text = "before\n<a>\nold\n<b>\nafter\n"
    assert script("measure").replace_between(text, ("<a>", "<b>"), "new") == "before\n<a>\nnew\n<b>\nafter\n"
    with pytest.raises(ValueError, match="no <c>"):
        script("measure").replace_between(text, ("<c>", "<b>"), "new")


def test_largest_error():
    largest_error, one = script("measure").largest_error, np.array([1.0, -4.0], np.float32)
    assert largest_error([one], [one]) == 0.0
    assert largest_error([one + 1], [one]) == 0.25
    assert largest_error([one * np.nan], [one]) == math.inf
    assert largest_error([one[:1]], [one]) == math.inf
    with pytest.raises(ValueError):
        largest_error([one], [one, one])


def test_actions_are_timed_in_turns(monkeypatch):
    measure, order = script("measure"), []
    monkeypatch.setattr(measure, "SAMPLE_SECONDS", 0.0)
    times = measure.interleaved([lambda: order.append("a"), lambda: order.append("b")], seconds=0.0)
    assert [len(t) for t in times] == [measure.LEAST_ROUNDS] * 2
    # first runs, calibration; then a warm run and a timed one each
    assert "".join(order) == "abab" + "aabb" * measure.LEAST_ROUNDS


def test_the_machine_is_named():
    text = script("measure").machine(script("sides").installed())
    assert "Ingot" in text and "numpy" in text and "target" in text and "\n" not in text


def test_light_networks_stand_in_for_the_zoo(tmp_path):
    models = script("measure").Models(tmp_path)
    assert "light_squeezenet" in models.names()
    (x,) = models.inputs(models.load("light_squeezenet")).values()
    assert x.shape == (1, 3, 224, 224) and x.dtype == np.float32


def test_a_float64_reference():
    import ingot
    measure, model = script("measure"), conv_net()
    x = np.random.default_rng(0).random((1, 3, 13, 11), np.float32)
    (exact,) = measure.float64_outputs(model, {"image": x})
    assert exact.dtype == np.float64
    with ingot.compile(model, name="cnn", threads="none") as library:
        assert 0 < measure.largest_error([library(x)], [exact]) < 1e-5


# ---------------------------------------------------------------- the sides

@pytest.mark.parametrize("peer, package", [("onnxruntime", "onnxruntime"), ("OpenVINO", "openvino")])
def test_peers_agree(peer, package):
    pytest.importorskip(package)
    import ingot
    measure, sides, model = script("measure"), script("sides"), conv_net()
    feeds = {"image": np.random.default_rng(0).random((1, 3, 13, 11), np.float32)}
    ours, theirs = sides.ingot_run(ingot.compile(model, name="cnn", threads="none"), feeds), sides.PEERS[peer](
        model, feeds, 1)
    for run in (ours, theirs):
        run.call()
        run.call()
    assert measure.largest_error(ours.outputs(), theirs.outputs()) < 1e-5
    before = [np.array(run.outputs()[0]) for run in (ours, theirs)]
    feeds["image"] *= 0.5
    ours.call()
    assert not np.array_equal(before[0], ours.outputs()[0])  # inputs are bound, not copied
    ours.close()
    theirs.close()


# ---------------------------------------------------------------- tables and the chart

def test_ratios():
    fast, fails = row("fast", 2.0, 4.0, 3.0), row("fails", 2.0, 1.0, None)
    assert (fast.ratio("onnxruntime"), fast.ratio("OpenVINO"), fast.better_ratio) == (2.0, 1.5, 1.5)
    assert (fails.ratio("OpenVINO"), fails.better_ratio, fails.arena_ratio) == (None, 0.5, 1.1)


def test_markdown():
    zoo = script("zoo")
    text = zoo.markdown([row("small", 2.0, 4.0, 4.0, naive=20.0), row("large", 1234.5, 617.25, None)], "A machine.")
    lines = text.splitlines()
    assert lines[0] == "A machine."
    assert lines[2] == ("One thread, geometric mean of the speed over 2 models: 1.00 x onnxruntime, 2.00 x OpenVINO "
                        "(1 models), 1.00 x the better of them; least 0.50 (large):")
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    assert table[0] == ["model", "Ingot ms", "onnxruntime ms", "OpenVINO ms", "x onnxruntime", "x OpenVINO", "x better",
                        "naive C ms", "error to onnxruntime", "error to float64", "peer to float64", "cast s",
                        "build s", "arena MB",
                        "arena / bound"]
    assert table[3] == ["large", "1234", "617", "fails", "0.50", "", "0.50", "", "3e-07", "2e-06", "", "0.5", "1.5",
                        "44.00", "1.10"]
    assert "naive" not in zoo.markdown([row("large", 1.0, 2.0, 3.0)], "A machine.")
    assert "OpenVINO is not installed (pip install openvino)" in zoo.markdown(
        [row("large", 1.0, 2.0, 3.0)], "A machine.", ["OpenVINO"])


def test_markdown_has_a_table_per_thread_count():
    text = script("zoo").markdown([row("small", 2.0, 4.0, 4.0), row("small", 1.0, 4.0, 4.0, threads=2)], "A machine.")
    assert "One thread, geometric mean of the speed over 1 models: 2.00 x onnxruntime" in text
    assert "2 threads, geometric mean of the speed over 1 models: 4.00 x onnxruntime" in text


def test_the_terminal_table_fits_80_columns():
    from rich.console import Console
    console = Console(width=80)
    with console.capture() as captured:
        console.print(script("zoo").rich_table([row("tiny_autoencoder", 0.0123, 0.0456, 0.0789, naive=1.25),
                                                row("large", 1234.5, 617.25, None)]))
    assert "…" not in captured.get() and "1234" in captured.get() and "fails" in captured.get()


@pytest.mark.parametrize("name, file", [("zoo", "README.md"), ("zoo", "docs/performance.md"),
                                        ("threads", "docs/performance.md")])
def test_the_pages_have_the_markers(name, file):
    text = (ROOT / file).read_text()
    assert script("measure").replace_between(text, script(name).MARKERS, "x") != text


def test_chart():
    text = script("zoo").chart([row("a<b", 2.0, 4.0, 3.0), row("large", 2.0, 1.0, None),
                                row("a<b", 1, 1, 1, threads=2)])
    svg = xml.dom.minidom.parseString(text).documentElement
    bars = [r for r in svg.getElementsByTagName("rect") if r.getAttribute("height") == "8"]
    ours, theirs = (float(r.getAttribute("width")) for r in bars[:2])
    assert ours == pytest.approx(2 * theirs, rel=1e-3)
    assert len(bars) == 5 and "fails" in text and "a&lt;b" in text and "prefers-color-scheme: dark" in text


# ---------------------------------------------------------------- the scripts

def test_unknown_models_are_refused(capsys):
    with pytest.raises(SystemExit) as stop:
        script("zoo").main(["--models", "no_such_model"])
    assert stop.value.code == 2 and "no_such_model" in capsys.readouterr().err


def test_the_readme_is_rewritten(tmp_path, monkeypatch):
    from types import SimpleNamespace
    zoo, rows = script("zoo"), [row("small", 2.0, 4.0, 3.0), row("small", 1.0, 3.0, 3.0, threads=2)]
    readme, performance = tmp_path / "README.md", tmp_path / "docs" / "performance.md"
    performance.parent.mkdir()
    for name, file in {"README": readme, "PERFORMANCE": performance, "CHART": tmp_path / "zoo.svg"}.items():
        monkeypatch.setattr(zoo, name, file)
    for file in (readme, performance):
        file.write_text("before\n<!-- benchmark -->\nold\n<!-- /benchmark -->\nafter\n")
    zoo._write(SimpleNamespace(markdown=None, svg=None, readme=True), rows, "A machine.")
    for file in (readme, performance):
        text = file.read_text()
        assert text.startswith("before\n<!-- benchmark -->\nTimes are medians") and text.endswith("after\n")
        assert "| small |" in text and "A machine." in text and "old" not in text
    assert "](../zoo.svg)" in performance.read_text() and performance.read_text().count("| small |") == 2
    assert readme.read_text().count("| small |") == 1 and "2 threads, geometric mean" in readme.read_text()
    assert "arena" not in readme.read_text()
    assert (tmp_path / "zoo.svg").read_text().startswith("<svg")


@needs_zoo
def test_the_zoo(tmp_path, capsys):
    pytest.importorskip("onnxruntime")
    table, svg = tmp_path / "table.md", tmp_path / "zoo.svg"
    assert script("zoo").main(["--models", tiny_names[0], "--seconds", "0", "--naive", "--markdown", str(table),
                               "--svg", str(svg), "--peers", "onnxruntime"]) == 0
    cells = next(line for line in table.read_text().splitlines() if line.startswith(f"| {tiny_names[0]} |")).split("|")
    assert float(cells[6]) < 1e-4 and float(cells[7]) < 1e-4
    assert tiny_names[0] in capsys.readouterr().out and svg.read_text().startswith("<svg")


def test_a_layer_is_what_it_says():
    layers = script("layers")
    layer = layers.Layer(32, 17, 13, 64, (3, 3), (2, 2), (1, 0, 1, 2), (1, 1), 2)
    assert str(layer) == "32x17x13 3x3 /2 64 g2" and layer.output == (9, 7)
    assert layer.flops == 2 * 64 * 9 * 7 * 16 * 9
    assert list(layers.layers_of(layer.model()))[-1] == layer


def test_distinct_layers(tmp_path):
    layers, models = script("layers"), script("measure").Models(tmp_path)
    found = layers.distinct(models, ["light_squeezenet"], None)
    assert len(found) < 26 and "light_squeezenet x2" in map(layers.in_words, found.values())
    assert {layer.kernel for layer in layers.distinct(models, ["light_squeezenet"], "3x3 /1")} == {(3, 3)}


@pytest.mark.parametrize("channels, outputs, groups", [(3, 20, 1), (32, 32, 32), (32, 48, 1)])
def test_a_layer_is_measured(channels, outputs, groups):
    layers, peers = script("layers"), script("sides").installed()
    layer = layers.Layer(channels, 12, 12, outputs, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), groups)
    row = layers.measure_layer(layer, "here", 0.0, peers)
    assert list(row.seconds) == ["Ingot", *peers] and row.error < 1e-4
    assert row.predicted is None or row.predicted > 0
    text = layers.markdown([row], 1e11, "A machine.")
    cells = [line.split("|") for line in text.splitlines() if line.startswith("|")]
    assert len(cells[0]) == len(cells[2]) and row.algorithm in text and "100 GFLOP/s" in text


@pytest.mark.parametrize("target, channels, size, outputs, kernel, groups, algorithm", [
    ("x86-64-v4-zen4", 96, 14, 96, 1, 1, "inner_product"), ("x86-64-v4-amx", 96, 14, 96, 1, 1, "split_integer"),
    ("x86-64-v4-zen4", 272, 14, 272, 1, 4, "direct, gathered"),
    ("x86-64-v4-zen4", 256, 14, 256, 3, 1, "Winograd 3x3, inner_product"),
    ("x86-64-v3", 64, 56, 64, 3, 1, "Winograd 4x4"),
    ("x86-64-v4", 64, 14, 64, 1, 1, "direct")])
def test_algorithms_of_layers_are_predicted(target, channels, size, outputs, kernel, groups, algorithm):
    layers = script("layers")
    layer = layers.Layer(channels, size, size, outputs, (kernel, kernel), (1, 1), (kernel // 2,) * 4, (1, 1), groups)
    found, predicted = layers.choice(layer.model(), layer, target, "relaxed")
    assert found == algorithm and predicted > 0


@needs_zoo
def test_the_layers(tmp_path, capsys):
    table = tmp_path / "layers.md"
    assert script("layers").main(["--models", tiny_names[0], "tiny_resnet8", "--only", "1x1", "--seconds", "0",
                                  "--markdown", str(table)]) == 0
    assert "32x16x16 1x1 /2 64" in table.read_text() and "FMA peak of one core" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        script("layers").main(["--models", "tiny_resnet8", "--only", "no such layer"])


@needs_zoo
def test_layers_in_parts(tmp_path, capsys):
    """Rows of a file are not measured again; the tables show all of its rows."""
    results, run = tmp_path / "layers.jsonl", ["--models", "tiny_resnet8", "--only", "3x3", "--seconds", "0"]
    for part in ("1/2", "2/2", "2/2"):
        assert script("layers").main([*run, "--part", part, "--results", str(results)]) == 0
    rows, err = [json.loads(line) for line in results.read_text().splitlines()], capsys.readouterr().err
    assert len(rows) > 2 and len({str(row["layer"]) for row in rows}) == len(rows) == err.count(" s left")
    kept = script("layers").kept(results, lambda layer: list(rows[0]["seconds"]))
    assert len(kept) == len(rows) and not script("layers").kept(results, lambda layer: ["Ingot", "another"])
    assert all(row.layer is layer and layer.kernel == (3, 3) for layer, row in kept.items())
    for wrong in ("0/2", "3/2", "2", "a/b"):
        with pytest.raises(SystemExit):
            script("layers").main([*run, "--part", wrong])


@needs_zoo
def test_choices_of_algorithms(tmp_path, capsys):
    """Every algorithm is measured; kept times are compared with what the model chooses now."""
    results, table = tmp_path / "algorithms.jsonl", tmp_path / "algorithms.md"
    run = ["--models", "tiny_resnet8", "--only", "8x8", "--seconds", "0", "--results", str(results)]
    for _ in range(2):
        assert script("algorithms").main([*run, "--markdown", str(table)]) == 0
    (row,) = [json.loads(line) for line in results.read_text().splitlines()]
    assert list(row["seconds"])[:6] == ["direct", *(f"winograd{tile}" for tile in range(2, 7))]
    out, err = capsys.readouterr()
    assert out.count("64x8x8 3x3 /1 64") == 2 and err.count(" s left") == 1
    assert "of 1; within 5 %" in table.read_text()
    with pytest.raises(SystemExit):
        script("algorithms").main(["--models", "tiny_resnet8", "--only", "1x1"])


def test_what_a_choice_loses():
    algorithms, layers = script("algorithms"), script("layers")
    layer = layers.Layer(256, 56, 56, 256, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1)
    times = dict.fromkeys(algorithms.ALGORITHMS, 3.0)
    right = algorithms.Measured(layer, "here", times)
    right = algorithms.Measured(layer, "here", {**times, right.chosen: 2.0})
    wrong = algorithms.Measured(layer, "here", {**times, right.chosen: 4.0})
    assert right.best == right.chosen and right.loss == 0 and wrong.loss == pytest.approx(1 / 3)
    first, second, third, *_ = algorithms.summary([right, wrong])
    assert "fastest: 1 of 2; within 5 %: 1" in first and "33.3%" in second
    assert third.startswith("all layers once: 20.0%")
    assert not algorithms.has_choice(layers.Layer(3, 32, 32, 16, *astuple(layer)[4:]))  # plain input


@needs_zoo
def test_instructions_are_counted(capsys):
    if missing := missing_tools("aarch64-linux-gnu"):
        pytest.skip(missing)
    assert script("neon").main(["--models", "tiny_autoencoder", "--top", "1"]) == 0
    network, kernel = (line.split("|") for line in capsys.readouterr().out.splitlines()[2:])
    assert "tiny_autoencoder" in network[1] and "Gemm" in kernel[2]
    assert 0.25 < float(network[-2]) < 1  # four FMAs in an instruction, and what is around


def test_layers_whose_instructions_are_counted():
    """Of floats, and of 16 bits, whose sums are in as many bits as the weights ask for."""
    neon = script("neon")
    made = neon.layers_of((*neon.FLOATS, *neon.WORDS))
    assert len(made) == 3 * len(neon.LAYERS) and made["depthwise_int16"][1] == 128 * 28 * 28 * 9
    for name, sums in (("product_float32", None), ("product_int16", "int32"), ("product_int16_int16", "int64")):
        first = made[name][0]["main"].bindings[0].value
        assert first.attrs["out_dtype"] == sums


def test_instructions_of_boards_are_counted(monkeypatch, capsys):
    if missing := missing_tools("cortex-m4f"):
        pytest.skip(missing)
    cortex = script("cortex_m")
    monkeypatch.setattr(cortex, "LAYERS", {"1x1": ((1, 16, 4, 4), (8, 16, 1, 1), 1, 0)})
    assert cortex.main(["--targets", "cortex-m4f", "--optimize", "s"]) == 0
    rows = [[cell.strip() for cell in line.split("|")] for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[1:3] for row in rows] == [["1x1", "int8"], ["1x1", "uint8"], ["1x1", "int16"]]
    assert all(1 < float(row[3]) < 5 for row in rows)


@needs_zoo
@pytest.mark.parametrize("argv", [["--models", "tiny_autoencoder"], ["--profile", "tiny_autoencoder"]])
def test_narrow_and_wide_vectors(argv, capsys):
    if not all(is_supported_here(Target.get(t)) for t in script("isa").TARGETS):
        pytest.skip("this machine has no AVX-512")
    assert script("isa").main([*argv, "--seconds", "0"]) == 0
    out = capsys.readouterr().out
    assert "of its share" in out and ("Geometric mean" in out) == (argv[0] == "--models")


@needs_zoo
def test_the_zoo_without_peers(monkeypatch, capsys):
    monkeypatch.setattr(script("zoo"), "installed", lambda: [])
    assert script("zoo").main(["--models", tiny_names[0], "--seconds", "0", "--no-reference"]) == 0
    output = capsys.readouterr().out
    assert "onnxruntime is not installed (pip install onnxruntime), so it is left out." in output
    assert "1 models, no peer" in output


# ---------------------------------------------------------------- threads

def thread_rows():
    """Two cores were there in the first round of one network, and in none of the other."""
    Row = script("threads").Row
    return [Row("net", 2, {"Ingot": [(2.0, 1.0), (3.0, 2.0), (1.2, 1.0)], "OpenVINO": [(3.0, 2.0)] * 3},
                [(1.9, 2.0), (1.9, 1.0), (1.0, 1.4)]),
            Row("small", 2, {"Ingot": [(1.0, 1.0)]}, [(1.0, 1.0)])]


def test_gains_of_threads():
    net, small = thread_rows()
    assert (net.gain("Ingot"), net.gain("OpenVINO"), net.gain("onnxruntime")) == (1.5, 1.5, None)
    assert (net.free(), net.gain("Ingot", net.free()), net.bound) == ([0], 2.0, 1.45)
    assert (small.free(), small.gain("Ingot", small.free()), small.bound) == ([], None, 1.0)
    assert net.gain("onnxruntime", net.free()) is None  # a peer that fails on this network alone


def test_tables_of_threads():
    threads, rows = script("threads"), thread_rows()
    assert threads.table(rows)[2:] == ["| net | 1.45 | 1.50 | 1.50 | 103% | 1 of 3 | 2.00 | 1.50 |",
                                       "| small | 1.00 | 1.00 |  | 100% | 0 of 1 |  |  |"]
    assert threads.summary(rows) == ("2 threads, geometric means over 2 models: Ingot 1.22, OpenVINO 1.50; FMAs "
                                     "in registers 1.20; Ingot in free rounds 2.00 (1 models).")
    assert threads.summary(rows[1:]).endswith("FMAs in registers 1.00.")


@pytest.mark.parametrize("argv, message", [(["--models", "none_such"], "no model none_such; known: "),
                                           (["--threads", "1"], "--threads 1: 2 or more are compared with one")])
def test_threads_refuse(argv, message, capsys):
    with pytest.raises(SystemExit) as stop:
        script("threads").main(argv)
    assert stop.value.code == 2 and message in capsys.readouterr().err


def test_threads_in_turns(tmp_path, capfd):
    name, file = script("measure").Models().names()[0] if not tiny_names else tiny_names[0], tmp_path / "table.md"
    assert script("threads").main(["--models", name, "--seconds", "0", "--markdown", str(file)]) == 0
    cells = next(line for line in file.read_text().splitlines() if line.startswith(f"| {name} |")).split("|")
    assert 0 <= float(cells[2]) < 100 and 0 <= float(cells[3]) < 100  # 0.00 where other work holds a core
    assert f"{name}: " in capfd.readouterr().err


# ---------------------------------------------------------------- matrix products

def test_shapes_of_products(capsys):
    gemm = script("gemm")
    assert gemm.extents("256") == (256, 256, 256) and gemm.extents("1x640x128") == (1, 640, 128)
    with pytest.raises(SystemExit) as stop:
        gemm.main(["--shapes", "8x8"])
    assert stop.value.code == 2 and "expected N or MxKxN, not '8x8'" in capsys.readouterr().err


def test_tables_of_products():
    gemm = script("gemm")
    rows = [gemm.Row("64", 1, {"Ingot": 90.0, "numpy": 60.0}, 100.0, 0.9, 0.95, 1e-7),
            gemm.Row("1x8x8", 2, {"Ingot": 2.5, "numpy": 5.0}, 100.0, 0.0125, 0.02, 0.0)]
    assert (rows[0].ratio, rows[1].ratio) == (1.5, 0.5)
    lines = gemm.report(rows, "A machine.", True).splitlines()
    assert "| 64 cubed | 90.0 | 60.0 | 90% | 95% | 1.50 | 1e-07 |" in lines
    assert "| 1x8x8 | 2.50 | 5.00 | 1% | 2% | 0.50 | 0e+00 |" in lines
    assert "Threads: 2; FMAs in registers: 100 GFLOP/s." in lines


@pytest.mark.parametrize("options", [[], ["--activations"]])
def test_products(options, tmp_path, monkeypatch, capsys):
    gemm, file = script("gemm"), tmp_path / "table.md"
    assert gemm.main(["--shapes", "8", "1x12x5", "--seconds", "0", "--markdown", str(file), *options]) == 0
    cells = next(line for line in file.read_text().splitlines() if line.startswith("| 1x12x5 |")).split("|")
    assert float(cells[-2]) < 1e-5
    monkeypatch.setattr(gemm, "installed", lambda: [])
    rows = [gemm.Row("8", 1, {"Ingot": 1.0, "numpy": 1.0}, 9.0, 0.1, 0.1, 0.0)]
    monkeypatch.setattr(gemm, "run_worker", lambda args, threads: rows)
    assert gemm.main(["--shapes", "8"]) == 0
    assert "skipped: OpenVINO is not installed" in capsys.readouterr().err


# ---------------------------------------------------------------- calibrate.py

def test_the_table_of_targets_is_written_as_it_is():
    calibrate = script("calibrate")
    assert calibrate.written(calibrate.MEASURED) == calibrate.MEASURED_FILE.read_text()


def test_a_measured_row_keeps_terms_of_models_and_what_hardly_differs():
    calibrate = script("calibrate")
    found = {"clock": 3.5e9, "fma_latency": 4.01, "loads": 1.98765}
    row = calibrate.row("x86-64-v4-zen4", found, {"l1_bytes": 49152}, "here")
    assert row["clock"] == calibrate.Cost(3500000000, "cycles/second", "here")
    assert row["l1_bytes"].value == 49152 and row["stream.beside"].value == 1
    assert not {"fma_latency", "loads"} & row.keys()
    assert 'Cost(49152, "bytes", DATA_SHEET)' in calibrate.written({"x": row})


def test_calibrate_shows_what_it_measures(monkeypatch, capsys):
    calibrate, roofline = script("calibrate"), importlib.import_module("ingot.runtime.roofline")
    monkeypatch.setattr(roofline, "SAMPLES", 1)
    monkeypatch.setattr(calibrate, "LARGE", 16 << 20)
    calibrate.main(["--target", "c", "--on", "a test"])
    printed = capsys.readouterr().out
    assert "not measured: " in printed and '    "c": {' in printed
    for name in ("clock", "multiply_adds", "fma_latency", "l2_read", "memory_read", "fold"):
        assert f"\n{name} " in printed


# ---------------------------------------------------------------- time to compile

def test_compile_time_of_made_up_networks(capsys):
    script("compile_time").main(["--models", "chain3", "mixed20", "--warm", "--no-build"])
    rows = [line.split() for line in capsys.readouterr().err.splitlines()]
    assert [(r[0], r[5]) for r in rows] == [("chain3", "-"), ("mixed20", "-")]
    assert all(float(value) >= 0 for r in rows for value in (*r[1:5], *r[6:]))
    assert int(rows[0][1]) == 3 and 20 <= int(rows[1][1]) <= 26


def test_steps_of_a_decoder(capsys):
    script("kv_cache").main(["--layers", "1", "--width", "64", "--rounds", "1"])
    rows = [line.split("|") for line in capsys.readouterr().out.splitlines() if line.startswith(("| decode", "| prefill"))]
    assert len(rows) == 4 and all(float(row[6]) < 1e-5 for row in rows)
