"""Rows of rewrite_simplify for sums, differences and products. pattern.py tells how to read them."""

# a sum into what min or max chooses from, where it cancels: (choice, what is added, result, condition)
_CHOICES = (
    ("min(x, y - z)", "z", "min(x + z, y)", "True"),
    ("min(x - z, y)", "z", "min(x, y + z)", "True"),
    ("min(x, y + c1)", "c2", "min(x + c2, y)", "c1 == -c2"),
    ("min(x + c1, y)", "c2", "min(x, y + c2)", "c1 == -c2"),
    ("min(x, y + z * c1)", "z * c2", "min(x + z * c2, y)", "c1 == -c2"),
    ("min(x, z * c1 + y)", "z * c2", "min(x + z * c2, y)", "c1 == -c2"),
    ("min(x + z * c1, y)", "z * c2", "min(x, y + z * c2)", "c1 == -c2"),
    ("min(z * c1 + x, y)", "z * c2", "min(x, y + z * c2)", "c1 == -c2"),
)
INTO_CHOICES = tuple((pattern.replace("min", kind), result.replace("min", kind), condition)
                     for choice, more, result, condition in _CHOICES for kind in ("min", "max")
                     for pattern in (f"{choice} + {more}", f"{more} + {choice}"))

ADD = (
    # constants to the right, and together
    ("c1 + x", "x + c1", "not constant(x)"),
    ("x + 0", "x"),
    ("(x + c1) + c2", "x + (c1 + c2)"),
    ("(c1 - x) + c2", "(c1 + c2) - x"),
    # what cancels
    ("~(x - y) + y", "x"),
    ("~(x - y) + (y - z)", "x - z"),
    ("~(x - y) + (z - x)", "z - y"),
    ("~max(x, y) + min(x, y)", "x + y"),
    ("min(c1 - x, 0) + x", "min(x, c1)"),
    ("max(c1 - x, 0) + x", "max(x, c1)"),
    ("min(x * c1 + c2, 0) + x * c3", "min(x * c3, c2)", "c1 == -c3"),
    ("max(x * c1 + c2, 0) + x * c3", "max(x * c3, c2)", "c1 == -c3"),
    *INTO_CHOICES,
    # quotients and remainders
    ("~x // y * y + x % y", "x"),
    ("~tdiv(x, y) * y + tmod(x, y)", "x"),
    ("~x // 2 + x % 2", "(x + 1) // 2"),
    ("~x % 2 + (x + c1) % 2", "1", "c1 % 2 == 1"),
    ("~(x % c1 + c2) // c1 + x // c1", "(x + c2) // c1", "c1 > 0"),
    # common factors
    ("x + x", "x * 2"),
    ("~x * y + x", "x * (y + 1)"),
    ("~x * y + x * z", "x * (y + z)", "not constant(x)"),
    # one choice
    ("select(b, x, y) + select(b, z, w)", "select(b, x + z, y + w)"),
    # constants outward
    ("(x + c1) + y", "(x + y) + c1"),
    ("x + (y + c1)", "(x + y) + c1"),
    ("(c1 - x) + y", "(y - x) + c1"),
    ("x + (c1 - y)", "(x - y) + c1"),
)

SUB = (
    ("x - 0", "x"),
    ("x - x", "0"),
    ("(c1 - x) - c2", "(c1 - c2) - x"),
    ("x - c1", "x + -c1"),
    ("c1 - (x + c2)", "(c1 - c2) - x"),
    ("c1 - (c2 - x)", "x + (c1 - c2)"),
    # what cancels
    ("(x + y) - y", "x"),
    ("(x + y) - x", "y"),
    ("~x - (y + x)", "0 - y"),
    ("(x - y) - x", "0 - y"),
    ("x - (x - y)", "y"),
    ("~(x + y) - (x + z)", "y - z"),
    ("(x - y) - (x - z)", "z - y"),
    ("(x - y) - (z - y)", "x - z"),
    ("min(x, y) - x", "min(0, y - x)"),
    ("min(x, y) - y", "min(x - y, 0)"),
    ("max(x, y) - x", "max(0, y - x)"),
    ("max(x, y) - y", "max(x - y, 0)"),
    ("x - min(x, y)", "max(0, x - y)"),
    ("y - min(x, y)", "max(y - x, 0)"),
    ("x - max(x, y)", "min(0, x - y)"),
    ("y - max(x, y)", "min(y - x, 0)"),
    ("min(x + y, z) - x", "min(y, z - x)"),
    ("min(y + x, z) - x", "min(y, z - x)"),
    ("min(z, x + y) - x", "min(z - x, y)"),
    ("min(z, y + x) - x", "min(z - x, y)"),
    ("max(x + y, z) - x", "max(y, z - x)"),
    ("max(y + x, z) - x", "max(y, z - x)"),
    ("max(z, x + y) - x", "max(z - x, y)"),
    ("max(z, y + x) - x", "max(z - x, y)"),
    ("x - min(x + y, z)", "max(0 - y, x - z)"),
    ("x - min(y + x, z)", "max(0 - y, x - z)"),
    ("x - min(z, x + y)", "max(x - z, 0 - y)"),
    ("x - min(z, y + x)", "max(x - z, 0 - y)"),
    ("x - max(x + y, z)", "min(0 - y, x - z)"),
    ("x - max(y + x, z)", "min(0 - y, x - z)"),
    ("x - max(z, x + y)", "min(x - z, 0 - y)"),
    ("x - max(z, y + x)", "min(x - z, 0 - y)"),
    ("min(x, y) - min(y, x)", "0"),
    ("max(x, y) - max(y, x)", "0"),
    ("min(x, y) - min(z, w)", "x - z", "equal(x - z, y - w)"),
    ("max(x, y) - max(z, w)", "x - z", "equal(x - z, y - w)"),
    ("min(x, y) - min(z, w)", "x - w", "equal(x - w, y - z)"),
    ("max(x, y) - max(z, w)", "x - w", "equal(x - w, y - z)"),
    # quotients and remainders
    ("x - div(x, c1) * c1", "mod(x, abs(c1))", "c1 > 0"),
    ("x - tdiv(x, c1) * c1", "tmod(x, abs(c1))", "c1 < 0"),
    ("div(x, c1) * c1 - x", "0 - mod(x, c1)", "c1 > 0"),
    ("x - div(x + y, c1) * c1", "mod(x + y, c1) - y", "c1 > 0"),
    ("div(x + y, c1) * c1 - x", "y - mod(x + y, c1)", "c1 > 0"),
    ("x - div(x - y, c1) * c1", "mod(x - y, c1) + y", "c1 > 0"),
    ("div(x - y, c1) * c1 - x", "0 - mod(x - y, c1) - y", "c1 > 0"),
    ("x * c2 - div(x, c1) * c3", "mod(x, c1) * c2", "c1 > 0 and c3 == c1 * c2"),
    ("div(x, c1) * c3 - x * c2", "mod(x, c1) * -c2", "c1 > 0 and c3 == c1 * c2"),
    ("x * c2 - div(x + y, c1) * c3", "(mod(x + y, c1) - y) * c2", "c1 > 0 and c3 == c1 * c2"),
    ("div(x + y, c1) * c3 - x * c2", "(y - mod(x + y, c1)) * c2", "c1 > 0 and c3 == c1 * c2"),
    ("x * c2 - div(x - y, c1) * c3", "(mod(x - y, c1) + y) * c2", "c1 > 0 and c3 == c1 * c2"),
    ("div(x - y, c1) * c3 - x * c2", "(0 - mod(x - y, c1) - y) * c2", "c1 > 0 and c3 == c1 * c2"),
    ("(x + 1) // 2 - x % 2", "x // 2"),
    ("(x + c1) // 2 - (x + c2) // 2", "x % 2 * (c1 % 2 - c2 % 2) + (c1 // 2 - c2 // 2)"),
    ("(x + c1) // 2 - x // 2", "x % 2 * (c1 % 2) + c1 // 2"),
    ("x // 2 - (x + c2) // 2", "x % 2 * (0 - c2 % 2) + (0 - c2 // 2)"),
    ("(x + c1) // c3 - (x + c2) // c3", "((x + c2) % c3 + (c1 - c2)) // c3", "c3 > 0 and c1 >= c2"),
    ("(x + c1) // c3 - x // c3", "(x % c3 + c1) // c3", "c3 > 0"),
    ("tdiv(x + c1, c3) - tdiv(x + c2, c3)", "tdiv(tmod(x + c2, c3) + (c1 - c2), c3)",
     "c3 > 0 and c1 >= c2 and nonneg(x + c2)"),
    ("tdiv(x + c1, c3) - tdiv(x, c3)", "tdiv(tmod(x, c3) + c1, c3)", "c3 > 0 and c1 >= 0 and nonneg(x)"),
    # common factors
    ("~x * y - x", "x * (y + -1)"),
    ("~x - x * y", "x * (1 - y)"),
    ("~x * y - x * z", "x * (y - z)", "not constant(x)"),
    # one choice
    ("select(b, x, y) - select(b, z, w)", "select(b, x - z, y - w)"),
    ("select(b, x, y) - y", "select(b, x - y, 0)"),
    ("select(b, x, y) - x", "select(b, 0, y - x)"),
    # constants outward
    ("x - (y + c1)", "(x - y) + -c1"),
    ("(x + c1) - y", "(x - y) + c1"),
    ("x - y * c1", "x + y * -c1"),
)

MUL = (
    ("c1 * x", "x * c1", "not constant(x)"),
    ("x * 0", "0"),
    ("x * 1", "x"),
    ("(x + c1) * c2", "x * c2 + c1 * c2"),
    ("(x * c1) * c2", "x * (c1 * c2)"),
    ("(x - y) * c1", "(y - x) * -c1", "c1 < 0"),
    ("~min(x, y) * max(x, y)", "x * y"),
    ("(x * c1) * y", "(x * y) * c1", "not constant(y)"),
    ("x * (y * c1)", "(x * y) * c1"),
)

ROWS = (*ADD, *SUB, *MUL)
