"""The sides of a comparison, Ingot, onnxruntime and OpenVINO, behind one interface, called as cheaply as Python can.

A side makes a model into a `Run`. Inputs and outputs are bound once to arrays, so that a call copies nothing and checks
as little as the side allows.
"""
from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np


@dataclass(frozen=True)
class Run:
    """call(): one inference on the bound inputs; outputs(): the arrays that the last call wrote, in the model's order;
    close(): what is to be done at the end."""

    call: object
    outputs: object
    close: object = lambda: None


def ingot_run(library, feeds):
    """The Run of a compiled library."""
    call, outputs = library.bind(*(feeds[desc.source_name] for desc in library.inputs))
    return Run(call, lambda: outputs, library.close)


def onnxruntime_run(model, feeds, threads):
    """All graph optimizations, the CPU provider. Outputs are bound where their shapes are known."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    # Its workers may spin while it runs, but not while the others do.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    kept = [onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array)) for array in feeds.values()]
    for name, value in zip(feeds, kept):
        binding.bind_ortvalue_input(name, value)
    first = session.run(None, feeds)
    for output, array in zip(session.get_outputs(), first):
        binding.bind_ortvalue_output(output.name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
    return Run(lambda: session.run_with_iobinding(binding), lambda: [o.numpy() for o in binding.get_outputs()],
               lambda: kept.clear())


def openvino_run(model, feeds, threads):
    """The CPU plugin in float32, one stream, tuned for latency, its tensors in numpy's memory."""
    import openvino
    config = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1",
              "INFERENCE_NUM_THREADS": str(threads),
              "ENABLE_CPU_PINNING": "NO"}  # the others' threads are not pinned either
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU", config)
    request = compiled.create_infer_request()
    for port in compiled.inputs:
        array = next(np.ascontiguousarray(feeds[name]) for name in port.get_names() if name in feeds)
        request.set_tensor(port, openvino.Tensor(array, shared_memory=True))
    request.infer()
    arrays = [np.empty_like(request.get_tensor(port).data) for port in compiled.outputs]
    for port, array in zip(compiled.outputs, arrays):
        request.set_tensor(port, openvino.Tensor(array, shared_memory=True))
    return Run(request.infer, lambda: arrays)


# {name: (model, feeds, threads) -> Run} of those that Ingot is compared with, in the tables' order.
PEERS = {"onnxruntime": onnxruntime_run, "OpenVINO": openvino_run}
PACKAGES = {"onnxruntime": "onnxruntime", "OpenVINO": "openvino"}


def installed(names=tuple(PEERS)):
    """The peers among `names` that are installed."""
    return [name for name in names if importlib.util.find_spec(PACKAGES[name]) is not None]


def versions(names):
    """'onnxruntime 1.31.1, openvino 2026.4.0, numpy ...' of some peers and of what stands around them."""
    packages = [*(PACKAGES[name] for name in names), "onnx", "numpy"]
    return ", ".join(f"{package} {version(package)}" for package in packages)
