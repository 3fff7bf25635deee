"""Rows of rewrite_simplify for the lesser and the greater of two numbers. Rows of max mirror those of min."""
import re

MIN = (
    ("min(x, x)", "x"),
    ("~min(max(x, y), min(x, y))", "min(x, y)"),
    ("min(x, y)", "x", "le(x, y)"),
    ("min(x, y)", "y", "le(y, x)"),
    # quotients and remainders
    ("~min(div(x + c1, c2) * c2, x)", "x", "c2 > 0 and c1 == c2 - 1"),
    ("~min(div(x + c1, c2) * c2, max(x, c2))", "max(x, c2)", "c2 > 0 and c1 == c2 - 1 and pos(x)"),
    ("min(div(x, c1), div(y, c1))", "div(min(x, y), c1)", "c1 > 0"),
    ("min(div(x, c1), div(y, c1))", "div(max(x, y), c1)", "c1 < 0"),
    # choices of choices
    ("~min(max(x, y), x)", "x"),
    ("min(min(x, y), y)", "min(x, y)"),
    ("min(min(x, y), x)", "min(x, y)"),
    ("min(x, min(x, y))", "min(x, y)"),
    ("min(y, min(x, y))", "min(x, y)"),
    ("min(min(min(x, y), z), y)", "min(min(x, y), z)"),
    ("min(min(min(min(x, y), z), w), y)", "min(min(min(x, y), z), w)"),
    ("min(min(min(min(min(x, y), z), w), u), y)", "min(min(min(min(x, y), z), w), u)"),
    ("~min(max(x, y), max(x, z))", "max(min(y, z), x)"),
    ("min(min(x, c1), c2)", "min(x, min(c1, c2))"),
    # what both have
    ("~min(x + y, x + z)", "min(y, z) + x"),
    ("min(x - y, x - z)", "x - max(y, z)"),
    ("min(y - x, z - x)", "min(y, z) - x"),
    ("min(x * c1, c2)", "min(x, c2 // c1) * c1", "c1 > 0 and c2 % c1 == 0"),
    ("min(x * c1, c2)", "max(x, c2 // c1) * c1", "c1 < 0 and c2 % c1 == 0"),
    ("min(x * c1, y * c1)", "min(x, y) * c1", "c1 > 0"),
    ("min(x * c1, y * c1)", "max(x, y) * c1", "c1 < 0"),
    ("~min(x * y, x * z)", "x * min(y, z)", "nonneg(x)"),
    ("min(c1 - x, c2)", "c1 - max(x, c1 - c2)"),
    ("min(select(b, x, y), select(b, z, w))", "select(b, min(x, z), min(y, w))"),
)
MIN_ALONE = (
    ("~min(x // c1 * c1, x)", "x // c1 * c1", "c1 > 0"),
)
MAX_ALONE = (
    ("~max(div(x + c1, c2) * c2, x)", "div(x + c1, c2) * c2", "c2 > 0 and c1 == c2 - 1"),
    ("~max(x // c1 * c1, x)", "x", "c1 > 0"),
)
BEFORE_ROUNDING = 4  # the two rows of MIN after these do not turn around: division rounds one way


def _mirrored(row):
    """A row of min as one of max: the order of numbers turned around."""
    turned = re.sub(r"\b(min|max)\b", lambda m: "max" if m[0] == "min" else "min", "|".join(row[:2])).split("|")
    condition = row[2] if len(row) > 2 else None
    if condition and condition.startswith("le("):
        condition = re.sub(r"le\((\w), (\w)\)", r"le(\2, \1)", condition)
    return (*turned, condition)


MAX = tuple(_mirrored(row) for row in (*MIN[:BEFORE_ROUNDING], *MIN[BEFORE_ROUNDING + 2:]))
ROWS = (*MIN, *MIN_ALONE, *MAX, *MAX_ALONE)
