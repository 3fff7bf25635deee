"""Which pages the rows of sequences lie in: a cache of keys and values gives memory out in pages, and sequences that
begin alike share them. Numbers only; what is in the pages is paged_cache.py's."""
from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass
class Sequence:
    """`length` rows. Row j lies in slot j, counted through `pages`; once a window has `moved`, rows from `sinks` on lie
    from slot `start` on. window: the most rows, None for any; wanted_sinks: how many first ones stay then.

    tree: the parents of the last rows, where those are a tree of which no path has been accepted yet.
    """

    pages: list = field(default_factory=list)
    length: int = 0
    sinks: int = 0
    start: int = 0
    moved: bool = False
    window: int | None = None
    wanted_sinks: int = 0
    tree: list = field(default_factory=list)
    appended: int = 0  # rows of the last step

    def slot(self, row):
        return row if row < self.sinks else row - self.sinks + self.start

    def used(self):
        """Slots up to the last row."""
        return self.slot(self.length - 1) + 1 if self.length else 0


class PageTable:
    """`total` pages of `page_size` rows. copy(page, to, rows): copies the first rows of a page."""

    def __init__(self, total, page_size, copy):
        self.total, self.page_size, self.copy = total, page_size, copy
        self.clear()

    def clear(self):
        self.sequences, self.users = {}, [0] * self.total
        self.free = list(range(self.total - 1, -1, -1))

    def saved(self):
        """What restore takes to forget all that happens from now on."""
        copies = {k: replace(s, pages=list(s.pages), tree=list(s.tree)) for k, s in self.sequences.items()}
        return copies, list(self.users), list(self.free)

    def restore(self, saved):
        self.sequences, self.users, self.free = saved

    # ------------------------------------------------------------ sequences

    def __getitem__(self, seq_id):
        """The Sequence. ValueError for one that is not there."""
        if seq_id not in self.sequences:
            raise ValueError(f"The sequence {seq_id} cannot be found in the KV cache; kv_state_add_sequence adds one")
        return self.sequences[seq_id]

    def _new(self, seq_id, sequence):
        if seq_id in self.sequences:
            raise ValueError(f"The sequence {seq_id} is already in the KV cache")
        self.sequences[seq_id] = sequence

    def add(self, seq_id):
        """A sequence of no rows."""
        self._new(seq_id, Sequence())

    def remove(self, seq_id):
        """Forget a sequence; pages that no other one has are free."""
        self._release(self[seq_id].pages)
        del self.sequences[seq_id]

    def fork(self, parent_id, child_id, position=-1):
        """A sequence of the first `position` rows of another (-1: all), in the same pages: which of the two adds to one
        that is not full gets a page of its own for it. ValueError for rows that are not there, or not all of them."""
        parent = self[parent_id]
        if not -1 <= position <= parent.length:
            raise ValueError(f"sequence {parent_id} has {parent.length} rows and cannot be forked at {position}")
        self.committed(parent_id)
        length = parent.length if position == -1 else position
        if parent.moved and length > parent.sinks:
            raise ValueError(f"the window of sequence {parent_id} has moved on: it can be forked within its first "
                             f"{parent.sinks} rows, its attention sinks, not at {length}")
        pages = parent.pages[:-(-length // self.page_size)]
        self._new(child_id, Sequence(list(pages), length))
        for page in pages:
            self.users[page] += 1

    def pop(self, seq_id, count):
        """Forget the last rows. ValueError for more than there are."""
        sequence = self[seq_id]
        if not 0 <= count <= sequence.length:
            raise ValueError(f"{count} rows cannot be taken off sequence {seq_id}, which has {sequence.length}")
        sequence.length -= count
        if sequence.length <= sequence.sinks:
            sequence.sinks, sequence.start, sequence.moved = 0, 0, False
        kept = -(-sequence.used() // self.page_size)
        self._release(sequence.pages[kept:])
        del sequence.pages[kept:]

    def slide_by(self, seq_id, window, sinks):
        """Keep at most `window` rows of a sequence from now on: the first `sinks` and the last ones."""
        sequence = self[seq_id]
        if not 0 <= sinks < window:
            raise ValueError(f"a window of {window} rows cannot have {sinks} attention sinks: from 0 to {window - 1}")
        if sequence.window is not None:
            raise ValueError(f"sequence {seq_id} has a window of {sequence.window} rows already")
        sequence.window, sequence.wanted_sinks = window, sinks

    def committed(self, seq_id):
        """ValueError where the last rows are a tree of which no path has been accepted."""
        if self[seq_id].tree:
            raise ValueError(f"the token tree of sequence {seq_id} has not been committed: call "
                             "attention_kv_cache_commit_accepted_token_tree_nodes first")

    # ------------------------------------------------------------ pages

    def _take(self):
        if not self.free:
            raise RuntimeError(f"The KV cache is full: all {self.total} pages of {self.page_size} rows are in use. Remove "
                               "sequences, or create the cache with a larger max_total_seq_len")
        page = self.free.pop()
        self.users[page] = 1
        return page

    def _release(self, pages):
        """Give pages back, those that nobody else has to be taken again."""
        for page in reversed(pages):
            self.users[page] -= 1
            if not self.users[page]:
                self.free.append(page)

    def own(self, sequence):
        """Give a sequence a page of its own for the rows it adds next, where it shares one that is not full."""
        index, rows = divmod(sequence.slot(sequence.length), self.page_size)
        if index < len(sequence.pages) and self.users[sequence.pages[index]] > 1:
            page = self._take()
            self.copy(sequence.pages[index], page, rows)
            self._release([sequence.pages[index]])
            sequence.pages[index] = page

    def append(self, sequence, count):
        """Room for `count` more rows: their positions (page * page_size + row), -1 for those that a window leaves out.
        Call `own` before."""
        size, old = self.page_size, replace(sequence)
        rows = range(old.length, old.length + count)
        sequence.length = min(rows.stop, sequence.window or rows.stop)
        slid = rows.stop - sequence.length
        if slid:
            if not old.moved:
                sequence.sinks, sequence.start, sequence.moved = sequence.wanted_sinks, sequence.wanted_sinks, True
                old = replace(sequence)
            sequence.start += slid
        sequence.appended = count
        first, last = -(-sequence.sinks // size), sequence.start // size  # pages that the window has left
        gone = range(first, last) if slid else range(0)
        self._release([sequence.pages[p] for p in gone if p < len(sequence.pages)])
        for index in range(len(sequence.pages), -(-sequence.used() // size)):
            sequence.pages.append(None if index in gone else self._take())
        positions = []
        for row in rows:
            slot = old.slot(row)
            kept = not slid or row < sequence.sinks or row >= sequence.sinks + slid
            positions.append(sequence.pages[slot // size] * size + slot % size if kept else -1)
        del sequence.pages[gone.start:gone.stop]
        sequence.start -= len(gone) * size
        return positions

    def positions(self, sequence, rows):
        """Where rows lie."""
        slots = map(sequence.slot, rows)
        return [sequence.pages[s // self.page_size] * self.page_size + s % self.page_size for s in slots]


__all__ = ["PageTable", "Sequence"]
