"""The target that a name means: a row of ir/target.py, this machine's best one, or what a target string of TVM says."""
from __future__ import annotations

import re
import sys
from dataclasses import replace

from ..ir.target import BYTE_ORDERS, RESOLVERS, ROWS, Target, TargetError, row_named
from .toolchains import TOOLCHAINS, cpu_flags, is_native, is_supported_here, machine, toolchain

_ALIASES = {"native": "host", "llvm": "host"}  # "llvm": the host target of scripts written for TVM
# Flags of TVM's that choose a row; the others of TVM's on CPUs say what needs no saying here.
_MCPU = {"native": "host", **{cpu: row.name for row in TOOLCHAINS.values() for cpu in row.cpus}}
_MTRIPLE = {"x86_64": "x86-64-v3", "amd64": "x86-64-v3", "aarch64": "aarch64-linux-gnu", "arm64": "aarch64-linux-gnu",
            "armv7": "armv7-linux-gnueabihf", "armv7l": "armv7-linux-gnueabihf", "arm": "armv7-linux-gnueabihf"}
_WITHOUT_EFFECT = ("-keys", "-num-cores", "-device", "-model", "-libs", "-opt-level", "-link-params", "-mattr",
                   "-runtime", "-system-lib", "-executor")


def resolve(target):
    """The Target that a name, a target string or a dict of TVM's means. Raises TargetError."""
    if isinstance(target, dict) and "kind" in target:
        target = " ".join((target["kind"], *(f"-{k}={_flag_value(v)}" for k, v in target.items()
                                             if k not in ("kind", "tag", "host"))))
    name = _without_flags(target)
    name = _ALIASES.get(name, name)
    if name == "host":
        row = ROWS[host_name()]
        return row if row.byte_order == sys.byteorder else replace(row, byte_order=sys.byteorder)
    if name == "cuda":
        raise TargetError("CUDA C is not generated yet; the targets today are " + ", ".join(Target.names()))
    if name not in ROWS:
        raise TargetError(f"unknown target {target!r}; known: {', '.join(Target.names())}")
    return row_named(name)


RESOLVERS.append(resolve)


def _flag_value(value):
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else value


def _without_flags(text):
    """The row or kind that a target string means: "llvm -mcpu=znver4" is "x86-64-v4-zen4"."""
    if not isinstance(text, str):
        raise TargetError(f"a target is a name or a Target, not a {type(text).__name__}")
    kind, *words = re.sub(r"(-\S+) +(?=[^-\s])", r"\1=", text).split() or [""]  # "-num-cores 4" too
    if kind == "cuda":
        return kind
    flags = dict(word.partition("=")[::2] for word in words)
    for option in flags:
        if option not in (*_WITHOUT_EFFECT, "-mcpu", "-mtriple"):
            raise TargetError(f"target {text!r}: the flag {option} is not known; known: -mcpu, -mtriple, and without "
                              f"effect {', '.join(_WITHOUT_EFFECT)}")
    triple, cpu = flags.get("-mtriple"), flags.get("-mcpu")
    if kind not in ("llvm", "c", "host") or triple is cpu is None:
        return kind
    family = triple.split("-")[0] if triple is not None else "x86_64"
    for option, value, key, table in (("-mtriple", triple, family, _MTRIPLE), ("-mcpu", cpu, cpu, _MCPU)):
        if value is not None and key not in table and (option == "-mtriple" or _MTRIPLE[family] == "x86-64-v3"):
            raise TargetError(f"target {text!r}: {option} {value!r} is not known; known: {', '.join(table)}; or name "
                              f"one of {', '.join(Target.names())}")
    if cpu in _MCPU:
        return _MCPU[cpu]
    row = _MTRIPLE[family]
    return "host" if TOOLCHAINS[row].arch == machine() else row


def host_name(family=None, flags=None):
    """The name of the row for a processor of a family with /proc/cpuinfo's `flags` (toolchains.cpu_flags): of those
    that it runs and that are made for it the one with most instruction sets. The default is this processor."""
    family, flags = family or machine(), cpu_flags() if flags is None else flags
    flags = flags | {"asimd"} if family == "aarch64" else flags  # which each of them has
    fitting = (row for row in ROWS.values() if toolchain(row).arch == family
               and row.isa | toolchain(row).made_for <= flags)
    return max(fitting, key=lambda row: len(row.isa), default=ROWS["c"]).name


__all__ = ["BYTE_ORDERS", "Target", "TargetError", "host_name", "is_native", "is_supported_here", "resolve",
           "toolchain"]
