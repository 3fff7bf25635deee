"""tvm.contrib.popen_pool: functions run in processes of their own."""
from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, wait


class PopenPoolExecutor:
    """submit(f, *args) gives a future; f and its arguments are pickled. max_workers: how many processes there are at a
    time; timeout: seconds that map_with_error_catching waits for each; initializer: called with initargs in each first."""

    def __init__(self, max_workers=None, timeout=None, initializer=None, initargs=()):
        self._timeout = timeout
        self._pool = ProcessPoolExecutor(max_workers, multiprocessing.get_context("spawn"), initializer, initargs)

    def submit(self, fn, *args, **kwargs):
        return self._pool.submit(fn, *args, **kwargs)

    def map_with_error_catching(self, fn, iterator):
        """For each element, in order, the future of fn(element), done or waited for as long as `timeout` says."""
        futures = [self.submit(fn, value) for value in iterator]
        for future in futures:
            wait([future], self._timeout)
            yield future

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._pool.shutdown()


__all__ = ["PopenPoolExecutor"]
