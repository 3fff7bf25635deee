"""What of a model cannot be imported, as the lines of one error."""
from __future__ import annotations


def listed(problems):
    """A line for each kind of problem, with the first node that has it and how many more do; None without any.

    problems: (what is wrong with a node, or None; the node's title) of each.
    """
    found = {}
    for problem, title in problems:
        if problem:
            found.setdefault(problem, []).append(title)
    return "\n".join(f"  {problem}: {titles[0]}" + (f" and {len(titles) - 1} more" if len(titles) > 1 else "")
                     for problem, titles in found.items()) or None
