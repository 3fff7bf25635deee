"""Integer analysis: bounds, simplification, integer sets and iteration maps (names follow TVM's arith)."""
from .analyzer import Analyzer
from .const_int_bound import ConstIntBound
from .int_set import covers, eval_range, range_of, single_point, union_ranges
from .iter_map import IterMap, detect_iter_map, is_affine_binding
from .modular import ModularSet

__all__ = ["Analyzer", "ConstIntBound", "IterMap", "ModularSet", "covers", "detect_iter_map", "eval_range",
           "is_affine_binding", "range_of", "single_point", "union_ranges"]
