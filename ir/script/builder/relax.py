"""The module of the builder's names R.*, which are those of relax_frames.R."""
from . import relax_frames as _frames

IRBuilder = _frames.IRBuilder
__path__ = []  # scripts import its parts, as `relax.ir`: this


def __getattr__(name):
    return getattr(_frames.R, name)


def __dir__():
    return sorted({*dir(_frames.NAMES), *_frames.ROWS})
