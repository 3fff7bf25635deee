"""tvm.contrib.download: files from the network, kept where they were fetched to."""
from __future__ import annotations

import os
import shutil
import tempfile
import urllib.request
from pathlib import Path


def download(url, path, overwrite=False, size_compare=False, retries=3):
    """Fetch a file to `path`, unless it is there. overwrite: in any case; size_compare: where its size differs from the
    server's. Raises the OSError of the last of `retries` tries; nothing half fetched stays."""
    path = Path(path).resolve()
    if path.is_file() and not overwrite and not (size_compare and path.stat().st_size != _size(url)):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ingot-download-") as folder:
        fetched = Path(folder, path.name)
        for left in reversed(range(retries)):
            try:
                urllib.request.urlretrieve(url, fetched)
                break
            except OSError:
                if not left:
                    raise
        shutil.move(fetched, path)


def download_testdata(url, relpath, module=None, overwrite=False):
    """The path of a file of a tutorial, fetched at the first call to the folder that TVM_TEST_DATA_ROOT_PATH names,
    ~/.tvm_test_data, below the folder (or folders) `module`."""
    root = Path(os.environ.get("TVM_TEST_DATA_ROOT_PATH") or "~/.tvm_test_data").expanduser()
    path = root.joinpath(*([module] if isinstance(module, str) else module or ()), relpath)
    download(url, path, overwrite)
    return str(path)


def _size(url):
    """The size of a file as the server says it."""
    with urllib.request.urlopen(urllib.request.Request(url, method="HEAD")) as answer:
        return int(answer.headers.get("Content-Length", -1))
