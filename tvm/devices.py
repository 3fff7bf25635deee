"""tvm.opencl, tvm.rocm and others: devices that scripts name, and older names of what makes them."""
from __future__ import annotations

from functools import partial

from ..runtime.device import cuda, device

context, gpu = device, cuda
opencl, vulkan, metal, mtl, vpi, rocm, ext_dev, webgpu, hexagon = (partial(device, name) for name in (
    "opencl", "vulkan", "metal", "metal", "vpi", "rocm", "ext_dev", "webgpu", "hexagon"))
