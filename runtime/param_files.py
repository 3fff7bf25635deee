"""Weights in a folder of shards, as MLC's models have them: raw bytes in params_shard_N.bin, what they are in
ndarray-cache.json; and the functions vm.builtin.ndarray_cache.* that keep what was loaded by name."""
from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import numpy as np

from ..ir.dtype import DataType
from .device import Device, cpu
from .ndarray import array, dtype_of

INDEX, INDEX_16 = "ndarray-cache.json", "ndarray-cache-b16.json"
_HALVED, _RAW = "f32-to-bf16", "raw"
_BFLOAT16 = DataType("bfloat16").numpy


def to_bfloat16(values):
    """float32 values rounded to bfloat16, what is finite to the largest that is; an array of uint16, their bits."""
    values = np.asarray(values)
    with np.errstate(over="ignore"):
        rounded = values.astype(_BFLOAT16).view(np.uint16)
    # Rounding up to infinity is one step too far.
    return np.where(np.isfinite(values) & (rounded & 0x7FFF == 0x7F80), rounded - 1, rounded).astype(np.uint16)


def from_bfloat16(bits):
    """The float32 values of bfloat16's bits."""
    return np.asarray(bits).view(_BFLOAT16).astype(np.float32)


def save_params(params, folder, encode_format=_HALVED, meta_data=None, shard_cap_mb=32, update_if_exists=False):
    """Write {name: array}, or pairs of these, to a folder. encode_format: "raw", or "f32-to-bf16", which keeps float32
    in 16 bits; meta_data: what load_params gives with them, or a function of it. update_if_exists: replace weights of a
    folder that is there, and add to it. Raises ValueError where sizes differ, or a name comes twice."""
    if encode_format not in (_RAW, _HALVED):
        raise ValueError(f"encode_format must be {_RAW!r} or {_HALVED!r}, not {encode_format!r}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    shards, names = [], {}
    if update_if_exists and (folder / INDEX).exists():
        old = json.loads((folder / INDEX).read_text())
        shards, meta_data = old["records"], old["metadata"] if meta_data is None else meta_data
        names = {r["name"]: (shard, r) for shard in shards for r in shard["records"]}
    pending, rows = bytearray(), []
    for name, value in params.items() if hasattr(params, "items") else params:
        value = np.ascontiguousarray(value.numpy() if hasattr(value, "numpy") else value).reshape(np.shape(value))
        halved = encode_format == _HALVED and value.dtype == np.float32
        data = (to_bfloat16(value) if halved else value).tobytes()
        row = {"name": name, "shape": list(value.shape), "dtype": str(dtype_of(value)), "format": encode_format,
               "nbytes": len(data)}
        if name in names:
            _replace(folder, *names[name], row, data, update_if_exists)
            continue
        if rows and len(pending) + len(data) > shard_cap_mb << 20:
            shards.append(_shard(folder, len(shards), pending, rows))
            pending, rows = bytearray(), []
        row["byteOffset"], names[name] = len(pending), (None, row)
        rows.append(row)
        pending += data
    if rows:
        shards.append(_shard(folder, len(shards), pending, rows))
    _index(folder / INDEX, shards, meta_data)
    (folder / INDEX_16).unlink(missing_ok=True)  # one of what was here before
    if encode_format == _HALVED:
        as_16 = [{**s, "records": [{**r, "dtype": "bfloat16", "format": _RAW} if _is_halved(r) else r
                                   for r in s["records"]]} for s in shards]
        _index(folder / INDEX_16, as_16, meta_data)


def _is_halved(row):
    """Whether a weight of float32 is kept in 16 bits."""
    return row["format"] == _HALVED and row["dtype"] == "float32"


def _index(path, shards, meta_data):
    meta_data = meta_data() if callable(meta_data) else meta_data or {}
    path.write_text(json.dumps({"metadata": meta_data, "records": shards}, indent=4))


def _shard(folder, number, data, rows):
    name = f"params_shard_{number}.bin"
    (folder / name).write_bytes(data)
    return {"dataPath": name, "format": "raw-shard", "nbytes": len(data), "records": rows, "md5sum": _md5(data)}


def _md5(data):
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _replace(folder, shard, old, row, data, allowed):
    """Put other bytes in the place of a weight that a shard on disk has."""
    if shard is None or not allowed:
        raise ValueError(f"Duplicate name {row['name']} found in the cache.")
    if old["nbytes"] != row["nbytes"]:
        raise ValueError(f"Cannot update record {row['name']}, size mismatch.")
    path = folder / shard["dataPath"]
    held = bytearray(path.read_bytes())
    held[old["byteOffset"]:old["byteOffset"] + len(data)] = data
    path.write_bytes(held)
    old.update(row)
    shard["md5sum"] = _md5(held)


def load_params(path, device=None):
    """({name: NDArray}, metadata) of a folder that save_params wrote, or of an index in it. Raises ValueError where the
    index is none, or its shards and weights are not as it says."""
    path = Path(path)
    path = path if path.suffix == ".json" else path / INDEX
    params = {}
    try:
        index = json.loads(path.read_text())
        shards, meta_data = index["records"], index.get("metadata", {})
        rows = [(shard["dataPath"], shard["nbytes"], shard["records"]) for shard in shards]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} is no index of weights: {type(error).__name__}: {error}") from error
    for name, size, records in rows:
        data = (path.parent / name).read_bytes()
        if len(data) != size:
            raise ValueError(f"{name} has {len(data)} bytes, and must have {size}")
        params.update((row["name"], array(_values(row, data, name), device)) for row in records)
    return params, meta_data


def _values(row, data, shard):
    """The array of a weight in a shard's bytes. Raises ValueError."""
    place, size, shape, dtype = row["byteOffset"], row["nbytes"], row["shape"], DataType(row["dtype"]).numpy
    if row["format"] not in (_RAW, _HALVED):
        raise ValueError(f"{shard}: the format of {row['name']} must be {_RAW!r} or {_HALVED!r}, not {row['format']!r}")
    stored = np.dtype(np.uint16 if _is_halved(row) else dtype)
    if size != math.prod(shape) * stored.itemsize or not 0 <= place <= len(data) - size:
        raise ValueError(f"{shard}: {row['name']}, {row['dtype']}{shape}, cannot be the {size} bytes from {place} of "
                         f"{len(data)}")
    values = np.frombuffer(data, stored, math.prod(shape), place).reshape(shape)
    return from_bfloat16(values) if _is_halved(row) else values


# ---------------------------------------------------------------- vm.builtin.ndarray_cache.*

_LOADED = {}


def _load(path, device_type=1, device_id=0):
    _LOADED.update(load_params(path, Device(int(device_type), int(device_id)))[0])


def _update(name, value, override=False):
    if name in _LOADED and not override:
        raise ValueError(f"the cache has {name} already")
    _LOADED[name] = array(value, getattr(value, "device", cpu()))


def _numbered(prefix, count):
    """prefix_0, prefix_1 ...: `count` of them, or, -1, those that there are."""
    found = []
    while len(found) != count and f"{prefix}_{len(found)}" in _LOADED:
        found.append(_LOADED[f"{prefix}_{len(found)}"])
    if count not in (-1, len(found)):
        raise ValueError(f"the cache has {len(found)} of the {count} weights {prefix}_N")
    return found


def _named(names):
    missing = [str(n) for n in names if n not in _LOADED]
    if missing:
        raise ValueError(f"the cache has no {', '.join(missing)}")
    return [_LOADED[n] for n in names]


FUNCTIONS = {
    "ndarray_cache.load": _load, "ndarray_cache.get": _LOADED.get, "ndarray_cache.update": _update,
    "ndarray_cache.remove": lambda name: _LOADED.pop(name, None) and None, "ndarray_cache.clear": _LOADED.clear,
    "param_array_from_cache": _numbered, "param_array_from_cache_by_name": _named,
    "param_array_from_cache_by_name_unpacked": lambda *names: _named(names),
}
