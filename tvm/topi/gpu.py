"""topi.gpu: sorting and sums for GPUs. They are described as anywhere; dlight or a rule gives them threads."""
from ...ir import topi as _topi

sort, argsort, topk, cumsum, cumprod = _topi.sort, _topi.argsort, _topi.topk, _topi.cumsum, _topi.cumprod

__all__ = ["argsort", "cumprod", "cumsum", "sort", "topk"]
