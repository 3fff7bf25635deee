"""Run-time dispatch: a folder with one network for several targets; the C takes the best that a processor runs.

For each target the folder holds a complete network, NAME_TARGET, whose files are built with the flags of that target;
NAME.c has the interface, and hands calls on. Equal weights lie in the file of weights once, which is divided among groups,
and read call by call where it is streamed, as that of one target is. Each memory is as large as the most that a target
needs of it.
"""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from ..ir.relax.accuracy import PROMISES
from .c_names import MOST_NETWORK
from .c_types import identifier
from .kernels import bounds_of
from .output_folder import write_folder
from .package import ARENA_ALIGN, INT_MAX, CompiledModel, Folder, objects_of, package_version, runtime_files
from .program import header_bytes, named, sharing_weights
from .sbom import bill_of_materials
from .target import Target, TargetError
from .toolchains import COMMON, toolchain

BETWEEN = "+"  # of the names of targets

# Where a processor says that it has what a word of Target.isa means: (word, bit) of runtime_c/ingot_dispatch.h.
FEATURE_BITS = {
    "x86_64": {word: (n, bit) for n, row in enumerate((
        {"ssse3": 9, "fma": 12, "cx16": 13, "sse4_1": 19, "sse4_2": 20, "movbe": 22, "popcnt": 23, "xsave": 26,
         "avx": 28, "f16c": 29},
        {"bmi1": 3, "avx2": 5, "bmi2": 8, "avx512f": 16, "avx512dq": 17, "avx512cd": 28, "avx512bw": 30,
         "avx512vl": 31},
        {"avx512vbmi": 1, "avx512_vbmi2": 6, "avx512_vnni": 11},
        {"amx_bf16": 22, "amx_tile": 24, "amx_int8": 25},
        {"avx_vnni": 4, "avx512_bf16": 5})) for word, bit in row.items()},
    "aarch64": {word: (n, bit) for n, row in enumerate((
        {"asimd": 1, "crc32": 7, "atomics": 8, "fphp": 9, "asimdhp": 10, "asimdrdm": 12, "lrcpc": 15, "asimddp": 20},
        {"i8mm": 13, "bf16": 14})) for word, bit in row.items()},
    "armv7l": {"neon": (0, 12), "vfpv3": (0, 13), "vfpv4": (0, 16)},
}
# Registers that x86's systems save for those who use them: bits of the last word.
_SAVED = {"avx": 0x6, "avx512f": 0xE6, "amx_tile": 0x60000}
_WORDS = 6


def targets_of(target):
    """The Targets that a name means, the best first: "x86-64-v3+x86-64-v4" names two. Raises TargetError for
    some that no one folder can be for."""
    if not isinstance(target, str) or BETWEEN not in target:
        return (Target.get(target),)
    found = [Target.get(name) for name in target.split(BETWEEN)]
    counts = Counter(t.name for t in found)
    if twice := [name for name, times in counts.items() if times > 1]:
        raise TargetError(f"target {target!r} names {twice[0]} twice: name each target once")
    if others := [t.name for t in found if t.kind != "c"]:
        raise TargetError(f"target {target!r}: {others[0]} is no processor's, between which a program chooses when it "
                          "runs: compile for it alone")
    families = {t.name: toolchain(t).arch for t in found if toolchain(t).arch != "any"}
    if len({*families.values()}) > 1:
        (one, family), (other, another) = next(
            (a, b) for a in families.items() for b in families.items() if a[1] != b[1])
        raise TargetError(f"target {target!r}: {one} ({family}) and {other} ({another}) are no processors of one "
                          "family: compile for each of them alone")
    for t in found:
        if toolchain(t).arch not in (*FEATURE_BITS, "any"):
            raise TargetError(f"target {target!r}: nothing tells when a program runs what a processor can do of the "
                              f"family {toolchain(t).arch}: compile for {t.name} alone")
    for n, t in enumerate(found):
        if alike := [o.name for o in found[:n] if o.isa == t.isa]:
            raise TargetError(f"target {target!r}: {alike[0]} and {t.name} have the same instruction sets, so that "
                              "nothing tells them apart when a program runs: name one of them")
    return tuple(sorted(found, key=lambda t: -len(t.isa)))


def prefix_of(name, target):
    """The name of the network NAME for one target of several. Raises ValueError where it would be too long."""
    prefix = f"{name}_{identifier(target.name)}"
    if len(prefix) > MOST_NETWORK:
        raise ValueError(f"the name {name!r} with that of the target {target.name} behind it has more than "
                         f"{MOST_NETWORK} letters: give a shorter name")
    return prefix


def behind_instance(memories):
    """Memories as one target's network has them: the folder's own instance lies first in the first."""
    return tuple((name, max(size - header_bytes(), 0) if n == 0 else size) for n, (name, size) in enumerate(memories))


@dataclass(frozen=True)
class DispatchedModel:
    """A network called `name` for several targets: a CompiledModel each, the best target first."""

    name: str
    models: tuple[CompiledModel, ...]

    @property
    def target(self):
        """Their names, the best first."""
        return BETWEEN.join(m.target.name for m in self.models)

    def files(self, single_file=False, package=None, sbom=False):
        """{file name: text or Blob} of the whole folder, as CompiledModel.files gives them. Raises ValueError for a
        single file and for a package."""
        if single_file:
            raise ValueError("a single file is compiled with the flags of one target: name one, or write a folder")
        if package is not None:
            raise ValueError(f"{package} builds a package with the flags of one target: name one, or leave out package")
        files = _DispatchFolder(self).files()
        if sbom:
            best = self.models[0]
            files[f"{self.name}.spdx.json"] = bill_of_materials(best, package_version(best.version), files, self.name,
                                                                self.target)
        return files

    def write(self, folder, single_file=False, package=None, sbom=False):
        """Write the folder, as CompiledModel.write does."""
        write_folder(folder, self.files(single_file, package, sbom))


class _DispatchFolder(Folder):
    """The files of all targets' networks, and those of the network that hands calls on to them."""

    templates = "dispatch/"

    def __init__(self, model: DispatchedModel):
        programs, self.blob = sharing_weights([m.program for m in model.models], model.name,
                                              model.models[0].weight_groups)
        self.each = [Folder(replace(m, program=p)) for m, p in zip(model.models, programs)]
        best = self.each[0].m
        program = replace(named(best.program, model.name), scratch=max(f.p.scratch for f in self.each))
        stack = max(f.m.stack for f in self.each) + ARENA_ALIGN  # a call more than each of these
        threads = max(f.m.most_threads for f in self.each)
        super().__init__(replace(best, program=program, stack=stack, most_threads=threads))

    def files(self):
        files, used, targets = {}, set(), []
        for folder in self.each:
            own, sources, headers = folder.network()
            files.update(own)
            used |= headers
            targets.append({"sources": sources, "objects": objects_of(sources)})
        self.context["targets"] = [{**row, **more} for row, more in zip(self.context["targets"], targets)]
        sources = [f"{self.name}.c", "ingot.c"]
        files.update({f"{self.name}.h": self._own("model.h"), f"{self.name}.c": self._own("model.c"),
                      "ingot_dispatch.h": runtime_files({"ingot_dispatch.h"})["ingot_dispatch.h"],
                      **self._runtime(used), **self._weights(sources)})
        data_file, data = self._selftest_data()
        files.update(data)
        tools = {"cc": "cc", "cflags": " ".join(COMMON)}
        extra = f" {self.name}_weights.S" if self.m.weights == "extern" else ""
        files[f"{self.name}_example.c"] = self._render("example.c", board=None)
        files[f"{self.name}_selftest.c"] = self._own("selftest.c", each_target=True)
        files["Makefile"] = self._own("Makefile", objects=objects_of(sources), **tools,
                                      headers=sorted(f for f in files if f.endswith(".h")))
        files["CMakeLists.txt"] = self._own(
            "CMakeLists.txt", sources=sources, package_version=package_version(self.m.version),
            languages="C" if self.m.weights == "array" else "C ASM", public_headers=self._public_headers(),
            selftest_source=data_file, extra_sources=extra, **tools)
        files["README.md"] = self._own("README.md", promise=PROMISES[self.m.accuracy],
                                       bounds=bounds_of({k: v for f in self.each for k, v in f.m.kernels.items()}))
        return files

    def _stored(self):
        return [w.data for w in self.blob]

    def _context(self):
        arena = header_bytes() + max(f.arena_bytes for f in self.each) if self.static else None
        found = [pointer for _, pointer in self.found]
        context = super()._context()
        tensors = [t["name"] for t in (*context["inputs"], *context["outputs"])]
        calls = [{"signature": context["run_signature"], "function": "run",
                  "arguments": ", ".join((*self.dims, *tensors, *found))}]
        if self.m.weights == "file":
            signature = f"ingot_status {self.name}_set_weights({self.name} *net, const void *weights, size_t bytes)"
            calls.insert(0, {"signature": signature, "function": "set_weights", "arguments": "weights, bytes"})
        if self.m.weights == "stream":
            signature = f"ingot_status {self.name}_set_reader({self.name} *net, ingot_reader read, void *user)"
            calls.insert(0, {"signature": signature, "function": "set_reader", "arguments": "read, user"})
        stored = Counter(offset for f in self.each for offset in {w.offset for w in f.p.weights})
        model = DispatchedModel(self.name, [f.m for f in self.each])
        return {**context, "target": model.target, "calls": calls, "arena_bytes": arena,
                "arena_text": str(arena) if self.static else f"`{self.name}_arena_bytes({', '.join(self.dims)})`",
                "further": [{**row, "bytes": max(sizes)} for row, *sizes in zip(
                    context["further"], *([size for _, size in f.m.further_memories] for f in self.each))],
                "arena_on_heap": not self.static or arena > INT_MAX,
                "stamp": context["stamp"].replace(f"target {self.m.target.name}", f"targets {model.target}"),
                "has_team": any(f.m.has_team for f in self.each),
                "arena_threads": min(f.m.arena_threads for f in self.each),
                "target_names": ", ".join(f'"{f.m.target.name}"' for f in self.each),
                "targets": [self._row(f, stored) for f in self.each]}

    def _row(self, folder, stored):
        """What templates read of a target. stored: {offset of a weight: how many targets have it}."""
        tools, weights = toolchain(folder.m.target), {w.offset: w.data.nbytes for w in folder.p.weights}
        cflags = tools.cflags[len(COMMON):]
        return {"name": folder.m.target.name, "prefix": folder.name,
                "macro": f"{self.upper}_FOR_{identifier(folder.m.target.name).upper()}",
                "isa": " ".join(sorted(folder.m.target.isa)),
                "needs": [f"{w:#x}" for w in feature_words(folder.m.target)],
                "cflags": " ".join(cflags), "gcc_cflags": " ".join(tools.gcc_cflags),
                "cflags_cmake": ";".join(cflags), "gcc_cflags_cmake": ";".join(tools.gcc_cflags),
                "kernels": len(folder.m.kernels), "weights": sum(weights.values()),
                "shared": sum(size for offset, size in weights.items() if stored[offset] > 1)}


def feature_words(target):
    """The words of bits that say what a target needs; see runtime_c/ingot_dispatch.h."""
    words, bits = [0] * _WORDS, FEATURE_BITS.get(toolchain(target).arch, {})
    for word in target.isa:
        n, bit = bits[word]
        words[n] |= 1 << bit
        words[-1] |= _SAVED.get(word, 0)
    return words
