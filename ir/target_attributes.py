"""What scripts ask a Target for by the names of flags: those that its string had, and what its row says."""
from __future__ import annotations

_KEYS = {"c": ("cpu",), "cuda": ("cuda", "gpu"), "opencl": ("opencl", "gpu")}
_LIMITS = {"max_num_threads": "max_threads", "max_threads_per_block": "max_threads",
           "max_shared_memory_per_block": "shared_bytes", "registers_per_block": "registers", "thread_warp_size": "warp"}
_FLAGS = frozenset(("arch", "march", "max_function_args", "mattr", "mcpu", "mtriple", "num_cores", "vector_width", *_LIMITS))
_ARM = ("aarch64", "armv7", "cortex-")  # how the names of such rows begin
_CHOOSE = ("arch", "mcpu", "mtriple")
_LISTS = ("keys", "libs", "mattr", "cl-opt", "devices")  # of names, with commas between them


class Attributes:
    """The part of Target that answers scripts. options: ((flag, value) ...) of the target string, in its order."""

    options = ()

    @property
    def attrs(self):
        """{flag: value}: what the target string says, and of a GPU its limits and "arch"."""
        said = {name: _value(name, value) for name, value in self.options}
        arch = next((word for word in sorted(self.isa) if word.startswith("sm_")), None)
        own = {"arch": arch} if arch else {}
        if self.launch is not None:
            own.update((name, getattr(self.launch, field)) for name, field in _LIMITS.items())
        return {**own, **said}

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
        """A flag of the target string by its name, as target.mcpu or target.arch."""
        if name.startswith("_") or name not in _FLAGS or name not in (attrs := self.attrs):
            raise AttributeError(f"target {self.name} has no {name}")
        return attrs[name]

    def export(self):
        """The dict that Target(...) makes this target of. Flags that chose the row are in its name."""
        said = {name: value for name, value in self.attrs.items() if name in dict(self.options) and name not in _CHOOSE}
        return {"kind": self.name, **said, **({} if self.host is None else {"host": self.host.export()})}


def _value(name, text):
    """The value that a flag's text means."""
    if name in _LISTS:
        return text.split(",") if isinstance(text, str) else list(text)
    return int(text) if isinstance(text, str) and text.isdigit() else text
