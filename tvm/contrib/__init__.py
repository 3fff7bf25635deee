"""Small aids that scripts import from tvm.contrib."""
from importlib import import_module as _import_module

from .. import absent as _absent, places as _places


def __getattr__(name):
    if f"contrib.{name}" in _places.OWN:
        return _import_module(f"{__name__}.{name}")
    raise _absent.no_attribute(__name__, name)
