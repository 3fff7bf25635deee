"""The one Jinja environment. A template may choose, repeat and place; it never decides.

`[[ x ]]` prints a value and `[% if x %]` is a statement, so that C, Make and CMake text stays as it is.
"""
from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import jinja2

from .c_layout import folded, folded_arguments, folded_comments, folded_prose, folded_rules

FOLDS = {".c": folded, ".h": folded, ".cu": folded, ".S": folded_comments, ".md": folded_prose,
         ".txt": folded_arguments, "Makefile": folded_rules}
TEMPLATES = Path(__file__).parent.parent / "templates"


@lru_cache(maxsize=1)
def environment():
    """Undefined names are errors; block lines leave no blank lines behind."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), undefined=jinja2.StrictUndefined, autoescape=False,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
        variable_start_string="[[", variable_end_string="]]", block_start_string="[%", block_end_string="%]",
        comment_start_string="[#", comment_end_string="#]")


def render(template, **context):
    """The text of templates/`template` with `context`, its long lines broken, which names make long. Raises
    jinja2.UndefinedError for a name that is missing."""
    text = environment().get_template(template).render(context)
    fold = FOLDS.get(Path(template).suffix or Path(template).name)
    return fold(text) if fold else text
