"""Profiles of kernels: what their rows say, and the machine's limits. Nothing here depends on how fast it is."""
import numpy as np
import pytest

import ingot
from ingot.runtime import roofline
from ingot.runtime.profile import KernelTime, Profile, Work
from ingot.runtime.roofline import Roofline, measure_roofline
from networks import conv_net, embedding_net

LIMITS = Roofline(100e9, ((1000, 50e9), (10_000, 10e9)))


def test_rows_of_a_network():
    with ingot.compile(conv_net(), name="cnn", threads="none") as library:
        x = np.random.default_rng(0).random((1, 3, 13, 11), np.float32)
        expected = library(x)
        profile = library.profile(x, repeat=3)
        np.testing.assert_array_equal(library(x), expected)
        calls, weights = len(library.model.program.calls), library.model.program.weights_bytes
        with pytest.raises(ValueError, match="repeat must be at least 1, not 0"):
            library.profile(x, repeat=0)
    assert sum(k.calls for k in profile.kernels) == calls
    assert sorted(profile.kernels, key=lambda k: -k.seconds) == list(profile.kernels)
    assert all(k.kernel.startswith("cnn_") and k.roofline > 0 for k in profile.kernels)
    assert profile.seconds == pytest.approx(sum(k.seconds for k in profile.kernels))
    assert sum(k.work.flops for k in profile.kernels) > library.model.flops
    assert 0 < sum(k.work.weights for k in profile.kernels) <= weights
    assert any("conv2 (Conv)" in k.nodes for k in profile.kernels)


@pytest.mark.parametrize("weights", ["array", "file"])
def test_with_symbolic_dimensions_and_other_weights(weights):
    with ingot.compile(conv_net("batch"), name="cnn", threads="none", weights=weights) as library:
        one, three = (library.profile(np.ones((n, 3, 13, 11), np.float32), repeat=1) for n in (1, 3))
    assert sum(k.work.flops for k in three.kernels) == 3 * sum(k.work.flops for k in one.kernels)


def test_a_lookup_touches_its_rows_only():
    with ingot.compile(embedding_net(), name="cnn", threads="none") as library:
        profile = library.profile(np.zeros((2, 5), np.int64), np.ones((5, 7), np.float32), repeat=1)
    assert sum(k.work.weights for k in profile.kernels) <= 11 * 7 * 4
    assert "embed (Gather)" in " ".join(k.nodes for k in profile.kernels)


def test_table():
    row = KernelTime("net_conv1", "conv1 (Conv)", 2, 3e-3, Work(300_000_000, 1_000_000, 2_000_000), 1e-3)
    small = KernelTime("net_relu", "relu (Relu)", 1, 1e-3, Work(0, 0, 1_000_000), 0.0)
    from rich.console import Console
    console = Console(width=120)
    with console.capture() as captured:
        console.print(Profile((row, small), 4e-3, LIMITS).table("net_", top=1))
    lines = [line.split() for line in captured.get().splitlines()]
    assert ["conv1", "2", "3.0000", "75.0%", "100.0", "3.000", "1.0", "33%", "conv1", "(Conv)"] in lines
    assert ["all", "3", "4.0000", "100.0%", "75.0", "4.000", "1.0", "25%"] in lines
    assert not any("relu" in line for line in lines)


def test_limits():
    assert (LIMITS.bandwidth(1000), LIMITS.bandwidth(1001), LIMITS.bandwidth(10 ** 9)) == (50e9, 10e9, 10e9)
    assert LIMITS.seconds(1000, 0, 10, 0) == pytest.approx(10e-9)  # of FMAs
    assert LIMITS.seconds(0, 100, 100, 5000) == pytest.approx(12e-9)  # weights stream, the rest is near
    assert str(LIMITS).startswith("100 GFLOP/s, reading 50 GB/s of ")


def test_this_machine_has_limits():
    limits = measure_roofline()
    assert all(np.isfinite(rate) and rate > 0 for rate in (limits.peak, *(rate for _, rate in limits.reads)))
    assert [size for size, _ in limits.reads] == sorted(size for size, _ in limits.reads)
    assert measure_roofline() is limits


def test_a_slow_moment_is_no_measure(monkeypatch):
    """An action whose first run alone is slow runs as often as a sample asks for, not once."""
    now, runs = [0.0], []
    monkeypatch.setattr(roofline.time, "perf_counter", lambda: now[0])

    def action(times):
        now[0] += roofline.SAMPLE_SECONDS * (0.01 * times + (not runs))
        runs.append(times)
        return times
    times, rate = roofline._sampled(action, 1)
    assert times == 128 and rate == pytest.approx(100 / roofline.SAMPLE_SECONDS)
