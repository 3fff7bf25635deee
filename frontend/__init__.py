from .params import detach_params  # noqa: F401
