"""Integer analysis: bounds, simplification, integer sets and iteration maps (names follow TVM's arith)."""
from . import int_set, rewrite  # noqa: F401 (rewrite provides what Analyzers ask for)
from .analyzer import Analyzer, Extension, ProofStrength
from .bound import (deduce_bound, domain_touched, estimate_region_lower_bound, estimate_region_strict_bound,
                    estimate_region_upper_bound)
from .common import detect_common_subexpr
from .const_int_bound import ConstIntBound
from .constraints import IntConstraints, IntConstraintsTransform, IntGroupBounds
from .int_set import IntervalSet, IntSet, covers, eval_range, range_of, union_ranges
from .iter_affine_map import (IterMapExpr, IterMapLevel, IterMapResult, IterMark, IterSplitExpr, IterSumExpr,
                              detect_bijection, detect_iter_map)
from .iter_map import IterMap, affine_domains, is_affine_binding
from .iter_rewrite import (inverse_affine_iter_map, iter_map_simplify, normalize_iter_map_to_expr,
                           normalize_to_iter_sum, subspace_divide)
from .linear_equations import solve_linear_equations
from .linear_inequalities import solve_inequalities_as_conditions, solve_linear_inequalities
from .modular import ModularSet
from .narrow import narrow_predicate_expression
from .pattern import detect_clip_bound, detect_linear_equation

__all__ = ["Analyzer", "ConstIntBound", "Extension", "IntConstraints", "IntConstraintsTransform", "IntGroupBounds",
           "IntSet", "IntervalSet", "IterMap", "IterMapExpr", "IterMapLevel", "IterMapResult", "IterMark",
           "IterSplitExpr", "IterSumExpr",
           "ModularSet", "ProofStrength", "affine_domains", "covers", "deduce_bound", "detect_bijection",
           "detect_clip_bound", "detect_common_subexpr", "detect_iter_map", "detect_linear_equation", "domain_touched",
           "estimate_region_lower_bound", "estimate_region_strict_bound", "estimate_region_upper_bound", "eval_range",
           "int_set", "inverse_affine_iter_map", "is_affine_binding", "iter_map_simplify",
           "narrow_predicate_expression", "normalize_iter_map_to_expr", "normalize_to_iter_sum", "range_of",
           "solve_inequalities_as_conditions", "solve_linear_equations", "solve_linear_inequalities",
           "subspace_divide", "union_ranges"]
