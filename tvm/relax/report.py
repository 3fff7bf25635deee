"""Report: what VirtualMachine.profile gives."""
from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A call: its name, seconds, and (dtype, shape) of its tensors."""

    name: str
    seconds: float
    tensors: tuple

    @property
    def shapes(self):
        return ", ".join(f"{dtype}[{', '.join(map(str, shape))}]" for dtype, shape in self.tensors)


@dataclass(frozen=True)
class Report:
    """rows: the calls of a run, in order; seconds: of the whole run. str() is a table."""

    rows: tuple
    seconds: float

    @property
    def calls(self):
        """The calls as dicts, in the names of columns."""
        return [{"Name": r.name, "Duration (us)": r.seconds * 1e6, "Percent": self._percent(r.seconds),
                 "Device": "cpu0", "Count": 1, "Argument Shapes": r.shapes} for r in self.rows]

    def _percent(self, seconds):
        return 100 * seconds / self.seconds if self.seconds else 0.0

    def table(self, sort=True, aggregate=True, col_sums=True):
        """A table as text. aggregate: calls of one name and one list of shapes in a line; sort: the longest first;
        col_sums: with a line of sums and one of the whole run."""
        rows = [[c["Name"], c["Duration (us)"], c["Count"], c["Argument Shapes"]] for c in self.calls]
        if aggregate:
            found = {}
            for name, us, count, shapes in rows:
                row = found.setdefault((name, shapes), [name, 0.0, 0, shapes])
                row[1], row[2] = row[1] + us, row[2] + count
            rows = list(found.values())
        rows = sorted(rows, key=lambda r: -r[1]) if sort else rows
        sums = [["Sum", sum(r[1] for r in rows), sum(r[2] for r in rows), ""],
                ["Total", self.seconds * 1e6, 1, ""]] if col_sums else []
        width = max([4, *(len(r[0]) for r in rows)])
        head = f"{'Name':{width}}  {'Duration (us)':>13}  {'Percent':>7}  {'Device':>6}  {'Count':>5}  Argument Shapes"
        return "\n".join([head, *(
            f"{name:{width}}  {us:13,.2f}  {self._percent(us * 1e-6):7.2f}  {'cpu0':>6}  {count:5}  {shapes}".rstrip()
            for name, us, count, shapes in (*rows, *sums))])

    __str__ = table

    def csv(self):
        """The calls as comma-separated values."""
        text = io.StringIO()
        writer = csv.DictWriter(text, ["Name", "Duration (us)", "Percent", "Device", "Count", "Argument Shapes"])
        writer.writeheader()
        writer.writerows(self.calls)
        return text.getvalue()

    def json(self):
        """The calls and the whole run as JSON."""
        return json.dumps({"calls": self.calls, "device_metrics": {"cpu0": {"Duration (us)": self.seconds * 1e6}}})
