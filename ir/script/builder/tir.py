"""The module of the builder's names T.*, which are those of tir_frames.T."""
from . import tir_frames as _frames

IRBuilder = _frames.IRBuilder
__path__ = []  # scripts import its parts, as `tir.ir`: this


def __getattr__(name):
    return getattr(_frames.T, name)


def __dir__():
    return sorted({*dir(_frames.NAMES), *_frames.ROWS})
