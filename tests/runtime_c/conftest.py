"""Fixtures over c_builds: every build of the runtime, the compilers, and what ops.c computes."""
import shutil
from pathlib import Path

import numpy as np
import pytest

from c_builds import BUILDS, operands, read_records


@pytest.fixture(scope="session", params=BUILDS, ids=lambda build: build.name)
def build(request):
    """Every build that this machine can run."""
    if reason := request.param.missing():
        pytest.skip(reason)
    return request.param


@pytest.fixture(params=["gcc", "clang"])
def compiler(request):
    """The native compilers."""
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return request.param


@pytest.fixture(scope="session")
def abc():
    return operands()


@pytest.fixture(scope="session")
def results(build, abc, tmp_path_factory):
    """name -> float32 array: what ops.c of this build makes of the operands."""
    folder = tmp_path_factory.mktemp(build.name)
    build.compile([Path(__file__).with_name("ops.c")], folder / "ops")
    np.concatenate(abc).tofile(folder / "operands")
    build.run(folder / "ops", folder / "operands", folder / "results")
    return read_records((folder / "results").read_bytes())
