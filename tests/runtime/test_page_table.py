"""Which rows lie where in a paged cache: any order of operations keeps the rows of all sequences, as lists would."""
import numpy as np
import pytest

from ingot.runtime.page_table import PageTable

SIZE = 4


class Model:
    """A PageTable beside lists of rows; rows are numbers, written into a memory of all pages."""

    def __init__(self, pages):
        self.memory, self.lists, self.windows, self.next = np.full(pages * SIZE, -1), {}, {}, 0
        self.table = PageTable(pages, SIZE, self.copy)

    def copy(self, page, to, rows):
        self.memory[to * SIZE:to * SIZE + rows] = self.memory[page * SIZE:page * SIZE + rows]

    def append(self, name, count):
        sequence, rows = self.table[name], list(range(self.next, self.next + count))
        self.next += count
        self.table.own(sequence)
        for place, row in zip(self.table.append(sequence, count), rows):
            if place >= 0:
                self.memory[place] = row
        kept = self.lists[name] + rows
        if name in self.windows and len(kept) > self.windows[name][0]:
            window, sinks = self.windows[name]
            kept = kept[:sinks] + kept[len(kept) - window + sinks:]
        self.lists[name] = kept

    def check(self):
        for name, rows in self.lists.items():
            sequence = self.table[name]
            assert [self.memory[p] for p in self.table.positions(sequence, range(sequence.length))] == rows
        used = [p for s in self.table.sequences.values() for p in s.pages]
        assert len(self.table.free) + len(set(used)) == self.table.total
        assert [self.table.users[p] for p in range(self.table.total)] == [used.count(p) for p in range(self.table.total)]


@pytest.mark.parametrize("seed", range(6))
def test_rows_stay_where_they_are_looked_for(seed):
    rng, model = np.random.default_rng(seed), Model(200)
    for n in range(150):
        names = list(model.lists)
        name = names[rng.integers(len(names))] if names else None
        what = rng.choice(["add", "append", "append", "append", "fork", "pop", "window", "remove"])
        if what == "add" or name is None:
            model.table.add(n)
            model.lists[n] = []
        elif what == "append":
            model.append(name, int(rng.integers(1, 11)))
        elif what == "fork":
            sequence = model.table[name]
            length = int(rng.integers(0, (sequence.sinks if sequence.moved else sequence.length) + 1))
            model.table.fork(name, n, length)
            model.lists[n] = model.lists[name][:length]
        elif what == "pop":
            count = int(rng.integers(0, len(model.lists[name]) + 1))
            model.table.pop(name, count)
            model.lists[name] = model.lists[name][:len(model.lists[name]) - count]
        elif what == "window" and name not in model.windows:
            window = len(model.lists[name]) + int(rng.integers(1, 9))
            model.windows[name] = window, int(rng.integers(0, min(window, 7)))
            model.table.slide_by(name, *model.windows[name])
        elif what == "remove" and len(names) > 6:
            model.table.remove(name)
            del model.lists[name]
            model.windows.pop(name, None)
        model.check()
    for name in list(model.lists):
        model.table.remove(name)
    assert sorted(model.table.free) == list(range(200))


def test_a_long_prompt_takes_no_pages_that_its_window_leaves():
    model = Model(4)
    model.table.add(0)
    model.lists[0], model.windows[0] = [], (10, 2)
    model.table.slide_by(0, 10, 2)
    model.append(0, 100)
    model.check()
    assert model.lists[0] == [0, 1, *range(92, 100)]


def test_errors_name_the_sequence():
    table = Model(2).table
    table.add(5)
    table.append(table[5], 6)
    for call, args, words in (
            ("add", (5,), "sequence 5 is already"), ("remove", (6,), "sequence 6 cannot be found"),
            ("fork", (5, 7, 9), "has 6 rows and cannot be forked at 9"), ("pop", (5, 7), "7 rows cannot be taken off"),
            ("slide_by", (5, 4, 4), "from 0 to 3")):
        with pytest.raises(ValueError, match=words):
            getattr(table, call)(*args)
    table.slide_by(5, 5, 2)
    with pytest.raises(ValueError, match="a window of 5 rows already"):
        table.slide_by(5, 6, 2)
    table.append(table[5], 1)
    with pytest.raises(ValueError, match="it can be forked within its first 2 rows"):
        table.fork(5, 8, 3)
    table.fork(5, 8, 2)
    with pytest.raises(RuntimeError, match="all 2 pages of 4 rows are in use"):
        table.own(table[8])
