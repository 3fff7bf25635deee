"""Tensor maps: what a kernel takes in place of a matrix that only the tensor memory accelerator reads, and how a launch
encodes them."""
from __future__ import annotations

import re
from dataclasses import dataclass

from ..ir.names import unique_name

TYPE = "ingot_tensor_map"
DECLARED = f"const __grid_constant__ {TYPE} "  # of a parameter, before its name


@dataclass(frozen=True)
class TensorMap:
    """The map that stands for a matrix of so many columns and rows, C of the kernel's dimensions, as its parameter
    `name`; tile: columns and rows of what a copy reads."""

    name: str
    columns: str
    rows: str
    tile: tuple[int, int]

    def encoded(self, variable, pointer):
        """The call that fills a variable of the host."""
        return (f"ingot_encode_tensor_map(&{variable}, {pointer}, {self.columns}, {self.rows}, {self.tile[0]}, "
                f"{self.tile[1]})")


def variables(function, taken):
    """{name of a parameter: a variable of the host for its map} of a printed kernel, beside names that are taken."""
    taken = set(taken)
    return {m.name: unique_name(f"{m.name}_map", taken) for m in function.maps}


@dataclass(frozen=True)
class Encoded:
    """What a function that launches a kernel does for its maps. dims: declarations of the dimensions that they depend
    on; maps: (variable, the call that fills it); arguments: the addresses of what the kernel takes."""

    dims: tuple
    maps: tuple
    arguments: str


def from_addresses(function, parameters):
    """The Encoded of a printed kernel whose parameters, (declaration, name) each, come as `arguments`, the addresses of
    what callers would give it, matrices and not their maps."""
    own = variables(function, {"arguments", "extents", "error", "grid", "block", *(name for _, name in parameters)})
    used = {word for m in function.maps for word in re.findall(r"[A-Za-z_]\w*", f"{m.columns} {m.rows}")}
    places = {name: n for n, (_, name) in enumerate(parameters)}
    dims = tuple(f"{text} = *({text.rpartition(name)[0].strip()} *)arguments[{places[name]}];"
                 for text, name in parameters if name in used)
    maps = tuple((own[m.name], m.encoded(own[m.name], f"*(void **)arguments[{places[m.name]}]")) for m in function.maps)
    given = ", ".join(f"&{own[name]}" if name in own else f"arguments[{n}]" for n, (_, name) in enumerate(parameters))
    return Encoded(dims, maps, given)
