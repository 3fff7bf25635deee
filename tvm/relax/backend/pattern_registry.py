"""Patterns by name, for FuseOpsByPattern."""
from __future__ import annotations

from ....ir.transform.fuse_by_pattern import FusionPattern

_PATTERNS = {}  # name -> [FusionPattern], the last ones of the highest priority


def register_patterns(patterns):
    """Add FusionPatterns, or tuples of their fields, whose names begin with their generator's. Later ones go before
    earlier ones; those of a name that is known take its patterns' place. TypeError for anything else."""
    new = {}
    for p in patterns:
        if not isinstance(p, (FusionPattern, tuple)):
            raise TypeError(f"Cannot register type {type(p)} as pattern")
        p = p if isinstance(p, FusionPattern) else FusionPattern(*p)
        new.setdefault(p.name, []).append(p)
    for name, some in new.items():
        _PATTERNS.pop(name, None)
        _PATTERNS[name] = some


def get_patterns_with_prefix(prefix):
    """The FusionPatterns whose names begin with `prefix`, the highest priority first."""
    return [p for name, some in reversed(_PATTERNS.items()) if name.startswith(prefix) for p in reversed(some)]


def get_pattern(name):
    """The FusionPattern of a name, the highest priority of several; None where there is none."""
    return _PATTERNS[name][-1] if name in _PATTERNS else None


__all__ = ["get_pattern", "get_patterns_with_prefix", "register_patterns"]
