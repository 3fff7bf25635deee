"""tvm.target: Target, and the functions that older scripts make targets with."""
from __future__ import annotations

from ..codegen.target import *  # noqa: F401,F403
from ..codegen.target import Target
from .absent import no_attribute


def cuda(model=None, arch=None, options=None):
    """The Target "cuda". model: accepted, of no effect; arch: as "sm_80"; options: flags of a target string, as a text
    or a list."""
    words = ["cuda", *([f"-arch={arch}"] if arch else ()), *([f"-model={model}"] if model else ())]
    return Target(" ".join([*words, *(options.split() if isinstance(options, str) else options or ())]))


def create(target):
    """The Target that a name or a target string means."""
    return Target(target)


def __getattr__(name):
    raise no_attribute(__name__, name)
