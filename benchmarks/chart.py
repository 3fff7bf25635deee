"""A bar chart as SVG, without a library: readable on light and on dark pages."""
from __future__ import annotations

from html import escape

# Of bars, in the order of the sides; chosen to be told apart on white and on black.
COLORS = ("#e4572e", "#4c8dc9", "#8e8e93")
WIDTH, LEFT, RIGHT, TOP = 820, 150, 60, 64
BAR, GAP = 9, 9  # a bar's height; the distance between groups

STYLE = """text { font: 12px system-ui, sans-serif; fill: #24292f; }
.title { font-size: 15px; font-weight: 600; }
.axis { stroke: #8c959f; stroke-width: 1; }
.one { stroke: #57606a; stroke-width: 1; stroke-dasharray: 4 3; }
.value { font-size: 10px; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .axis { stroke: #6e7681; }
  .one { stroke: #b1bac4; }
}"""


def bar_chart(groups, title):
    """The SVG text of groups of horizontal bars.

    groups: [(label, {side: value, None where there is none})], each with the same sides; 1 is marked by a line.
    """
    sides = list(groups[0][1])
    most = max([1.0, *(v for _, values in groups for v in values.values() if v)]) * 1.02
    scale = (WIDTH - LEFT - RIGHT) / most
    step = BAR * len(sides) + GAP
    bottom = TOP + step * len(groups)
    parts = [f'<text class="title" x="{LEFT}" y="20">{escape(title)}</text>', *_legend(sides)]
    for n, (label, values) in enumerate(groups):
        y = TOP + n * step
        parts.append(f'<text x="{LEFT - 8}" y="{y + step / 2:.0f}" text-anchor="end">{escape(label)}</text>')
        for k, side in enumerate(sides):
            parts += _bar(y + k * BAR, values[side], COLORS[k % len(COLORS)], scale)
    one = LEFT + scale
    parts += [f'<line class="axis" x1="{LEFT}" y1="{TOP - 4}" x2="{LEFT}" y2="{bottom}"/>',
              f'<line class="one" x1="{one:.1f}" y1="{TOP - 4}" x2="{one:.1f}" y2="{bottom}"/>']
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{bottom + 8}" '
            f'viewBox="0 0 {WIDTH} {bottom + 8}" role="img" aria-label="{escape(title)}">\n<style>\n{STYLE}\n</style>\n'
            + "\n".join(parts) + "\n</svg>\n")


def _legend(sides):
    x = LEFT
    for k, side in enumerate(sides):
        yield f'<rect x="{x}" y="34" width="12" height="12" fill="{COLORS[k % len(COLORS)]}"/>'
        yield f'<text x="{x + 18}" y="44">{escape(side)}</text>'
        x += 40 + 8 * len(side)


def _bar(y, value, color, scale):
    if value is None:
        return [f'<text class="value" x="{LEFT + 4}" y="{y + BAR - 1}">fails</text>']
    width = value * scale
    return [f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR - 1}" fill="{color}"/>',
            f'<text class="value" x="{LEFT + width + 4:.1f}" y="{y + BAR - 1}">{value:.2f}</text>']
