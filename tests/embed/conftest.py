"""Exported folders, made once for all tests that use them."""
import shutil
from types import SimpleNamespace

import pytest

import ingot
from networks import load


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """exported(name, **options of ingot.compile) -> the CompiledLibrary, and the folder it wrote. Read only."""
    base, made = tmp_path_factory.mktemp("exported"), {}

    def export(name, **options):
        options = {"threads": "none", **options}
        key = (name, *sorted(options.items()))
        if key not in made:
            library = ingot.compile(load(name), name=name, **options)
            made[key] = SimpleNamespace(library=library, folder=library.export(base / f"{len(made)}" / name))
        return made[key]
    yield export
    shutil.rmtree(base)
