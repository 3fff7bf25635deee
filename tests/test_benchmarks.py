"""The benchmark's tables, its way of measuring, and one run on a tiny model. Nothing here depends on how fast it is."""
import importlib.util
import math
import sys

import numpy as np
import pytest

from networks import ROOT, needs_zoo, tiny_names

SPEC = importlib.util.spec_from_file_location("benchmark_zoo", ROOT / "benchmarks" / "zoo.py")
bench = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = bench  # dataclasses look their module up
SPEC.loader.exec_module(bench)

FAST = bench.Row("small", 1, 2.0, 4.0, 20.0, 0.5, 1.5, 3e-7, 1_500_000, 1_500_000)
SLOW = bench.Row("large", 1, 1234.5, 617.25, None, 9.5, 30.0, 0.0, 44_000_000, 40_000_000)


def test_ratios():
    assert (FAST.ratio, SLOW.ratio, SLOW.arena_ratio) == (2.0, 0.5, 1.1)
    assert bench.geometric_mean([2.0, 0.5]) == pytest.approx(1.0)
    assert bench.geometric_mean([]) == 1.0


@pytest.mark.parametrize("ms, text", [(1234.5, "1234"), (99.94, "99.9"), (1.2345, "1.23"), (0.012345, "0.0123")])
def test_numbers_have_three_digits(ms, text):
    assert bench._number(ms) == text


def test_markdown():
    text = bench.markdown([FAST, SLOW], "A machine.")
    lines = text.splitlines()
    assert lines[0] == "A machine." and "One thread, geometric mean of the ratio over 2 models: 1.00:" in lines
    table = [line.split("|")[1:-1] for line in lines if line.startswith("|")]
    assert {len(cells) for cells in table} == {10}
    assert [cell.strip() for cell in table[3]] == [
        "large", "1234", "617", "0.50", "", "9.5", "30.0", "0e+00", "44.00", "1.10"]
    assert "naive" not in bench.markdown([SLOW], "A machine.")


def test_markdown_has_a_table_per_thread_count():
    two = bench.Row("small", 2, 1.0, 4.0, None, 0.5, 1.5, 3e-7, 1, 1)
    text = bench.markdown([FAST, two], "A machine.")
    assert "One thread, geometric mean of the ratio over 1 models: 2.00" in text
    assert "2 threads, geometric mean of the ratio over 1 models: 4.00" in text


def test_the_terminal_table_fits_80_columns():
    from rich.console import Console
    console = Console(width=80, file=None, record=True, quiet=False)
    with console.capture() as captured:
        console.print(bench.rich_table([FAST, SLOW], naive=True))
    assert "…" not in captured.get() and "1234" in captured.get()


def test_replace_between():
    text = "before\n<a>\nold\n<b>\nafter\n"
    assert bench.replace_between(text, ("<a>", "<b>"), "new") == "before\n<a>\nnew\n<b>\nafter\n"
    with pytest.raises(ValueError, match="no <c>"):
        bench.replace_between(text, ("<c>", "<b>"), "new")


def test_the_readme_has_the_markers():
    text = (ROOT / "README.md").read_text()
    assert bench.replace_between(text, bench.MARKERS, "x") != text


def test_largest_error():
    one = np.array([1.0, -4.0], np.float32)
    assert bench.largest_error([one], [one]) == 0.0
    assert bench.largest_error([one + 1], [one]) == 0.25
    assert bench.largest_error([one * np.nan], [one]) == math.inf
    assert bench.largest_error([one[:1]], [one]) == math.inf
    with pytest.raises(ValueError):
        bench.largest_error([one], [one, one])


def test_actions_are_timed_in_turns(monkeypatch):
    monkeypatch.setattr(bench, "SAMPLE_SECONDS", 0.0)
    order = []
    times = bench.interleaved([lambda: order.append("a"), lambda: order.append("b")], seconds=0.0)
    assert [len(t) for t in times] == [bench.LEAST_ROUNDS] * 2
    # first runs, calibration; then a warm run and a timed one each
    assert "".join(order) == "abab" + "aabb" * bench.LEAST_ROUNDS


def test_the_machine_is_named():
    text = bench.machine()
    assert "Ingot" in text and "onnxruntime" in text and "target" in text and "\n" not in text


def test_light_networks_stand_in_for_the_zoo(tmp_path):
    models = bench.Models(tmp_path)
    assert "light_squeezenet" in models.names()
    (x,) = models.inputs(models.load("light_squeezenet")).values()
    assert x.shape == (1, 3, 224, 224) and x.dtype == np.float32


def test_unknown_models_are_refused(capsys):
    with pytest.raises(SystemExit) as stop:
        bench.main(["--models", "no_such_model"])
    assert stop.value.code == 2 and "no_such_model" in capsys.readouterr().err


def test_without_onnxruntime_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(bench.importlib.util, "find_spec", lambda name: None)
    assert bench.main([]) == 0
    assert "onnxruntime is not installed" in capsys.readouterr().out


@needs_zoo
def test_one_run(tmp_path, capsys):
    pytest.importorskip("onnxruntime")
    file = tmp_path / "table.md"
    assert bench.main(["--models", tiny_names[0], "--seconds", "0", "--naive", "--markdown", str(file)]) == 0
    row = next(line for line in file.read_text().splitlines() if line.startswith(f"| {tiny_names[0]} |"))
    assert float(row.split("|")[8]) < 1e-4
    assert tiny_names[0] in capsys.readouterr().out
