"""What scripts ask a Target for by the names of flags: those that its string had, and what its row says."""
from __future__ import annotations

import re

_KEYS = {"c": ("cpu",), "cuda": ("cuda", "gpu"), "opencl": ("opencl", "gpu")}
LIMITS = {"max_num_threads": "max_threads", "max_threads_per_block": "max_threads",
          "max_shared_memory_per_block": "shared_bytes", "registers_per_block": "registers", "thread_warp_size": "warp"}
# What a target without such a flag answers; for the limits of a launch, only GPUs do.
_DEFAULTS = {"arch": "", "l2_cache_size_bytes": 0, "max_function_args": 0, "mattr": [], "mcpu": ""}
_FLAGS = frozenset(("mtriple", "num_cores", "vector_width", *_DEFAULTS, *LIMITS))
_ARM = ("aarch64", "armv7", "cortex-")  # how the names of such rows begin
_CHOOSE = ("arch", "mcpu", "mtriple")
_LISTS = ("keys", "libs", "mattr", "cl-opt")  # of names, with commas between them
_TEXTS = (*_CHOOSE, "device", "model")        # where a number is a name, too


class Attributes:
    """The part of Target that answers scripts. options: ((flag, text) ...) of the target string, in its order."""

    options = ()

    @property
    def attrs(self):
        """{flag: value}: what the target string says, and of a GPU its limits, as they hold, and "arch"."""
        said = {name: _value(name, text) for name, text in self.options}
        arch = next((word for word in sorted(self.isa) if word.startswith("sm_")), None)
        own = {} if self.launch is None else {name: getattr(self.launch, field) for name, field in LIMITS.items()}
        return {**({"arch": arch} if arch else {}), **said, **own}

    @property
    def keys(self):
        """What the target is, from the particular to the general, as ["arm_cpu", "cpu"]."""
        said = self.attrs
        own = [said["device"]] if "device" in said else ["arm_cpu"] if self.name.startswith(_ARM) else []
        return list(dict.fromkeys((*said.get("keys", ()), *own, *_KEYS.get(str(self.kind), (str(self.kind), "gpu")))))

    @property
    def libs(self):
        """The libraries that the target string names."""
        return list(self.attrs.get("libs", ()))

    @property
    def model(self):
        """The device's name in the target string; "unknown" without one."""
        return self.attrs.get("model", "unknown")

    @property
    def device_name(self):
        """The flag -device of the target string; "" without one."""
        return self.attrs.get("device", "")

    def __getattr__(self, name):
        """A flag of the target string by its name, as target.mcpu or target.num_cores."""
        if name not in _FLAGS:  # asked by copy and pickle, too, of a Target without fields
            raise AttributeError(f"a Target has no {name}")
        attrs = {flag.replace("-", "_"): value for flag, value in self.attrs.items()}
        if name in attrs:
            return attrs[name]
        if name not in _DEFAULTS:
            raise AttributeError(f"target {self.name} has no {name}")
        return type(_DEFAULTS[name])(_DEFAULTS[name])

    @property
    def spelled(self):
        """The name, with the flags that set limits: the target again, without its host."""
        return " ".join((self.name, *(f"-{name}={text}" for name, text in self.options if name in LIMITS)))

    def export(self):
        """The dict that Target(...) makes this target of. Flags that chose the row are in its name."""
        said = {name: value for name, value in self.attrs.items() if name in dict(self.options) and name not in _CHOOSE}
        return {"kind": self.name, **said, **({} if self.host is None else {"host": self.host.export()})}


def _value(name, text):
    """The value that a flag's text means; 1 for a flag without one."""
    if name in _LISTS:
        return [word for word in text.split(",") if word]
    if name in _TEXTS:
        return text
    return int(text or 1) if re.fullmatch("(-?[0-9]+)?", text) else text
