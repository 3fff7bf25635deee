"""Rows of rewrite_simplify for quotients and remainders. No divisor is 0."""

FLOOR_DIV = (
    ("x // 1", "x"),
    ("0 // x", "0"),
    ("x // x", "1"),
    ("(x // c1) // c2", "x // (c1 * c2)", "c1 > 0 and c2 > 0"),
    ("(x % 2 + 1) // 2", "x % 2"),
    ("(x // c1 + c2) // c3", "(x + c1 * c2) // (c1 * c3)", "c1 > 0 and c3 > 0"),
    ("(x - x % c1) // c1", "x // c1"),
    # multiples come out
    ("x * c1 // c2", "x // (c2 // c1)", "c1 > 0 and c2 > 0 and c2 % c1 == 0"),
    ("x * c1 // c2", "x * (c1 // c2)", "c2 > 0 and c1 % c2 == 0"),
    ("~(x * c1 + y) // c2", "x * (c1 // c2) + y // c2", "c2 > 0 and c1 % c2 == 0"),
    ("((x * c1 + y) + z) // c2", "x * (c1 // c2) + (y + z) // c2", "c2 > 0 and c1 % c2 == 0"),
    ("((y + x * c1) + z) // c2", "x * (c1 // c2) + (y + z) // c2", "c2 > 0 and c1 % c2 == 0"),
    ("(x * c1 + c2) // c3", "x // (c3 // c1) + c2 // c1 // (c3 // c1)",
     "c1 > 0 and c3 > 0 and c3 % c1 == 0 and c2 // c1 % (c3 // c1) == 0"),
    ("(x + c1) // c2", "x // c2 + c1 // c2", "c2 > 0 and c1 % c2 == 0"),
    ("min(x * c1, y) // c2", "min(x * (c1 // c2), y // c2)", "c2 > 0 and c1 % c2 == 0"),
    ("min(y, x * c1) // c2", "min(y // c2, x * (c1 // c2))", "c2 > 0 and c1 % c2 == 0"),
    ("max(x * c1, y) // c2", "max(x * (c1 // c2), y // c2)", "c2 > 0 and c1 % c2 == 0"),
    ("max(y, x * c1) // c2", "max(y // c2, x * (c1 // c2))", "c2 > 0 and c1 % c2 == 0"),
    # of what is no constant
    ("~(x + y) // x", "y // x + 1"),
    ("((x + y) + z) // x", "(y + z) // x + 1"),
    ("((y + x) + z) // x", "(y + z) // x + 1"),
    ("(y + (x + z)) // x", "(y + z) // x + 1"),
    ("(y + (z + x)) // x", "(y + z) // x + 1"),
    ("~x * y // y", "x"),
    ("(x * z + y) // z", "x + y // z"),
    ("(z * x + y) // z", "x + y // z"),
    ("(y + x * z) // z", "y // z + x"),
    ("(y + z * x) // z", "y // z + x"),
    ("~(x * z * c1 + y) // (z * c1)", "x + y // (z * c1)"),
    # what bounds say
    ("(x * c1 + y) // c2", "x * (c1 // c2)", "c2 > 0 and c1 >= c2 and nonneg(x * (c1 % c2) + y) and "
     "lt(x * (c1 % c2) + y, c2)"),
    ("(x * c1 + y) // c2", "x // (c2 // c1)", "c1 > 0 and c2 > 0 and c2 % c1 == 0 and nonneg(y) and lt(y, c1)"),
    ("((x * c1 + y) + z) // c2", "x // (c2 // c1)",
     "c1 > 0 and c2 > 0 and c2 % c1 == 0 and nonneg(y + z) and lt(y + z, c1)"),
    ("x // y", "0", "nonneg(x) and lt(x, y)"),
)

FLOOR_MOD = (
    ("x % 1", "0"),
    ("x % x", "0"),
    ("0 % x", "0"),
    ("x % c1 % c2", "x % c2", "c2 > 0 and c1 % c2 == 0"),
    # multiples go away
    ("x * c1 % c2", "0", "c1 % c2 == 0"),
    ("x * c1 % c2", "x * (c1 % c2) % c2", "c2 > 0 and not -c2 < c1 < c2"),
    ("~(x * c1 + y) % c2", "y % c2", "c1 % c2 == 0"),
    ("(x * c1 + y) % c2", "(x * (c1 % c2) + y) % c2", "c2 > 0 and not -c2 < c1 < c2"),
    ("(y + x * c1) % c2", "(y + x * (c1 % c2)) % c2", "c2 > 0 and not -c2 < c1 < c2"),
    ("(x + c1) % c2", "(x + c1 % c2) % c2", "c2 > 0 and not 0 <= c1 < c2"),
    ("~x * y % y", "0"),
    ("~(x * z + y) % z", "y % z"),
    ("~(x * z * c1 + y) % (z * c1)", "y % (z * c1)"),
    ("(x - x % c1) % c2", "0", "c1 % c2 == 0"),
    ("(x + x * -1 % c1) % c1", "0"),
    ("(x + (0 - x) % y) % y", "0"),
    ("(x + (x * c1) % c2) % c2", "0", "(c1 + 1) % c2 == 0"),
    ("(x - x % y) % y", "0"),
    ("(x - x % (0 - y)) % y", "0"),
    ("(x - x % (y * -1)) % y", "0"),
    # what bounds say
    ("(x * c1 + y) % c2", "x % (c2 // c1) * c1 + y", "c1 > 0 and c2 > 0 and c2 % c1 == 0 and nonneg(y) and lt(y, c1)"),
    ("x % y", "x", "nonneg(x) and lt(x, y)"),
)

TRUNC_DIV = (
    ("tdiv(x, 1)", "x"),
    ("tdiv(0, x)", "0"),
    ("tdiv(x, x)", "1"),
    ("tdiv(tdiv(x, c1), c2)", "tdiv(x, c1 * c2)", "c1 > 0 and c2 > 0"),
    ("tdiv(tdiv(x, c1) + c2, c3)", "tdiv(x + c1 * c2, c1 * c3)", "c1 > 0 and c2 >= 0 and c3 > 0 and nonneg(x)"),
    # multiples come out
    ("tdiv(x * c1, c2)", "tdiv(x, c2 // c1)", "c1 > 0 and c2 > 0 and c2 % c1 == 0"),
    ("tdiv(x * c1, c2)", "x * (c1 // c2)", "c2 > 0 and c1 % c2 == 0"),
    ("tdiv(x * c1 + y, c2)", "x * (c1 // c2) + tdiv(y, c2)",
     "c2 > 0 and c1 % c2 == 0 and nonneg(x * c1) and nonneg(y)"),
    ("tdiv(y + x * c1, c2)", "tdiv(y, c2) + x * (c1 // c2)",
     "c2 > 0 and c1 % c2 == 0 and nonneg(x * c1) and nonneg(y)"),
    ("tdiv((x * c1 + y) + z, c2)", "x * (c1 // c2) + tdiv(y + z, c2)",
     "c2 > 0 and c1 % c2 == 0 and nonneg(x * c1) and nonneg(y + z)"),
    ("tdiv((y + x * c1) + z, c2)", "x * (c1 // c2) + tdiv(y + z, c2)",
     "c2 > 0 and c1 % c2 == 0 and nonneg(x * c1) and nonneg(y + z)"),
    ("tdiv(x + c1, c2)", "tdiv(x, c2) + c1 // c2",
     "c2 > 0 and c1 % c2 == 0 and nonneg(x) and nonneg(x + c1)"),
    ("tdiv(min(x * c1, y), c2)", "min(x * (c1 // c2), tdiv(y, c2))", "c2 > 0 and c1 % c2 == 0"),
    ("tdiv(min(y, x * c1), c2)", "min(tdiv(y, c2), x * (c1 // c2))", "c2 > 0 and c1 % c2 == 0"),
    ("tdiv(max(x * c1, y), c2)", "max(x * (c1 // c2), tdiv(y, c2))", "c2 > 0 and c1 % c2 == 0"),
    ("tdiv(max(y, x * c1), c2)", "max(tdiv(y, c2), x * (c1 // c2))", "c2 > 0 and c1 % c2 == 0"),
    # of what is no constant
    ("~tdiv(x + y, x)", "tdiv(y, x) + 1", "nonneg(x) and nonneg(y)"),
    ("tdiv((x + y) + z, x)", "tdiv(y + z, x) + 1", "nonneg(x) and nonneg(y + z)"),
    ("tdiv((y + x) + z, x)", "tdiv(y + z, x) + 1", "nonneg(x) and nonneg(y + z)"),
    ("tdiv(y + (x + z), x)", "tdiv(y + z, x) + 1", "nonneg(x) and nonneg(y + z)"),
    ("tdiv(y + (z + x), x)", "tdiv(y + z, x) + 1", "nonneg(x) and nonneg(y + z)"),
    ("~tdiv(x * y, y)", "x"),
    ("tdiv(x * z + y, z)", "x + tdiv(y, z)", "nonneg(x) and nonneg(y) and nonneg(z)"),
    ("tdiv(z * x + y, z)", "x + tdiv(y, z)", "nonneg(x) and nonneg(y) and nonneg(z)"),
    ("tdiv(y + x * z, z)", "tdiv(y, z) + x", "nonneg(x) and nonneg(y) and nonneg(z)"),
    ("tdiv(y + z * x, z)", "tdiv(y, z) + x", "nonneg(x) and nonneg(y) and nonneg(z)"),
    # what bounds say
    ("tdiv(x, y)", "0", "nonneg(x) and lt(x, y)"),
)

TRUNC_MOD = (
    ("tmod(x, c1)", "tmod(x, -c1)", "c1 < 0"),
    ("tmod(x, 1)", "0"),
    ("tmod(x, x)", "0"),
    ("tmod(0, x)", "0"),
    ("tmod(x * c1, c2)", "0", "c1 % c2 == 0"),
    ("tmod(x * c1 + y, c2)", "tmod(y, c2)", "c1 % c2 == 0 and nonneg(x * c1) and nonneg(y)"),
    ("tmod(y + x * c1, c2)", "tmod(y, c2)", "c1 % c2 == 0 and nonneg(x * c1) and nonneg(y)"),
    ("tmod(x + c1, c2)", "tmod(x, c2)", "c1 % c2 == 0 and nonneg(x) and nonneg(x + c1)"),
    ("~tmod(x * y, y)", "0"),
    ("tmod(x, y)", "x", "nonneg(x) and lt(x, y)"),
)

ROWS = (*FLOOR_DIV, *FLOOR_MOD, *TRUNC_DIV, *TRUNC_MOD)
