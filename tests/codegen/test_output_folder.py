"""Output folders are whole or absent: full disks, signals, killed processes."""
import errno
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from ingot import cli
from ingot.codegen.output_folder import PackageError, write_folder
from networks import conv_net

FILES = {"a.c": "int a;\n", "b.bin": bytes(100_000), "c.c": "int c;\n"}
# Writes a folder, stops at README.md, and says so; the parent then decides what becomes of it.
SLOW = """
import sys, time
from pathlib import Path
from ingot import cli
from ingot.codegen import output_folder
write = Path.write_bytes
def slow(self, data):
    if self.name == "README.md":
        print("writing", flush=True)
        time.sleep(60)
    return write(self, data)
Path.write_bytes = slow
sys.exit(cli.main(["compile", *sys.argv[1:], "--threads", "none"]))
"""


@pytest.fixture
def model(tmp_path):
    onnx.save(conv_net(), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def _heed_signals():
    """The parent of the tests may ignore some signals, as shells do for background jobs."""
    for number in (*cli.ENDING, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def slow_compile(model, output, *wrapper):
    """A process that is in the middle of writing `output`."""
    process = subprocess.Popen([*wrapper, sys.executable, "-c", SLOW, str(model), "-o", str(output)],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_heed_signals)
    assert process.stdout.readline() == "writing\n"
    return process


@pytest.mark.parametrize("number", ["ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EACCES", "EIO"])
@pytest.mark.parametrize("call", ["write_bytes", "mkdir", "chmod", "rename"])
@pytest.mark.parametrize("exists", [False, True])
def test_an_error_leaves_everything_as_it_was(tmp_path, monkeypatch, number, call, exists):
    reason = os.strerror(getattr(errno, number))

    def fail(path, *args, **options):
        raise OSError(getattr(errno, number), reason, str(path))
    output = tmp_path / "new" / "out"
    if exists:
        output.mkdir(parents=True)
    monkeypatch.setattr(Path if hasattr(Path, call) and call in ("write_bytes", "mkdir") else os, call, fail)
    with pytest.raises(PackageError) as caught:
        write_folder(output, FILES)
    assert str(caught.value) == f"{output} cannot be written: {reason}"
    assert names(tmp_path) == (["new"] if exists else []) and (not exists or names(tmp_path / "new") == ["out"])
    assert not exists or names(output) == []


def test_a_former_output_is_kept(tmp_path):
    write_folder(tmp_path / "out", FILES)
    with pytest.raises(PackageError, match="is not empty"):
        write_folder(tmp_path / "out", {"a.c": "other"})
    assert names(tmp_path) == ["out"] and (tmp_path / "out" / "a.c").read_text() == FILES["a.c"]


def test_a_limit_of_file_sizes(model, tmp_path):
    """The limit is of the operating system; nothing is patched. -B: compiled modules would be cut off, too."""
    limit = 2000
    done = subprocess.run(
        [sys.executable, "-B", "-m", "ingot", "compile", str(model), "-o", str(tmp_path / "deep" / "out")],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)), capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == f"ingot: error: {tmp_path / 'deep' / 'out'} cannot be written: File too large\n"
    assert names(tmp_path) == ["net.onnx"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_removes_what_was_written(model, tmp_path, number):
    process = slow_compile(model, tmp_path / "deep" / "out")
    assert names(tmp_path) == ["deep", "net.onnx"]
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 128 + number and error == ""
    assert names(tmp_path) == ["net.onnx"]


def test_a_signal_that_is_ignored_stays_so(model, tmp_path):
    process = slow_compile(model, tmp_path / "out", "nohup")
    process.send_signal(signal.SIGHUP)
    process.terminate()  # of two signals Python handles the one with the lower number, SIGHUP, first
    assert process.wait(timeout=60) == 128 + signal.SIGTERM
    process.communicate()


def test_handlers_are_put_back(model, tmp_path):
    before = [signal.getsignal(number) for number in cli.ENDING]
    assert cli.main(["compile", str(model), "-o", str(tmp_path / "out"), "--threads", "none"]) == 0
    assert [signal.getsignal(number) for number in cli.ENDING] == before


def test_what_a_killed_process_left_is_removed_by_the_next(model, tmp_path):
    living = slow_compile(model, tmp_path / "out")
    killed = slow_compile(model, tmp_path / "out")
    killed.kill()
    killed.communicate()
    assert len([name for name in names(tmp_path) if name.startswith(".ingot-")]) == 2
    write_folder(tmp_path / "out", FILES)
    own = [f for f in names(tmp_path) if f.startswith(f".ingot-{living.pid}-")]
    assert names(tmp_path) == own + ["net.onnx", "out"]
    living.terminate()
    living.communicate()
    assert names(tmp_path) == ["net.onnx", "out"]


def test_a_locked_folder_is_kept_where_its_process_is_not_seen(tmp_path):
    """As of a process in another container: its number says nothing here."""
    import fcntl
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    other = tmp_path / f".ingot-{gone.pid}-0123abcd"
    other.mkdir()
    handle = os.open(other, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    write_folder(tmp_path / "out", FILES)
    assert other.is_dir()
    os.close(handle)
    write_folder(tmp_path / "out2", FILES)
    assert not other.exists()


def test_a_folder_of_a_living_process_is_kept_before_it_is_locked(tmp_path):
    (tmp_path / f".ingot-{os.getpid()}-0123abcd").mkdir()
    write_folder(tmp_path / "out", FILES)
    assert names(tmp_path) == [f".ingot-{os.getpid()}-0123abcd", "out"]


def test_folders_of_other_names_are_kept(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    kept = [".ingot-mine", f".ingot-{gone.pid}", f".ingot-{gone.pid}-notes678", f"ingot-{gone.pid}-0123abcd"]
    for name in kept:
        (tmp_path / name).mkdir()
    (tmp_path / f".ingot-{gone.pid}-89abcdef").write_text("a file")
    write_folder(tmp_path / "out", FILES)
    assert names(tmp_path) == sorted([*kept, f".ingot-{gone.pid}-89abcdef", "out"])


def test_a_symbolic_link_to_an_empty_folder_is_followed(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to("disk")
    write_folder(tmp_path / "out", FILES)
    assert (tmp_path / "out").is_symlink() and names(tmp_path / "disk") == sorted(FILES)
    assert names(tmp_path) == ["disk", "out"]


@pytest.mark.parametrize("call", ["write_bytes", "replace"])
def test_saved_outputs_are_whole_or_absent(tmp_path, monkeypatch, call):
    import numpy as np
    cli._save({"y": np.zeros(3), "a/b": np.ones(2)}, tmp_path)

    def fail(path, *args):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))
    monkeypatch.setattr(Path if call == "write_bytes" else os, call, fail)
    with pytest.raises(cli.UsageError, match=r"y\.npy cannot be written: No space left on device"):
        cli._save({"y": np.ones(3)}, tmp_path)
    assert names(tmp_path) == ["a_b.npy", "y.npy"] and not np.load(tmp_path / "y.npy").any()
