"""Which part of a network is computed in bands of rows, so that its arena is small enough: few kernels, few bands.

Candidates are runs of kernels around all moments at which too much is alive. What each would need is told from the
graph alone (`Layout`), without fusing or scheduling it; the network is compiled for those that promise to fit.
"""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..ir.expr import IntImm
from ..ir.relax.expr import RelaxCall
from ..ir.relax.memory import ALIASES, Memory
from ..ir.transform.graph import leaves
from ..ir.transform.stream_rows import Images, Steps, Streaming, rows_of
from .memory_plan import ALIGN

BANDS = (2, 3, 4, 5, 6, 8, 10, 12, 16)
MOST_KERNELS = 24  # of a part, on each side of the fullest moments: images are large at first, not behind many kernels


@dataclass(frozen=True)
class Candidate:
    """A Streaming, and about how many bytes are alive at most."""

    streaming: Streaming
    bytes: int


class Layout:
    """What is alive when. unfused: the graph before operators are fused; fused: the same network, its kernels.

    kernels: the numbers of the unfused bindings whose values kernels write; own: {name of a variable that has memory of
    its own: (bytes, (first, last) binding that it is alive at)}."""

    def __init__(self, unfused, fused):
        self.func = unfused["main"]
        self.steps = Steps(self.func)
        self.number = {b.var.name: n for n, b in enumerate(self.func.bindings)}
        self._memory(fused["main"])
        self.alive = {k: sum(size for size, (first, last) in self.own.values() if first <= k <= last)
                      for k in self.kernels}
        self.most = max(self.alive.values(), default=0)

    def _memory(self, main):
        memory = Memory(main)
        seen = {memory.place(out).owner for out in main.outputs}  # by callers, in whose memory it is
        self.kernels, self.own, lives, now = [], {}, {}, 0
        for b in (b for b in main.bindings if isinstance(b.value, RelaxCall)):
            now = self.number.get(b.var.name, now)
            for owner in {o for v in (b.var, *leaves(b.value)) for o in _owners(memory, v)}:
                if memory.is_computed(owner):
                    lives[owner] = lives.get(owner, (now,))[0], now
            if b.value.op not in ALIASES and b.var.name in self.number:
                self.kernels.append(now)
        for owner, life in lives.items():
            var, info = memory.values[owner]
            self.own[var.name] = bytes_of(info) if owner not in seen else 0, life

    # ------------------------------------------------------------ candidates

    def part(self, most):
        """The Candidate of the fewest kernels with which not more than about so many bytes are alive; None without one.
        """
        return next((c for c in self.candidates(most) if c.bytes <= most), None)

    def least(self):
        """About the Candidate with which the fewest bytes are alive; None where none makes them fewer."""
        best, found = None, self.part(self.most - 1)
        while found is not None:
            best, found = found, self.part(found.bytes * 15 // 16)
        return best

    def candidates(self, most):
        """The Candidates of parts of a network without which not more than so many bytes are alive, those of the fewest
        kernels first: each of the fewest bands with which it fits, or of the most where it never does."""
        full = [n for n, k in enumerate(self.kernels) if self.alive[k] > most]
        if not full:
            return
        firsts = range(max(full[0] - MOST_KERNELS, 0), full[0] + 1)
        lasts = range(full[-1], min(full[-1] + MOST_KERNELS, len(self.kernels)))
        done = set()
        for p, q in sorted(((p, q) for p in firsts for q in lasts), key=lambda pair: (pair[1] - pair[0], pair)):
            first, last = self.kernels[p - 1] + 1 if p else 0, self.kernels[q]
            size = self.own.get(self.func.bindings[last].var.name, (most + 1,))[0]
            if first < last and size <= most and rows_of(self.func.bindings[last].var) >= BANDS[0]:
                members = self.steps.members(first, last)
                if members and members not in done and self._reads_memory(members) and (
                        rest := self._rest(members)) <= most:
                    done.add(members)
                    yield self._of(members, most, rest)

    def _of(self, members, most, rest):
        """The Candidate of one part. rest: what _rest says of it."""
        first, last = (self.func.bindings[n].var for n in (members[0], members[-1]))
        beside, found = self._beside(members), []
        for bands in (n for n in (BANDS[-1], *BANDS) if n <= rows_of(last)):
            size = max(beside + self._in_bands(Images(self.steps, members, bands)), rest)
            found.append(Candidate(Streaming(first.name, last.name, bands), size))
            if size <= most and bands != BANDS[-1]:
                return found[-1]
            if size > most and bands == BANDS[-1]:
                break
        return min(found, key=lambda c: c.bytes)

    def _reads_memory(self, members):
        """Whether all that a part reads lies in memory as it is: nothing computes it on its way to another place."""
        inside = set(members)
        read = {self.number.get(v.name) for n in members for v in leaves(self.func.bindings[n].value)} - {None}
        return all(self.func.bindings[n].var.name in self.own for n in read - inside)

    def _rest(self, members):
        """The most bytes that are alive at other times than those of a part."""
        inside = set(members)
        return max((size for k, size in self.alive.items() if k not in inside), default=0)

    def _beside(self, members):
        """Bytes that are alive beside a part while it runs: what it reads and gives, and what comes through."""
        bindings, now = self.func.bindings, members[-1]
        inside = {bindings[n].var.name for n in members[:-1]}
        needed = {v.name for n in members for v in leaves(bindings[n].value)}
        return sum(size for name, (size, (first, end)) in self.own.items()
                   if name not in inside and first <= now and (end >= now or name in needed))

    def _in_bands(self, images):
        """The most bytes of a part's images that are alive at one time, without its result."""
        last_use, most = self._last_uses(images), 0
        now, kept = {}, {}  # id(image): bytes
        for band in range(images.bands):
            for n, image in enumerate(images.all):
                first, end = image.new(band)
                if image is not images.last and self._has_memory(images, image):
                    now[id(image)] = (end - first + image.again(band)) * _row_bytes(image)
                most = max(most, sum(now.values()) + sum(kept.values()))
                kept.pop(id(image), None)
                for source in [s for s in images.all if id(s) in now and last_use[id(s)] <= n]:
                    del now[id(source)]
                    if band + 1 < images.bands:
                        kept[id(source)] = source.again(band + 1) * _row_bytes(source)
        return most

    def _has_memory(self, images, image):
        return image.binding.var.name in self.own or any(map(image.again, range(images.bands)))

    def _last_uses(self, images):
        """{id(image): the number of the image whose kernel reads it last}."""
        at, last = {id(image): n for n, image in enumerate(images.all)}, {}
        for image in reversed(images.all):  # a kernel runs where its last operator is
            runs = at[id(image)]
            if image is not images.last and not self._has_memory(images, image):
                runs = last.get(id(image), runs)
            for source in images.sources(image):
                last[id(source)] = max(last.get(id(source), 0), runs)
        return last


def _row_bytes(image):
    return bytes_of(image.binding.var.struct_info) // image.rows


def bytes_of(info):
    """Bytes of a tensor in an arena; 0 where its size is not constant."""
    if not all(isinstance(d, IntImm) for d in info.shape):
        return 0
    return -(-prod(d.value for d in info.shape) * info.dtype.bytes // ALIGN) * ALIGN


def _owners(memory, value):
    """The owners of the memory that a variable's values are in."""
    infos = getattr(value.struct_info, "fields", (None,))
    if len(infos) > 1:
        return [(id(value), n) for n in range(len(infos))]
    return [memory.place(value).owner]
