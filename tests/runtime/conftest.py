import pytest


@pytest.fixture(autouse=True, scope="session")
def object_cache(tmp_path_factory):
    """An object cache of the test run's own, so that nothing of a former run counts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INGOT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield
