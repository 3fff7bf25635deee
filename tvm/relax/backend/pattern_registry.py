"""Patterns by name, for FuseOpsByPattern."""
from __future__ import annotations

from ....ir.transform.fuse_by_pattern import FusionPattern

_PATTERNS = {}  # name -> FusionPattern, the last one of the highest priority


def register_patterns(patterns):
    """Add FusionPatterns, or tuples of their fields, whose names begin with their generator's. Later ones go before
    earlier ones; one of a name that is known takes its place. TypeError for anything else."""
    for p in patterns:
        if not isinstance(p, (FusionPattern, tuple)):
            raise TypeError(f"Cannot register type {type(p)} as pattern")
        p = p if isinstance(p, FusionPattern) else FusionPattern(*p)
        _PATTERNS.pop(p.name, None)
        _PATTERNS[p.name] = p


def get_patterns_with_prefix(prefix):
    """The FusionPatterns whose names begin with `prefix`, the highest priority first."""
    return [p for name, p in reversed(_PATTERNS.items()) if name.startswith(prefix)]


def get_pattern(name):
    """The FusionPattern of a name; None where there is none."""
    return _PATTERNS.get(name)


__all__ = ["get_pattern", "get_patterns_with_prefix", "register_patterns"]
