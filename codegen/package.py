"""The output folder: everything a C project needs to build and run one network."""
from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, replace
from functools import partial
from math import prod

import numpy as np

from ..ir.arith import Analyzer
from ..ir.expr import IntImm, const, free_vars, substitute
from ..ir.relax.accuracy import FLOAT32, PROMISES
from ..ir.target import MANY_THREADS
from ..ir.transform.lower_intrin import lower_dim
from .blob import Blob, groups_of
from .c_expr import COMMA, MULTIPLICATIVE, CExpr
from .c_function import wrapped
from .c_names import new_name, taken_names
from .c_program import ProgramPrinter, wrap_call
from .c_types import C_TYPES, SMALL_FLOATS, c_comment, c_string, literal
from .kernels import bounds_of, imports_of, includes_of, split_files
from .limits import at_most, most_dims, ram_use, tensors_bytes
from .lives import upper_bound, upper_bounds
from .memories import scope
from .output_folder import write_folder
from .package_forms import check_package, package_files, portable_flags
from .packed_names import packed_of
from .program import Program, header_bytes
from .render import render
from .runtime_text import RUNTIME, inlined, runtime_files, runtime_of_header
from .sbom import bill_of_materials
from .target import Target
from .toolchains import toolchain
from .tree import assigned
from .words import segments

WEIGHTS = ("incbin", "array", "file", "extern", "stream")
ARENA_ALIGN = 64
MOST_ARRAY_BYTES = 1 << 30  # of weights that C has as numbers, which take a compiler's memory many times over
LARGE_BLOB = 3 << 29  # bytes from which on a blob lies apart from what code of the small model must reach
ARENA_THREADS = 8  # how many threads, at most, an arena of NAME_ARENA_BYTES has room for
# Errors that the self-test allows small floats, a few units in the last place; others 1e-4.
TEST_TOLERANCES = {"float16": 8e-3, "bfloat16": 6e-2, "float8_e4m3fn": 0.5, "float8_e5m2": 0.75,
                   "float8_e4m3fnuz": 0.5, "float8_e5m2fnuz": 0.75, "float8_e8m0fnu": 1, "float4_e2m1fn": 1}
INT_MAX = (1 << 31) - 1
MAGIC = 0x31746F676E49  # "Ingot1", little-endian


@dataclass(frozen=True)
class IndexCheck:
    """Values of input number `input` that index a tensor: low <= value < high."""

    input: int
    low: int
    high: int


@dataclass(frozen=True)
class CompiledModel:
    """A network as C text.

    program: calls and memory; kernels: {C name: Kernel}; kernel_of: {module function: C name}. test_inputs and
    test_outputs: arrays of the self-test, whose symbolic dimensions are test_dims; test_outputs is empty where there is
    no reference, for the reason no_reference. most_threads: more of them than so many would make it slower than one;
    stack: bytes that a run takes of each thread's at most; dtype: what a float32 model is computed in; memories: (name,
    bytes) of those that the arena is spread over; options: other options that it was compiled with, as pairs of a name
    and its value; externals: what external generators wrote, see external.py.
    """

    program: Program
    kernels: dict
    kernel_of: dict
    target: Target
    threads: str
    weights: str
    title: str
    model_hash: str
    version: str
    flops: int
    test_inputs: tuple
    test_outputs: tuple
    test_dims: tuple
    index_checks: tuple = ()
    most_threads: int = MANY_THREADS
    no_reference: str = ""
    stack: int = 0
    accuracy: str = FLOAT32
    dim_checks: tuple = ()
    dtype: str = "float32"
    memories: tuple = ()
    weight_groups: int = 1
    options: tuple = ()
    externals: tuple = ()

    @property
    def name(self):
        return self.program.name

    @property
    def inputs(self):
        return self.program.inputs

    @property
    def outputs(self):
        return self.program.outputs

    @property
    def dims(self):
        return tuple(d.name for d in self.program.dims)

    @property
    def found(self):
        """The names of the dimensions that a run decides and reports."""
        return tuple(v.name for v in self.program.found)

    @property
    def packed(self):
        """The Packed functions that the network calls, and whoever builds it supplies."""
        written = {s for e in self.externals for s in e.symbols}
        return tuple(p for p in packed_of(k.function for k in self.kernels.values()) if p.symbol not in written)

    @property
    def libraries(self):
        """The libraries that programs with the network are linked with, by what follows -l."""
        return tuple(dict.fromkeys(lib for e in self.externals for lib in e.libraries))

    @property
    def arena_bytes(self):
        """Bytes of the arena of a CPU: with symbolic dimensions those at their bounds, None where these have none."""
        fixed = self.header_bytes + self.arena_threads * self.program.scratch
        total = at_most(self.program.plan.total, most_dims(self))
        return None if total is None else fixed + total

    @property
    def header_bytes(self):
        """Bytes of an instance, at the beginning of the arena."""
        return header_bytes(max(len(self.memories) - 1, 0) + 2 * (self.weights == "stream"))

    @property
    def further_memories(self):
        """[(name, bytes)] of the memories that a caller passes beside the first, as far as tensors take them."""
        return [(name, self.program.plan.bytes_of(scope(self.memories, n)).value)
                for n, (name, _) in enumerate(self.memories) if n]

    @property
    def has_team(self):
        """Whether threads make calls together."""
        return any(self.kernels[self.kernel_of[c.kernel]].function.team for c in self.program.calls)

    @property
    def arena_threads(self):
        """How many threads an arena of the size that the header states has room for."""
        return min(ARENA_THREADS, max(self.most_threads, 1)) if self.has_team else 1

    @property
    def team_threads(self):
        """How many threads a team has at most."""
        return self.most_threads if self.most_threads > 1 else MANY_THREADS

    def further_bytes(self, threads):
        """Bytes of arena beyond that, with which a run may use so many threads."""
        most = min(threads, self.most_threads) if self.has_team else 1
        return max(most - self.arena_threads, 0) * self.program.scratch

    def files(self, single_file=False, package=None, sbom=False):
        """{file name: text or Blob} of the whole folder; single_file: of NAME.c and NAME.h that stand alone, in which
        all but the interface is static. The weights are arrays in NAME.c, unless they are a "file", "extern" or
        "stream".
        package: the name of a row of package_forms. sbom: with NAME.spdx.json, which packages have, too. Raises
        ValueError for what one of these is not made of."""
        form = None if package is None else check_package(self, package, single_file)
        as_arrays = self.weights == "incbin" and (single_file or (form is not None and form.as_arrays))
        model = replace(self, weights="array") if as_arrays else self
        folder = FOLDERS[str(self.target.kind)](model, single=single_file, form=form)
        files = folder.single_file() if single_file else folder.packaged() if form else folder.files()
        if sbom or form:
            files[f"{self.name}.spdx.json"] = bill_of_materials(model, package_version(self.version), files)
        return files

    def write(self, folder, single_file=False, package=None, sbom=False):
        """Write the folder, which must not exist or be empty; the other arguments: see files. Raises PackageError,
        leaving nothing behind."""
        write_folder(folder, self.files(single_file, package, sbom))


class Folder:
    """Builds the texts of one folder from a CompiledModel; a kind of target with other files has a class of its own."""

    Printer = ProgramPrinter
    templates = ""  # the folder of its templates, within that of all
    suffix = ".c"  # of files of kernels
    align = ARENA_ALIGN
    stream = ()  # what a run takes behind the tensors: (parameter, argument)

    def __init__(self, model: CompiledModel, single=False, form=None):
        self.m, self.p, self.single, self.form = model, model.program, single, form
        if model.weights == "array" and self.p.weights_bytes > MOST_ARRAY_BYTES:
            raise ValueError(f"{self.p.weights_bytes} bytes of weights are too many for arrays in C, of at most "
                             f'{MOST_ARRAY_BYTES} bytes: use weights="file" (--weights file)')
        self.name, self.upper = self.p.name, self.p.name.upper()
        taken = self._taken()
        names = {id(d): new_name(d.name, taken) for d in self.p.dims}
        self.dims = tuple(names.values())
        names |= {id(v): new_name(v.name, taken) for v in assigned(self.p.run)}
        self.found = tuple((names[id(v)], new_name(f"{v.name}_found", taken)) for v in self.p.found)
        self.names, self.taken, self.bounds = names, taken, upper_bounds(self.p.run)
        self.static = not self.dims
        self.uses = set()  # headers that expressions of the run need
        self.expr = CExpr(_DimNames(names), self.uses)
        self.memory = self._dim_text(self.p.plan.total) if self.dims else str(self.p.plan.total.value)
        self.fixed_bytes = self._fixed_bytes()
        self.arena_bytes = self.fixed_bytes + int(self.memory) if self.static else self._most_arena_bytes()
        self.context = self._context()

    def files(self):
        files, sources, used = self.network()
        files.update(self._runtime(used))
        sources.append("ingot.c")
        files.update(self._weights(sources))
        data_file, data = self._selftest_data()
        files.update(data)
        headers = sorted(f for f in files if f.endswith(".h"))
        files[f"{self.name}_example.c"] = self._own("example.c", board=toolchain(self.m.target).board)
        files[f"{self.name}_selftest.c"] = self._own("selftest.c")
        extra = f" {self.name}_weights.S" if self.m.weights == "extern" else ""
        tools = self._tools(toolchain(self.m.target))
        files.update(self._board(tools))
        files["Makefile"] = self._own("Makefile", objects=objects_of(sources), headers=headers, **tools)
        files["CMakeLists.txt"] = self._own(
            "CMakeLists.txt", sources=sources, package_version=package_version(self.m.version),
            languages="C" if self.m.weights == "array" else "C ASM", public_headers=self._public_headers(),
            selftest_source=data_file, extra_sources=extra, **tools)
        files["README.md"] = self._own("README.md", kernels_count=len(self.m.kernels), calls_count=len(self.p.calls),
                                       promise=PROMISES[self.m.accuracy], bounds=bounds_of(self.m.kernels))
        return files

    def network(self):
        """({file: text} of the interface, the calls and the kernels, the sources among them, the headers of the
        runtime that they use)."""
        name, kernels = self.name, list(self.m.kernels.values())
        imported = [k for k in kernels if k.imports]  # in one file, so that their C sources are compiled once
        groups = split_files([k for k in kernels if not k.imports]) + ([imported] if imported else [])
        used = self.uses.union(self.context["compare_headers"], *(k.function.uses for k in kernels))
        files = {f"{name}.h": self._own("model.h"), f"{name}.c": self._own("model.c", parts=len(groups)),
                 f"{name}_kernels.h": self._own("kernels.h", kernels=kernels, parts=len(groups))}
        sources = [f"{name}.c"]
        for n, group in enumerate(groups):
            file = f"{name}_kernels_{n}{self.suffix}"
            uses = set().union(*(k.function.uses for k in group))
            files[file] = self._own(
                f"kernels{self.suffix}", file=file, part=n, kernels=group, imports=imports_of(group),
                **includes_of(uses, f"{name}_kernels.h", packed=packed_of(k.function for k in group)))
            sources.append(file)
        for n, external in enumerate(self.m.externals):
            file = f"{name}_external_{n}.c"
            files[file] = external.text(file, self.context["stamp"])
            sources.append(file)
        return files, sources, used | ({"ingot_module.h"} if self.m.externals else set())

    def _selftest_data(self):
        """The source with inputs and outputs of the self-test, and {file: content} of it and its blob."""
        as_array, stem = self.m.weights == "array", f"{self.name}_selftest_data"
        files = self._blob(stem, stem, "inputs and outputs of the self-test",
                           [*self.m.test_inputs, *self.m.test_outputs], as_array)
        return f"{stem}.{'c' if as_array else 'S'}", files

    def packaged(self):
        """The files of a package: see package_forms."""
        tools = toolchain(self.m.target)
        more = {"package_version": package_version(self.m.version), "public_headers": self._public_headers(),
                "portable_flags": portable_flags(self.m.target, tools.cflags)}
        return package_files(self.form, self.name, self.files(), partial(self._render, **more), self._facts())

    def _facts(self):
        """A sentence on the network, which formats of package descriptions take as it is."""
        inputs, outputs = (" and ".join(f"{t['name']} {t['dtype']} {t['shape_text']}" for t in self.context[what])
                           for what in ("inputs", "outputs"))
        return (f"Computes {outputs} from {inputs}; {self.p.weights_bytes:,} bytes of "
                f"weights, an arena of {self.context['arena_text']} bytes.")

    def _own(self, template, **more):
        """A template that each kind of folder has."""
        return self._render(self.templates + template, **more)

    def _runtime(self, used):
        """{file: text} of the runtime for the headers in use."""
        return runtime_files(used)

    def _public_headers(self):
        """What programs include: NAME.h, and what that includes."""
        return [f"{self.name}.h", "ingot.h", *(["ingot_module.h"] if self.m.packed else [])]

    def _board(self, tools):
        """{file: text} of what programs without a system need besides: startup code and a linker script for a board,
        or what runs them."""
        if tools.get("engine"):
            return {tools["engine"]: self._render(tools["engine"])}
        board = tools.get("board")
        family = f"board/{board.family}" if board and board.family else None
        files = {f"board.{end}": self._render(f"{family}.{end}", **tools) for end in ("c", "ld")} if family else {}
        if tools.get("serves"):
            files |= {f"{self.name}_serve.c": self._render("serve.c"),
                      "ingot_serve.h": (RUNTIME / "ingot_serve.h").read_text()}
            if board.uart:
                files[f"{self.name}_server.c"] = self._render("board/server.c", **tools)
        return files

    def _tools(self, tools):
        """What the build files read of a Toolchain."""
        return {"board": tools.board, "runner": tools.runner, "engine": tools.engine,
                "serves": bool(tools.board) and self.static and self.m.weights in ("array", "incbin"),
                "cc": tools.cc[0] if tools.board or tools.engine else "cc",
                "cflags": " ".join(tools.cflags), "gcc_cflags": " ".join(tools.gcc_cflags),
                "msvc_flags": msvc_flags(self.m.target.isa, tools.cflags), "cflags_cmake": ";".join(tools.cflags),
                "gcc_cflags_cmake": ";".join(tools.gcc_cflags)}

    def single_file(self):
        if self.m.weight_groups > 1:
            raise ValueError("one file has all weights: leave out weight_groups (--weight-groups)")
        if self.m.externals:
            raise ValueError("what external generators wrote are files of their own: leave out single_file "
                             "(--single-file)")
        kernels, target = list(self.m.kernels.values()), self.m.target
        uses = self.uses.union(self.context["compare_headers"], *(k.function.uses for k in kernels))
        uses |= {"ingot_tiles.h"} if self.context["uses_tiles"] else set()
        arrays = self._stored()
        openmp = ["-fopenmp"] if self.m.threads == "openmp" else []
        tools = toolchain(target)
        build = [" ".join(["cc -std=c99", *tools.cflags, *openmp, f"-c {self.name}.c"]),
                 f"gcc: also {' '.join(tools.gcc_cflags)}", _LINKING[self.m.threads]]
        wrapped_lines = [part for line in build for part in textwrap.wrap(line, 108, break_on_hyphens=False)]
        source = self._render(
            "single.c", build_lines=wrapped_lines,
            kernels=[{"comment": k.comment, "body": k.body, "signature": _static(k.signature), "tiles": k.tiles,
                      "function": k.function} for k in kernels],
            imports=imports_of(kernels), **includes_of(uses, "ingot.h", packed=self.m.packed),
            segments=segments(arrays) if self.m.weights == "array" else [])
        files = {f"{self.name}.h": self._render("model.h", runtime=runtime_of_header(bool(self.m.packed))),
                 f"{self.name}.c": inlined(source)}
        return files if self.m.weights == "array" else {**files, **self._weights([])}

    def _most_arena_bytes(self):
        """Bytes of the arena at the bounds of symbolic dimensions; None where there are none, or more than 2 GB."""
        size = self.m.arena_bytes if self.m.target.launch is None else None
        return size if size is not None and size <= INT_MAX else None

    def _fixed_bytes(self):
        """Bytes of the arena beside tensors."""
        return self.m.header_bytes + self.m.arena_threads * self.p.scratch

    def _ram_bytes(self):
        """Bytes of memory that a network takes in all, of a target without a system; 0 where sizes are symbolic."""
        use = ram_use(self.m) if self.m.target.freestanding else None
        return use.bytes if use else 0

    def _taken(self):
        return {*taken_names(self.name, self.m.kernels), *(t.name.lower() for t in (*self.p.inputs, *self.p.outputs))}

    def _dim_text(self, e, outer=COMMA):
        """The C text of an expression of symbolic dimensions."""
        return self.expr.text(lower_dim(e), outer)

    def _render(self, template, **more):
        return render(template, **{**self.context, **more})

    # ------------------------------------------------------------ weights and test data

    def _weight_blobs(self):
        """The symbols and files of the weights, one for each group."""
        groups, own = len(self.p.group_starts(self.m.weight_groups)), self.p.weights_symbol
        return [own] if groups == 1 else [f"{own}_{n}" for n in range(groups)]

    def _stored(self):
        """The arrays in the file of weights."""
        return [w.data for w in self.p.weights]

    def _weights(self, sources):
        name, mode = self.name, self.m.weights
        arrays = self._stored()
        if mode in ("file", "stream"):
            return {f"{name}_weights.bin": Blob(arrays, self.m.target.byte_order)}
        files, groups = {}, groups_of([a.nbytes for a in arrays], self.m.weight_groups)
        for stem, group in zip(self.context["weight_blobs"], groups):
            files |= self._blob(stem, stem, "weights" if len(groups) > 1 else "the weights", [arrays[i] for i in group],
                                mode == "array", placed=stem.upper().removeprefix(f"{self.upper}_"))
        if mode != "extern":
            sources += [f for f in files if not f.endswith(".bin")]
        return files

    def _blob(self, stem, symbol, what, arrays, as_array, placed=""):
        """Arrays, each at a multiple of 64 bytes, as assembler source beside a .bin, or as words of C. placed:
        "WEIGHTS" or "WEIGHTS_1": INGOT_SECTION_WEIGHTS or INGOT_SECTION_WEIGHTS_1 name their section."""
        if as_array:
            return {f"{stem}.c": self._render("blob.c", file=f"{stem}.c", what=what, symbol=symbol,
                                              segments=segments(arrays), placed=placed)}
        data = Blob(arrays, self.m.target.byte_order)
        return {f"{stem}.S": self._render("blob.S", file=f"{stem}.S", what=what, symbol=symbol, blob=f"{stem}.bin",
                                           placed=placed, large=len(data) > LARGE_BLOB, bytes=len(data)),
                f"{stem}.bin": data}

    # ------------------------------------------------------------ context

    def _context(self):
        m, p = self.m, self.p
        offsets = np.cumsum([0, *(a.nbytes + -a.nbytes % 64 for a in (*m.test_inputs, *m.test_outputs))]).tolist()
        inputs = [self._tensor(t, offsets[n]) for n, t in enumerate(p.inputs)]
        outputs = [self._tensor(t, offsets[len(inputs) + n] if m.test_outputs else 0) for n, t in enumerate(p.outputs)]
        for t, expected in zip(outputs, m.test_outputs):  # where a run decides its size, of the expected one
            t["test_size"] = str(expected.size)
        memory, fixed, arena_bytes = self.memory, self.fixed_bytes, self.arena_bytes
        large_arena = self.static and arena_bytes > INT_MAX
        dim_params = ", ".join(f"int64_t {d}" for d in self.dims)
        arguments = ["net", *self.dims, *(t["place"] for t in inputs)]
        found = [*(f"&{pointer}" for _, pointer in self.found), *self.stream[1:]]
        pointers = ["net", *(t["name"] for t in inputs + outputs), *(pointer for _, pointer in self.found)]
        arenas = [f"arena_{name}" for name, _ in m.memories] or ["arena"]
        printer = self.Printer(m, self.names, self._dim_text, self.taken, large_arena)
        return {
            "single": self.single, "has_makefile": self.form is None or self.form.has_build_files,
            "each_target": False, "places_code": m.target.freestanding, "packed_functions": m.packed,
            "libraries": m.libraries, "externals": m.externals,
            "name": self.name, "upper": self.upper, "title": m.title,
            "inputs": inputs, "outputs": outputs, "updates": any(t.updated for t in p.inputs),
            "stamp": f"Generated by Ingot {m.version} from {m.title} (sha256 {m.model_hash[:16]}) for target "
                     f"{m.target.name}: do not edit.",
            "dims": list(self.dims), "least_dims": {self.names[id(d)]: int(not d.may_be_zero) for d in p.dims},
            "dim_params": dim_params, "quoted_dims": ", ".join(f'"{d}"' for d in m.dims),
            "dims_without_memory": [d for d in self.dims if not re.search(rf"\b{d}\b", memory)],
            "arena_bytes": arena_bytes, "arena_align": self.align,
            "arena": arenas[0],
            "further": [{"name": f"arena_{name}", "upper": name.upper(), "bytes": size}
                        for name, size in m.further_memories],
            "arena_parameters": ", ".join(f"void *{a}, size_t {a}_bytes" for a in arenas),
            "arena_arguments": ", ".join(f"{a}, {a}_bytes" for a in arenas),
            "memory_bytes": memory + ("u" if self.static else ""),
            "arena_text": str(arena_bytes) if self.static else f"{fixed} + {memory}", "fixed_bytes": fixed,
            "scratch_bytes": fixed - m.header_bytes, "header_bytes": m.header_bytes, "thread_bytes": p.scratch,
            "arena_on_heap": large_arena or arena_bytes is None,  # one of 2 GB lies beyond what static code reaches
            "needs_64_bits": large_arena or any(n > INT_MAX for n in (
                p.weights_bytes, *(self._constant_bytes(t) for t in (*p.inputs, *p.outputs)))),
            "arena_threads": m.arena_threads, "stack_bytes": m.stack, "ram_bytes": self._ram_bytes(),
            "tensor_bytes": tensors_bytes(m) or 0,
            "accuracy": m.accuracy, "weights": m.weights, "weight_blobs": self._weight_blobs(),
            "weights_symbol": p.weights_symbol,
            "weights_bytes": max(p.weights_bytes, 64),
            "magic": f"0x{MAGIC:X}",
            "model_hash": m.model_hash, "target": m.target.name,
            "byte_order": m.target.byte_order, "big_endian": int(m.target.byte_order == "big"),
            "flops": m.flops, "flops_text": f"{m.flops:,}",
            "openmp": m.threads == "openmp", "index_checks": [
                {"name": inputs[c.input]["name"], "size": inputs[c.input]["size"], "low": c.low, "high": c.high}
                for c in m.index_checks],
            "dim_checks": [f"{self._dim_text(c.left)} {'!=' if c.relation == '==' else '<'} {self._dim_text(c.right)}"
                           for c in m.dim_checks],
            "run_signature": wrap_call(f"ingot_status {self.name}_run(", [
                f"{self.name} *net", *(f"int64_t {d}" for d in self.dims),
                *(f"{t['const']}{t['ctype']} *{t['name']}" for t in inputs),
                *(f"{t['ctype']} *{t['name']}" for t in outputs), *(f"int64_t *{f}" for _, f in self.found),
                *self.stream[:1]]),
            "run_arguments": ", ".join([*arguments, *(t["place"] for t in outputs), *found]),
            "run_arguments_again": ", ".join([*arguments, *(t["place"] + "_again" for t in outputs), *found]),
            "found": [{"name": name, "pointer": pointer} for name, pointer in self.found],
            "null_checks": " || ".join(f"{x} == NULL" for x in pointers),
            "compared": [_comparison(d, m.dtype) for d in dict.fromkeys(t.dtype for t in p.outputs)],
            "compare_headers": ["ingot_half.h"] if any(t.dtype in SMALL_FLOATS for t in p.outputs) else [],
            "dim_enum": ", ".join(f"{d} = {v}" for d, v in zip(self.dims, m.test_dims)),
            **printer.context(inputs, outputs), "has_team": m.has_team, "run_headers": sorted(self.uses),
            "uses_tiles": any("ingot_tiles.h" in k.function.uses for k in m.kernels.values()),
            "has_reference": bool(m.test_outputs),
            "no_reference": c_comment(m.no_reference or "none was evaluated"),
        }

    def _space(self, t):
        """The dimensions of a tensor, those that a run determines at their upper bounds: ints and expressions."""
        most = [upper_bound(e, self.bounds) for e in t.dims]
        return [e.value if isinstance(e, IntImm) else e for e in most]

    def _place(self, t):
        """What example and self-test pass to a run for a tensor."""
        return t.name

    def _constant_bytes(self, t):
        """Bytes of a tensor of constant size, of others 0."""
        space = self._space(t)
        return prod(space) * t.dtype.bytes if all(isinstance(d, int) for d in space) else 0

    def _tensor(self, t, offset):
        example, space = 1, self._space(t)
        values = dict(zip(self.m.dims, self.m.test_dims))
        factors = [str(d) if isinstance(d, int) else f"({self._dim_text(d)})" for d in space]
        for d in space:
            example *= d if isinstance(d, int) else evaluate_dim(d, values)
        if self._constant_bytes(t) > INT_MAX:
            factors[0] = f"INT64_C({factors[0]})"
        count = self._count(t, example)
        size = "(" + " * ".join(factors or ["1"]) + ")"
        symbolic = any(not isinstance(d, int) for d in space)
        dtype = t.dtype
        integer = not dtype.is_float
        return {
            "name": t.name, "place": self._place(t), "upper": t.name.upper(),
            "source_name": c_string(t.source_name), "dtype": str(dtype),
            "const": "" if t.updated else "const ",
            "ctype": C_TYPES[dtype], "dtype_enum": "INGOT_" + str(dtype).upper(), "symbolic": symbolic, "size": size,
            "shape_text": "[" + ", ".join(str(d) for d in t.shape) + "]", "example_size": str(max(example, 1)),
            "count": count, "bytes": {"": "0", f"sizeof {t.name} / sizeof *{t.name}": f"sizeof {t.name}"}.get(
                count, f"{count} * sizeof *{t.name}"),
            "dims": [str(d) if isinstance(d, int) else "-1" for d in t.shape],
            "dim_names": ["NULL" if isinstance(d, int) else f'"{d}"' for d in t.shape],
            "test_offset": f"{offset}", "made_up": f"({C_TYPES[dtype]})(i % 2)" if integer else
            f"({C_TYPES[dtype]})(i % 17) / {literal(dtype, 17.0)}",
        }


    def _count(self, t, most):
        """C text in NAME_example.c: of how many elements a tensor has there, at most `most`; "" for none."""
        if not {*free_vars([t.dims])} & {*self.p.found}:
            return f"sizeof {t.name} / sizeof *{t.name}" if most else ""
        names = {**self.names, **{id(v): pointer for v, (_, pointer) in zip(self.p.found, self.found)}}
        sizes = CExpr(_DimNames(names), set())
        return f"(size_t)({' * '.join(sizes.text(lower_dim(e), MULTIPLICATIVE) for e in t.dims)})"


def objects_of(sources):
    """What make calls the objects of source files."""
    return [source.rsplit(".", 1)[0] + ".o" for source in sources]


FOLDERS = {"c": Folder}  # by the target's kind; modules that know others add theirs


class _DimNames:
    """CExpr's view of the C names of symbolic dimensions, {id of the variable: name}."""

    def __init__(self, known):
        self.known = known

    def __getitem__(self, var):
        return self.known[id(var)]


def _comparison(dtype, computed):
    """How the self-test compares outputs of a dtype: as doubles, with an error relative to the largest magnitude, that
    numbers allow which the network is computed in."""
    widened = f"ingot_{SMALL_FLOATS[dtype]}_to_f32" if dtype in SMALL_FLOATS else ""
    tolerance = max(TEST_TOLERANCES.get(d, 1e-4) for d in (dtype, computed)) if dtype.is_float else 1e-4
    return {"dtype": str(dtype), "ctype": C_TYPES[dtype], "widened": widened, "tolerance": f"{tolerance:g}"}


def package_version(version):
    """A version of Ingot's as three numbers, which every kind of package takes."""
    numbers = re.findall(r"\d+", version.partition("+")[0])
    return ".".join([*numbers[:3], "0", "0", "0"][:3])


def msvc_flags(isa, cflags):
    """The flags of Microsoft's compiler that say what a target's others do, each with a blank before it."""
    vectors = next((f"/arch:{flag}" for word, flag in (("avx512f", "AVX512"), ("avx2", "AVX2"), ("avx", "AVX"))
                    if word in isa), None)
    flags = [*([vectors] if vectors else []), *(f for f in cflags if f.startswith("-D"))]
    return "".join(f" $<$<COMPILE_LANGUAGE:C>:{flag}>" for flag in flags)


def evaluate_dim(e, values):
    """The int value of a dimension expression under {name: int}. Raises ValueError where these do not fix it."""
    known = {v: const(values[v.name], v.dtype) for v in free_vars(e) if v.name in values}
    e = Analyzer().simplify(substitute(e, known))
    if not isinstance(e, IntImm):
        raise ValueError(f"dimension {e} is not fixed by {values}")
    return e.value


def _static(signature):
    return "\n".join(wrapped("static " + " ".join(signature.split())))


# How a single file is linked, by threads.
_LINKING = {"none": "links with -lm",
            "openmp": "links with -fopenmp -lpthread -lm; without -fopenmp it runs on one thread"}
