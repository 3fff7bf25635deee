"""Files of results that tests are compared with, and that they update on request, also in several processes."""
import fcntl
import json
import os
from contextlib import contextmanager


@contextmanager
def locked(path):
    """Nobody else is inside for a file of the same folder."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def write(path, value):
    """In one step: others read it meanwhile."""
    new = path.with_suffix(f".{os.getpid()}")
    new.write_text(json.dumps(value, indent=1) + "\n")
    os.replace(new, path)
