"""Functions of integer analysis by the names under which TVM's Python calls its C++."""
from ...ir.arith import domain_touched, narrow_predicate_expression, solve_inequalities_as_conditions

DomainTouched, NarrowPredicateExpression = domain_touched, narrow_predicate_expression
SolveInequalitiesAsCondition = solve_inequalities_as_conditions
