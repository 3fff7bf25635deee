"""Compiled networks of which a test sees every tensor that survives, and whose weights it may change."""
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

import ingot
from ingot.codegen.compile import Options, assemble, lower
from ingot.codegen.blob import blob_of
from ingot.ir.module import IRModule
from ingot.ir.transform.expose import expose_intermediates
from ingot.runtime.binding import aligned_empty
from ingot.runtime.library import CompiledLibrary
from ingot.runtime.verify import compare_outputs


@dataclass
class Network:
    """A model lowered once, for two libraries: `library` is what ingot.compile returns, `exposed` also returns the
    tensors that survive, as `reference`, a graph, does. Their kernels are the same, and so compiled once."""

    module: IRModule
    library: CompiledLibrary
    exposed: CompiledLibrary
    reference: IRModule

    def compare(self, feeds, tolerance):
        """The Report of every tensor that survives and of the outputs, against the reference evaluation."""
        return compare_outputs(self.reference, self.exposed, feeds, tolerance)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.library.close()
        self.exposed.close()


def compiled(model, **options):
    """The Network of an ONNX model or a graph module; options are those of ingot.compile."""
    mod = model if isinstance(model, IRModule) else ingot.from_onnx(model, name=options.get("name"))
    checked = Options.check(**options)
    lowered = lower(mod, checked).lowered
    shown, reference = expose_intermediates(lowered, mod)
    return Network(mod, *(CompiledLibrary(assemble(a, b, checked)) for a, b in ((lowered, mod), (shown, reference))),
                   reference)


@contextmanager
def own_weights(library):
    """The weights of a library built with weights="file", as bytes that the test may change while it runs."""
    library.build()
    binding, program = library._binding, library.model.program
    blob = np.frombuffer(blob_of([w.data for w in program.weights], "little"), np.uint8)
    weights = aligned_empty(blob.size, 64)
    weights[:] = blob
    binding._weights = weights
    binding._reserve([1] * len(library.model.dims))  # a new instance takes them, ...
    binding._check("set_weights", binding._net[0], binding._pointer(weights), weights.size)  # ... and an old one here
    yield weights


def layers(program, least=64, most=None):
    """The weights of at least so many numbers that are not all zero; `most`: so many of them, from first to last."""
    found = [w for w in program.weights if w.data.size >= least and np.any(w.data)]
    if most is None or len(found) <= most:
        return found
    return [found[n] for n in np.linspace(0, len(found) - 1, most).round().astype(int)]


@contextmanager
def zeroed(weights, weight):
    """The Weight's bytes are zero inside."""
    where = slice(weight.offset, weight.offset + weight.data.nbytes)
    kept = weights[where].copy()
    weights[where] = 0
    yield
    weights[where] = kept
