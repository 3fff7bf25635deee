"""A folder of files that appears in one step or not at all, whatever ends the process that writes it."""
from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path

# A folder that is being written: hidden, beside its place, with the number of the process that writes it.
_STAGING = re.compile(r"\.ingot-(\d+)-[0-9a-f]{8}")


class PackageError(ValueError):
    """The output folder cannot be written; nothing was."""


def check_folder(folder):
    """Raise PackageError unless `folder` can be created or is an empty directory."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise PackageError(f"{folder} exists and is not a folder; choose another output folder")
    if folder.is_dir() and any(folder.iterdir()):
        raise PackageError(f"{folder} is not empty; remove it or choose another output folder")
    parent = next(p for p in folder.absolute().parents if p.exists())
    if not os.access(folder if folder.is_dir() else parent, os.W_OK):
        raise PackageError(f"{folder} cannot be written: no permission in {parent}")


def write_folder(folder, files):
    """Write `files`, {name: text, bytes or what gives these by pieces()}, into a new folder beside `folder`, then
    rename it into place.

    Removes what killed processes left beside it. Raises PackageError, leaving everything as it was.
    """
    check_folder(folder)
    place, created = Path(folder).resolve(), []
    staging = place.parent / f".ingot-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        for parent in reversed([p for p in place.parents if not p.exists()]):
            with suppress(FileExistsError):  # another process made it meanwhile
                parent.mkdir()
                created.append(parent)
        _remove_stale(place.parent)
        staging.mkdir(mode=0o700)
        with _locked(staging):
            for name, content in files.items():
                (staging / name).parent.mkdir(parents=True, exist_ok=True)
                _write(staging / name, content)
            os.chmod(staging, 0o755)
            os.rename(staging, place)  # replaces an empty directory
    except BaseException as error:
        shutil.rmtree(staging, ignore_errors=True)
        for parent in reversed(created):
            with suppress(OSError):  # another process uses it
                parent.rmdir()
        if isinstance(error, OSError):
            raise PackageError(f"{folder} cannot be written: {error.strerror or error}") from error
        raise


def _write(path, content):
    if hasattr(content, "pieces"):
        with open(path, "wb") as file:
            file.writelines(content.pieces())
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def _locked(folder):
    """Hold a lock on a folder that ends with the process at the latest; none where the file system has no locks."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _remove_stale(parent):
    """Remove the folders under `parent` that processes were writing when they were killed.

    The number of a process says that it is gone on this machine; the lock says so of one in another container too.
    """
    with suppress(OSError):  # a folder that may not be listed
        for path in parent.iterdir():
            match = _STAGING.fullmatch(path.name)
            if match and path.is_dir() and not _is_alive(int(match[1])) and _is_unlocked(path):
                shutil.rmtree(path, ignore_errors=True)  # which removes nothing through a symbolic link


def _is_alive(process):
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it is another user's
        return True
    return True


def _is_unlocked(folder):
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
