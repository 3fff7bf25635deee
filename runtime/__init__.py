"""How Python runs compiled networks: loading with cffi, checking what callers pass, comparing with the reference."""
from .binding import NetworkError
from .library import CompiledLibrary, Timing
from .sample import sample_inputs
from .shapes import InputError
from .verify import compare_outputs

__all__ = ["CompiledLibrary", "InputError", "NetworkError", "Timing", "compare_outputs", "sample_inputs"]
