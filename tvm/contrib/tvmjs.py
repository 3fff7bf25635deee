"""tvm.contrib.tvmjs: weights in a folder of shards, as MLC's models have them."""
from ...runtime.param_files import from_bfloat16 as _convert_bf16_to_f32  # noqa: F401
from ...runtime.param_files import load_params, save_params
from ...runtime.param_files import to_bfloat16 as _convert_f32_to_bf16  # noqa: F401


def dump_ndarray_cache(params, cache_dir, encode_format="f32-to-bf16", meta_data=None, shard_cap_mb=32,
                       show_progress=True, update_if_exists=False):
    """Write {name: array} to a folder; see runtime/param_files.py. Nothing is printed, whatever show_progress says."""
    save_params(params, cache_dir, encode_format, meta_data, shard_cap_mb, update_if_exists)


def load_ndarray_cache(cachepath, device=None):
    """({name: NDArray}, metadata) of that folder."""
    return load_params(cachepath, device)


__all__ = ["dump_ndarray_cache", "load_ndarray_cache"]
