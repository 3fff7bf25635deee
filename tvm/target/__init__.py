"""tvm.target: Target, and the functions that older scripts make targets with; tvm.target.codegen."""
from __future__ import annotations

from ...codegen.target import *  # noqa: F401,F403
from ...codegen.target import Target
from ..absent import no_attribute
from . import codegen  # noqa: F401


def cuda(model=None, arch=None, options=None):
    """The Target "cuda". model: accepted, of no effect; arch: as "sm_80"; options: flags of a target string, as a text
    or a list."""
    words = ["cuda", *([f"-arch={arch}"] if arch else ()), *([f"-model={model}"] if model else ())]
    return Target(" ".join([*words, *_words(options)]))


# The flags of boards that arm_cpu has names for: others are those of this machine's processor.
_BOARDS = {
    **dict.fromkeys(("rasp3b", "pynq"), "-mtriple=armv7l-linux-gnueabihf"), "rasp4b": "-mtriple=armv7l-linux-gnueabihf",
    **dict.fromkeys(("rasp3b64", "rk3399", "ultra96", "pixel2", "mate10", "mate10pro", "p20", "p20pro", "mi9"),
                    "-mtriple=aarch64-linux-gnu"),
    "rasp4b64": "-mtriple=aarch64-linux-gnu -mcpu=cortex-a72"}


def arm_cpu(model="unknown", options=None):
    """The Target of a board with Arm's processor, such as "rasp4b64"."""
    return Target(" ".join(("llvm", f"-model={model}", "-device=arm_cpu", _BOARDS.get(model, ""), *_words(options))))


def _of_kind(kind, device=None):
    def make(model="unknown", options=None):
        words = [kind, f"-model={model}", *([f"-device={device}"] if device else ()), *_words(options)]
        return Target(" ".join(words))
    make.__doc__ = f"The Target {kind!r}" + (f" of the device {device}." if device else ".")
    return make


def _words(options):
    return options.split() if isinstance(options, str) else options or ()


rocm, riscv_cpu = _of_kind("rocm"), _of_kind("riscv64-linux-gnu")
mali, intel_graphics, bifrost, adreno = (_of_kind("opencl", name) for name in (
    "mali", "intel_graphics", "bifrost", "adreno"))


def create(target):
    """The Target that a name or a target string means."""
    return Target(target)


def __getattr__(name):
    raise no_attribute(__name__, name)
