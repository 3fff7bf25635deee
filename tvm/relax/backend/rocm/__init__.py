"""relax.backend.rocm: what the libraries for AMD's GPUs take."""
from . import hipblas  # noqa: F401
