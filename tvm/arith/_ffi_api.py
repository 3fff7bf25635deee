"""Functions of integer analysis by the names under which TVM's Python calls its C++."""
from ...ir import arith as _arith
from ...ir.arith import int_set as _int_set

DomainTouched, NarrowPredicateExpression = _arith.domain_touched, _arith.narrow_predicate_expression
DeduceBound = _arith.deduce_bound
DetectLinearEquation, DetectClipBound = _arith.detect_linear_equation, _arith.detect_clip_bound
DetectCommonSubExpr = _arith.detect_common_subexpr
DetectIterMap, IterMapSimplify = _arith.detect_iter_map, _arith.iter_map_simplify
NormalizeIterMapToExpr, NormalizeToIterSum = _arith.normalize_iter_map_to_expr, _arith.normalize_to_iter_sum
SubspaceDivide, InverseAffineIterMap = _arith.subspace_divide, _arith.inverse_affine_iter_map
EstimateRegionLowerBound = _arith.estimate_region_lower_bound
EstimateRegionStrictBound = _arith.estimate_region_strict_bound
EstimateRegionUpperBound = _arith.estimate_region_upper_bound
PosInf, NegInf, UnionLowerBound = _int_set.pos_inf, _int_set.neg_inf, _int_set.union_lower_bound
SolveInequalitiesAsCondition = _arith.solve_inequalities_as_conditions
