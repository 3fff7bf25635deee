"""CompiledLibrary: a network that Python calls as a function. It is built at the first call and loaded with cffi."""
from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
import time
import weakref
from pathlib import Path

import numpy as np

from ..codegen.toolchain import ToolchainError, build_shared
from ..codegen.target import Target, is_supported_here
from ..codegen.tree import Let, Read, walk
from ..ir.expr import is_const_int
from ..ir.relax.ops.common import dim_text
from .binding import Binding, NetworkError
from .profile import Profiler
from .registry import HOOKS, calls_of, hooks_source
from .shapes import InputError, TensorSpec, check_inputs, inputs_by_name
from .timing import Timing
from .values import as_arrays

ERR_DIM = -5  # INGOT_ERR_DIM of runtime_c/ingot.h


class CompiledLibrary:
    """A compiled network, the result of `ingot.compile`.

        y = lib(x)                    arrays in declared order: one array, or a tuple when there are several outputs
        ys = lib.run({"input": x})    the same by name
        lib.export("out/")            the folder of C
        lib.time(x)                   how long a run takes
        lib.profile(x)                how long each kernel takes

    Calls from several threads are safe and wait for each other; an object of its own per thread runs in parallel.
    Closing, or the end of the object's life, removes its temporary folder.
    """

    def __init__(self, model, jobs=None):
        """model: the lowered network with its C (name, inputs, outputs, dims, target, threads, weights, write)."""
        self.model = model
        self._inputs = [TensorSpec(desc) for desc in model.inputs]
        self._outputs = [TensorSpec(desc) for desc in model.outputs]
        self._dims = model.dims
        self._jobs = jobs or os.cpu_count() or 1
        self._lock = threading.RLock()
        self._binding = self._folder = self._cleanup = None
        self._closed = False

    # ---- facts ----------------------------------------------------------------------------------------------------

    @property
    def name(self):
        return self.model.name

    @property
    def inputs(self):
        """The declared inputs: name, source_name, dtype, shape."""
        return self.model.inputs

    @property
    def outputs(self):
        """The declared outputs, as inputs."""
        return self.model.outputs

    @property
    def flops(self):
        """Operations of one run, an FMA counted as 2; 0 when they depend on symbolic dimensions."""
        with self._lock:
            self.build()
            return int(self._binding.info.flops)

    def __repr__(self):
        return f"<CompiledLibrary {self.name} for {Target.get(self.model.target)}>"

    # ---- running --------------------------------------------------------------------------------------------------

    def __call__(self, *arrays):
        """Run the network. Raises InputError for arrays that do not fit, NetworkError when the network refuses."""
        outputs = self.answers(arrays)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def run(self, feeds):
        """Run on {input name: array}; returns {output name: array}, with the names of the imported model. Symbolic
        dimensions that no input tells are given by name, too."""
        names = {name for t in self.inputs for name in (t.name, t.source_name)}
        given = {k: int(v) for k, v in feeds.items() if k in self._dims and k not in names}
        values = inputs_by_name(self.inputs, {k: v for k, v in feeds.items() if k not in given})
        outputs = self.answers(values, given)
        return {desc.source_name: array for desc, array in zip(self.outputs, outputs)}

    def answers(self, values, given=None):
        """The outputs as arrays, or as what all the values are, where that is another kind of tensor, in a list. given:
        {symbolic dimension: value} of those that no input tells."""
        arrays, kind = as_arrays(values)
        outputs = self._run(*self._prepare(arrays, given or {}))
        return outputs if kind is None else [kind(a, d.source_name) for a, d in zip(outputs, self.outputs)]

    def bind(self, *arrays):
        """(run, outputs): a function without arguments that runs the network on what these arrays hold then, and the
        arrays that it writes. It costs little more than the call of the C function. Only a contiguous array is kept;
        of another one it is what it holds now."""
        dims, arrays, outputs = self._prepare(arrays)
        with self._lock:
            self.build()
            self._check_bindable()
            run, lock = self._binding.bound(dims, arrays, outputs), self._lock

        def locked():
            with lock:
                if self._closed:
                    self._check_open()
                run()
        return locked, tuple(outputs)

    def time(self, *arrays, repeat=20, warmup=2):
        """Seconds of `repeat` runs, after `warmup` that do not count: a Timing."""
        if repeat < 1:
            raise ValueError(f"repeat must be at least 1, not {repeat}")
        prepared = self._prepare(arrays)
        with self._lock:
            for _ in range(warmup):
                self._run(*prepared)
            times = []
            for _ in range(repeat):
                start = time.perf_counter()
                self._run(*prepared)
                times.append(time.perf_counter() - start)
        return Timing(tuple(times))

    def profile(self, *arrays, repeat=20):
        """The Profile of `repeat` runs: time, work and roofline of every kernel. Builds the network once more, with
        hooks. Raises as a call does."""
        if repeat < 1:
            raise ValueError(f"repeat must be at least 1, not {repeat}")
        with self.profiler(*arrays) as profiler:
            return profiler.profile([profiler.sample() for _ in range(repeat + 1)][1:])

    def profiler(self, *arrays):
        """A Profiler on these arrays, for those who take samples by themselves."""
        prepared = self._prepare(arrays)
        with self._lock:
            self.build()
            sources = self._folder / self.model.name
            return Profiler(self.model, sources, self._folder / f"{self.model.name}_profile.so", *prepared,
                            weights=self._weights_of(sources), jobs=self._jobs)

    def _prepare(self, arrays, given=None):
        """(dim values, contiguous inputs, new outputs) for `arrays`. given: {symbolic dimension: value}."""
        arrays, values = self._checked(arrays, given)
        outputs = [spec.room(values) for spec in self._outputs]
        return [values[dim] for dim in self._dims], arrays, outputs

    def _checked(self, arrays, given):
        """(contiguous inputs, {symbolic dimension: value}) of arrays that fit the network; else InputError."""
        arrays, values = check_inputs(self._inputs, self._dims, arrays, given)
        if values and not all(check.holds(values) for check in self.model.dim_checks):
            raise InputError("the network has no result for these sizes: it needs "
                             f"{' and '.join(map(str, self.model.dim_checks))}, and has {values}")
        return arrays, values

    def _run(self, dims, arrays, outputs):
        with self._lock:
            if self._binding is None:
                self.build()
            return self._filled(dims, outputs, dims, arrays, outputs)

    def _filled(self, dims, outputs, *arguments):
        """Run the binding on `arguments`; returns the outputs in the shapes that the run gave them."""
        try:
            self._binding.run(*arguments)
        except NetworkError as error:
            raise self._explained(error) from None
        if found := self._binding.found:
            values = {**dict(zip(self._dims, dims)), **found}
            return [spec.filled(array, values) for spec, array in zip(self._outputs, outputs)]
        return outputs

    def _check_undecided(self, error, where):
        """Raise `error` where each run decides sizes of outputs, which `where` does not tell."""
        if names := [spec.name for spec in self._outputs if spec.decided]:
            raise error(f"each run decides sizes of the outputs {', '.join(names)}, and {where} does not tell them: "
                        "run the network on this machine")

    def _check_bindable(self):
        if found := self._binding.found:
            raise ValueError(f"{self!r}: each run decides dimensions of its outputs, {', '.join(found)}, so no arrays "
                             "fit them all: call the library")

    def _explained(self, error):
        """The error of a run, with the dimensions that it decides where one of them may be what is out of range."""
        program = getattr(self.model, "program", None)
        lets = [n for n in walk(program.run) if isinstance(n, Let) and isinstance(n.value, Read)
                and n.most is not None] if program else []
        if error.status != ERR_DIM or not lets:
            return error
        checks = [re.sub(r"_fits(_\d+)?$", "", n.dim.name) for n in lets if is_const_int(n.most, 0)]
        sizes = [f"{n.dim.name} of 0 to {dim_text(n.most)}" for n in lets if not is_const_int(n.most, 0)]
        parts = (("operands of the node of {}, which must fit declared shapes", dict.fromkeys(checks)),
                 ("the sizes {}", sizes))
        text = " and ".join(part.format(", ".join(names)) for part, names in parts if names)
        return NetworkError(f"{error}: of this network a run decides {text}", error.status)

    # ---- building -------------------------------------------------------------------------------------------------

    def export(self, folder, single_file=False, package=None, sbom=False):
        """Write the folder of C; it must not exist, or be empty. single_file: only NAME.c, which holds the kernels, the
        weights and the runtime, and NAME.h. package: as "zephyr", "esp-idf", "arduino", "platformio", "cmsis-pack" or
        "conan" take it in (docs/packages.md). sbom: with NAME.spdx.json, a bill of materials, which packages have
        anyway. Returns its Path."""
        self.model.write(folder, single_file, package, sbom)
        return Path(folder)

    def build(self):
        """Write the C to a temporary folder, compile and load it, unless that was done. Raises ToolchainError."""
        with self._lock:
            self._check_open()
            if self._binding is not None:
                return
            self._check_target()
            if self._cleanup is None:
                self._folder = Path(tempfile.mkdtemp(prefix=f"ingot-{self.model.name}-"))
                self._cleanup = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            sources = self._folder / self.model.name
            if not sources.exists():
                self.model.write(sources)
            self._binding = self._bound(sources)

    def _check_target(self):
        target = Target.get(self.model.target)
        if not is_supported_here(target):
            raise ToolchainError(f"this machine cannot run code for {target}: export the folder and build it there")

    def _bound(self, sources):
        """The Binding of the folder of C, compiled."""
        packed = getattr(self.model, "packed", ())
        if packed:
            (sources / f"{HOOKS}.c").write_text(hooks_source(packed))
        path = build_shared(sources, self._folder / f"{self.model.name}.so", self.model.target, self.model.threads,
                            self._jobs, libraries=getattr(self.model, "libraries", ()))
        binding = Binding(path, self.model, self._weights_of(sources))
        if packed:
            binding.after_runs = calls_of(path).raise_failure
        return binding

    def _check_open(self):
        if self._closed:
            raise ValueError(f"{self!r} is closed")

    def _weights_of(self, sources):
        """The weights as an array aligned to 64 bytes where the network takes a pointer to them, else None."""
        if self.model.weights not in ("file", "stream"):
            return None
        return np.memmap(sources / f"{self.model.name}_weights.bin", np.uint8, "r")

    def close(self):
        """Unload the library and remove its temporary folder; further calls raise ValueError."""
        with self._lock:
            self._closed = True
            if self._binding is not None:
                self._binding.close()
                self._binding = None
            if self._cleanup is not None:
                self._cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
