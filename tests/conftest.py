"""Its presence puts tests/ on the import path, so that every test finds helpers such as `interp`."""
import os
import shutil

import pytest

# Tests run beside compilers and each other: OpenMP threads that spin while they wait would take the cores from them.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def pytest_configure(config):
    config.addinivalue_line("markers", "optimization(level): the flag with which a module's networks are built")


@pytest.fixture(autouse=True, scope="module")
def quick_builds(request):
    """Tests of values build without most optimizations, in a third of the time, or as their module's mark says: with
    all, as users do ("-O3"), or with none, where vectors are plain C that takes long to optimize ("-O0")."""
    mark = request.node.get_closest_marker("optimization")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INGOT_CFLAGS", mark.args[0] if mark else "-O1")
        yield


@pytest.fixture(autouse=True, scope="session")
def object_cache(tmp_path_factory):
    """The object cache lies in the test run's own folder, which its processes share: the user's stays as it is."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INGOT_CACHE_DIR", str(base / "object_cache"))
        patch.setenv("INGOT_KERNEL_CACHE", "0")  # what tests change in the compiler must reach every kernel
        # Every `python -m ingot` of a test finds the modules compiled, whether or not this run may write beside them.
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        patch.setenv("PYTHONPYCACHEPREFIX", str(base / "pycache"))
        yield


def pytest_sessionfinish(session):
    """Parsed headers are large: they go when all processes have ended, and the objects with them."""
    if not hasattr(session.config, "workerinput"):
        for cache in ("object_cache", "pycache"):
            shutil.rmtree(session.config._tmp_path_factory.getbasetemp() / cache, ignore_errors=True)
