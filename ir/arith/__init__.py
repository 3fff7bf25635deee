"""Integer analysis: bounds, simplification, integer sets and iteration maps (names follow TVM's arith)."""
from . import int_set
from .analyzer import Analyzer, ProofStrength
from .bound import (deduce_bound, domain_touched, estimate_region_lower_bound, estimate_region_strict_bound,
                    estimate_region_upper_bound)
from .const_int_bound import ConstIntBound
from .int_set import IntervalSet, IntSet, covers, eval_range, range_of, union_ranges
from .iter_affine_map import (IterMapLevel, IterMapResult, IterMark, IterSplitExpr, IterSumExpr, detect_bijection,
                              detect_iter_map)
from .iter_map import IterMap, affine_domains, is_affine_binding
from .iter_rewrite import (inverse_affine_iter_map, iter_map_simplify, normalize_iter_map_to_expr,
                           normalize_to_iter_sum, subspace_divide)
from .modular import ModularSet
from .pattern import detect_clip_bound, detect_linear_equation

__all__ = ["Analyzer", "ConstIntBound", "IntSet", "IntervalSet", "IterMap", "IterMapLevel", "IterMapResult", "IterMark",
           "IterSplitExpr", "IterSumExpr", "ModularSet", "ProofStrength", "affine_domains", "covers", "deduce_bound",
           "detect_bijection", "detect_clip_bound", "detect_iter_map", "detect_linear_equation", "domain_touched",
           "estimate_region_lower_bound", "estimate_region_strict_bound", "estimate_region_upper_bound", "eval_range",
           "int_set", "inverse_affine_iter_map", "is_affine_binding", "iter_map_simplify",
           "normalize_iter_map_to_expr", "normalize_to_iter_sum", "range_of", "subspace_divide", "union_ranges"]
