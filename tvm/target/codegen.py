"""tvm.target.codegen: what compilers know of targets. There is no LLVM here, but rows of targets."""
from __future__ import annotations

from ...codegen.target import Target
from ...codegen.toolchains import machine


def target_has_features(cpu_features, target=None):
    """Whether a target, by default the current one or this machine's, has an instruction set, or all of a list, by the
    names of compilers or of /proc/cpuinfo: "avx512vnni", "avx512_vnni"."""
    target = Target.get(target) if target is not None else Target.current() or Target.get("host")
    said = target.attrs.get("mattr", ())
    there = {_plain(word) for word in target.isa} | {_plain(word[1:]) for word in said if word.startswith("+")}
    wanted = [cpu_features] if isinstance(cpu_features, str) else cpu_features
    return all(_plain(feature) in there for feature in wanted)


def llvm_version_major(allow_none=False):
    """None: code is C. RuntimeError unless that is allowed."""
    if not allow_none:
        raise RuntimeError("there is no LLVM here: programs become C, which the system's compiler builds")
    return None


def llvm_get_system_triple():
    """The triple of this machine."""
    return f"{machine()}-linux-gnu"


def _plain(word):
    return word.replace("_", "").replace(".", "").replace("-", "")
