"""relax.backend.metal: what the libraries for Apple's machines take."""
from . import coreml  # noqa: F401
