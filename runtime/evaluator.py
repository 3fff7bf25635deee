"""time_evaluator: how long a function of a module takes."""
from __future__ import annotations

import time

from .timing import Timing

_CACHE_BYTES = 64 << 20


class BenchmarkResult(Timing):
    """results: seconds of a call, one number per repeat; mean, median, min, max and std are of these."""

    @property
    def results(self):
        return self.times

    def __str__(self):
        return ("Execution time summary:\n" + " ".join(f"{n:^12}" for n in ("mean (ms)", "median (ms)", "max (ms)",
                                                                          "min (ms)", "std (ms)")) + "\n" +
                " ".join(f"{getattr(self, n) * 1e3:^12.4f}" for n in ("mean", "median", "max", "min", "std")))


def time_evaluator(func, number=10, repeat=1, min_repeat_ms=0, cooldown_interval_ms=0, repeats_to_cooldown=1,
                   f_preproc=""):
    """A function that times `func` (a PackedFunc) with the arguments that it is given and returns a BenchmarkResult.

    One call that does not count comes first. Each of the `repeat` measurements is the mean of `number` calls, or of
    more where these take less than min_repeat_ms. After every repeats_to_cooldown measurements there is a pause.
    f_preproc: "cache_flush_cpu_non_first_arg" fills the caches with something else before each measurement.
    """
    if number < 1 or repeat < 1 or repeats_to_cooldown < 1:
        raise ValueError(f"number, repeat and repeats_to_cooldown must be at least 1, not {number}, {repeat} and "
                         f"{repeats_to_cooldown}")
    if f_preproc not in ("", "cache_flush_cpu_non_first_arg"):
        raise ValueError(f'f_preproc must be "" or "cache_flush_cpu_non_first_arg", not {f_preproc!r}')

    def evaluate(*args):
        call, _keep = func.prepare(args)
        call()
        results, count = [], number
        for n in range(repeat):
            if f_preproc:
                bytearray(_CACHE_BYTES).count(1)
            seconds = _seconds(call, count)
            while seconds * 1e3 < min_repeat_ms:
                # As many as should do, a little more, and at most ten times as many: a first guess may be far off.
                wanted = count * min_repeat_ms * 1.1e-3 / max(seconds, 1e-9)
                count = int(min(max(wanted, count + 1), count * 10))
                seconds = _seconds(call, count)
            results.append(seconds / count)
            if cooldown_interval_ms and (n + 1) % repeats_to_cooldown == 0:
                time.sleep(cooldown_interval_ms / 1e3)
        return BenchmarkResult(tuple(results))

    return evaluate


def _seconds(call, count):
    start = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - start
