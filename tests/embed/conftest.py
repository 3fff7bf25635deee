"""Exported folders, made once for all tests that use them."""
import shutil
from types import SimpleNamespace

import pytest

import ingot
from networks import conv_net, embedding_net, light_case, zoo


def load(name):
    """The network `name` as ingot.compile takes it: one made by tests/networks.py, a light_ one, or one of the zoo."""
    made_here = {"conv_net": conv_net, "embedding_net": embedding_net}
    if name in made_here:
        return made_here[name]()
    return light_case(name.removeprefix("light_"))[0] if name.startswith("light_") else zoo().load(name)


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
