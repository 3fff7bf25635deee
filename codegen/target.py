"""The target that a name means: a row of ir/target.py, this machine's best one, or what a target string of TVM says."""
from __future__ import annotations

import json
import re
import sys
from dataclasses import replace

from ..ir.target import (BYTE_ORDERS, RESOLVERS, ROWS, Limits, Memory, Target, TargetError, TargetKind, Threads,
                         row_named)
from ..ir.target_attributes import LIMITS
from .toolchains import TOOLCHAINS, cpu_flags, is_native, is_supported_here, machine, toolchain

_ALIASES = {"native": "host", "llvm": "host"}  # "llvm": the host target of scripts written for TVM
# Flags of TVM's that choose a row; the others of TVM's on CPUs say what needs no saying here.
_MCPU = {"native": "host", **{cpu: row.name for row in TOOLCHAINS.values() for cpu in row.cpus}}
_MTRIPLE = {"x86_64": "x86-64-v3", "amd64": "x86-64-v3", "aarch64": "aarch64-linux-gnu", "arm64": "aarch64-linux-gnu",
            "armv7": "armv7-linux-gnueabihf", "armv7l": "armv7-linux-gnueabihf", "arm": "armv7-linux-gnueabihf"}
# -arch of kind "cuda" -> the row whose code runs there; newer devices run PTX of "cuda".
_ARCH = {**dict.fromkeys(("sm_80", "sm_86", "sm_87", "sm_89"), "cuda-sm_80"),
         **dict.fromkeys(("sm_90", "sm_90a"), "cuda-sm_90a"),
         **dict.fromkeys(("sm_100", "sm_100a", "sm_120", "compute_80"), "cuda")}
# Tags of TVM's for devices: "nvidia/nvidia-a100", "nvidia/geforce-rtx-3090".
_DEVICES = {**dict.fromkeys(("nvidia-a100", "nvidia-a10", "nvidia-a10g", "nvidia-a30", "nvidia-a40", "nvidia-l4",
                             "nvidia-l40", "nvidia-rtx-a6000", "rtx-a6000"), "cuda-sm_80"),
            **dict.fromkeys(("nvidia-h100", "nvidia-h200", "nvidia-gh200"), "cuda-sm_90a")}
_GEFORCE = re.compile(r"(geforce-)?rtx-(30|40)\d\d(-ti)?(-super)?")


def _described(name, kind, threads=256, shared_kib=32, warp=32):
    limits = Limits(warp, threads, shared_kib << 10, shared_kib << 10, block=(threads, threads, 64))
    return Target(name=name, kind=TargetKind(kind), threads=Threads(most=1), launch=limits,
                  memories=(Memory("global"), Memory("shared", shared_kib << 10, 16), Memory("local", align=16)))


# What rules schedule for (tvm.dlight), and no code is made for: TVM's kinds and tags of devices.
DESCRIBED = {row.name: row for row in (
    _described("metal", "metal", warp=16), _described("vulkan", "vulkan"), _described("rocm", "rocm", 1024, 64, 64),
    _described("webgpu", "webgpu", shared_kib=16), _described("apple/m1-gpu", "metal", 1024),
    _described("apple/m1-gpu-restricted", "metal"), _described("apple/m2-gpu", "metal", 1024),
    *(_described(f"nvidia/geforce-gtx-{number}", "cuda", 1024, 48) for number in (
        "970", "980", "980-ti", "1050", "1060", "1070", "1070-ti", "1080", "1080-ti")))}
_HOST = re.compile(r"\s--?host[ =]+(\S+)")
_NO_EFFECT = ("-keys", "-libs", "-model", "-device", "-mattr", "-runtime")
_GPU_NO_EFFECT = (*_NO_EFFECT, "-l2_cache_size_bytes", "-max_function_args", "-texture_spatial_limit")
_DESCRIBED_NO_EFFECT = (*_GPU_NO_EFFECT, "-mcpu", "-mtriple", "-from_device")  # and -supports_..., as Vulkan has them
_CPU_NO_EFFECT = (*_NO_EFFECT, "-num-cores", "-opt-level", "-link-params", "-system-lib", "-executor", "-vector-width",
                  "-jit", "-cl-opt")
_ABIS = {"-mfloat-abi": "hard", "-mabi": "lp64d"}  # those of the rows: another is not to be had


def resolve(target):
    """The Target that a name, a target string or a dict of TVM's means. Raises TargetError.

    A host stands in the dict, or behind --host."""
    if isinstance(target, str) and target.lstrip().startswith("{"):
        target = _from_json(target)
    if isinstance(target, str) and (found := _HOST.search(target)):
        return resolve(target[:found.start()] + target[found.end():]).with_host(found[1])
    kind, flags = _of_dict(target) if isinstance(target, dict) else _of_text(target)
    is_gpu = kind in DESCRIBED or kind.startswith("nvidia/") or kind in ROWS and ROWS[kind].launch is not None
    name = (_gpu if is_gpu else _cpu)(target, kind, flags)
    row = _row_of(target, _ALIASES.get(name, name))
    _require_without(target, row, flags.get("-mattr", "").split(","))
    options = tuple((flag.lstrip("-"), text) for flag, text in flags.items())
    if kind == "llvm":
        row = replace(row, kind=TargetKind("c", "llvm"))
    if options:
        row = replace(row, options=options, launch=row.launch and _limits(target, row, flags))
    host = target.get("host") if isinstance(target, dict) else None
    return row if host is None else row.with_host(host)


def _from_json(text):
    try:
        return json.loads(text)
    except ValueError as error:
        raise TargetError(f"target {text!r:.80} is no JSON: {error}") from None


def _of_dict(config):
    """(kind, {flag: text}) of a dict of TVM's, whose tag is its kind where it says none."""
    kind = config.get("kind", config.get("tag"))
    if not isinstance(kind, str) or not kind:
        raise TargetError(f'a dict of a target says its kind, as {{"kind": "cuda"}}; got {config}')
    return kind, {f"-{k}": _flag_text(k, v) for k, v in config.items() if k not in ("kind", "tag", "host")}


def _flag_text(name, value):
    if isinstance(value, (list, tuple)):
        return ",".join(_flag_text(name, v) for v in value)
    if not isinstance(value, (bool, int, str)):
        raise TargetError(f"a flag of a target is a number, a text or a list of these, not {name}: {value}")
    return str(int(value)) if isinstance(value, bool) else str(value)


def _of_text(text):
    """(kind, {flag: text}) of a target string: ("llvm", {"-mcpu": "znver4"})."""
    if not isinstance(text, str):
        raise TargetError(f"a target is a name or a Target, not a {type(text).__name__}")
    kind, *words = re.sub(r"(-\S+) +(?=[^-\s])", r"\1=", text).split() or [""]  # "-num-cores 4" too
    return kind, dict(word.partition("=")[::2] for word in words)


def _row_of(target, name):
    """The row of a name, which a target means."""
    if name == "host":
        row = ROWS[host_name()]
        return row if row.byte_order == sys.byteorder else replace(row, byte_order=sys.byteorder)
    if "+" in name:
        raise TargetError(f"{target!r} names several targets, which only compile takes, for a folder: name one")
    if name in DESCRIBED:
        return DESCRIBED[name]
    if name not in ROWS:
        raise TargetError(f"unknown target {target!r}; known: {', '.join(Target.names())}")
    return row_named(name)


RESOLVERS.append(resolve)


def with_code(target):
    """A Target that code is made for. TargetError of one that is only described."""
    if target.name in DESCRIBED:
        raise TargetError(f"there is no code for {target.name}: it is described for rules that schedule; known: "
                          f"{', '.join(Target.names())}")
    return target


def _require_known(target, flags, heeded, no_effect):
    for flag in flags:
        if flag not in heeded and flag not in no_effect:
            raise TargetError(f"target {target!r}: the flag {flag} is not known; known: {', '.join(heeded)}, and without "
                              f"effect {', '.join(no_effect)}")


def _require_without(target, row, features):
    """TargetError where -mattr takes an instruction set away that the row's code uses."""
    for feature in features:
        if feature.startswith("-") and feature[1:].replace(".", "_") in row.isa:
            raise TargetError(f"target {target!r}: code for {row.name} uses {feature[1:]}; name a target without it: "
                              f"{', '.join(Target.names())}")


def _cpu(target, kind, flags):
    """The row or kind of a target of CPUs: "x86-64-v4-zen4" for "llvm" with -mcpu=znver4."""
    _require_known(target, flags, ("-mcpu", "-mtriple", *_ABIS), _CPU_NO_EFFECT)
    for flag, abi in _ABIS.items():
        if flags.get(flag, abi) != abi:
            raise TargetError(f"target {target!r}: there is no code for {flag}={flags[flag]}, but for {abi}")
    triple, cpu = flags.get("-mtriple"), flags.get("-mcpu")
    if kind not in ("llvm", "c", "host") or triple is cpu is None:
        return kind
    family = triple.split("-")[0] if triple is not None else "x86_64"
    for option, value, key, table in (("-mtriple", triple, family, _MTRIPLE), ("-mcpu", cpu, cpu, _MCPU)):
        if value is not None and key not in table and (option == "-mtriple" or _MTRIPLE[family] == "x86-64-v3"):
            raise TargetError(f"target {target!r}: {option} {value!r} is not known; known: {', '.join(table)}; or name "
                              f"one of {', '.join(Target.names())}")
    if cpu in _MCPU:
        return _MCPU[cpu]
    row = _MTRIPLE[family]
    return "host" if TOOLCHAINS[row].arch == machine() else row


def _gpu(target, kind, flags):
    """The row of a target of GPUs, or of a tag of TVM's."""
    limits = tuple(f"-{name}" for name in LIMITS)
    if kind in DESCRIBED:
        others = {flag: text for flag, text in flags.items() if not flag.startswith("-supports_")}
        _require_known(target, others, limits, _DESCRIBED_NO_EFFECT)
        return kind
    _require_known(target, flags, ("-arch", *limits) if kind == "cuda" else limits, _GPU_NO_EFFECT)
    if kind in ROWS and kind != "cuda":
        return kind
    if kind != "cuda":
        device = kind.removeprefix("nvidia/")
        row = "cuda-sm_80" if _GEFORCE.fullmatch(device) else _DEVICES.get(device)
        if row is None:
            raise TargetError(f"target {target!r}: there is no code for {device}; known: "
                              f"{', '.join(f'nvidia/{name}' for name in _DEVICES)}, and nvidia/geforce-rtx-30xx and "
                              "-40xx")
        return row
    arch = flags.get("-arch")
    if arch is not None and arch not in _ARCH:
        raise TargetError(f"target {target!r}: there is no code for -arch {arch!r}; known: {', '.join(_ARCH)}")
    return kind if arch is None else _ARCH[arch]


def _limits(target, row, flags):
    """The row's limits of a launch with those that flags set: those of a device that code is made for only become narrower."""
    limits = {}
    for flag, text in flags.items():
        field = LIMITS.get(flag[1:])
        if field is None:
            continue
        if not re.fullmatch("[1-9][0-9]*", text):
            raise TargetError(f"target {target!r}: {flag} is a number above 0, not {text!r}")
        known = limits.get(field, None if row.name in DESCRIBED else getattr(row.launch, field))
        if field == "warp" and row.kind == "cuda" and int(text) != known:
            raise TargetError(f"target {target!r}: warps of {row.name} have {known} threads")
        limits[field] = int(text) if known is None else min(known, int(text))
    return replace(row.launch, **limits)


def host_name(family=None, flags=None):
    """The name of the row for a processor of a family with /proc/cpuinfo's `flags` (toolchains.cpu_flags): of those
    that it runs and that are made for it the one with most instruction sets. The default is this processor."""
    family, flags = family or machine(), cpu_flags() if flags is None else flags
    flags = flags | {"asimd"} if family == "aarch64" else flags  # which each of them has
    fitting = (row for row in ROWS.values() if row.kind == "c" and toolchain(row).arch == family
               and row.isa | toolchain(row).made_for <= flags)
    return max(fitting, key=lambda row: len(row.isa), default=ROWS["c"]).name


__all__ = ["BYTE_ORDERS", "Target", "TargetError", "host_name", "is_native", "is_supported_here", "resolve",
           "toolchain", "with_code"]
