"""Blocked images: where each channel lies, and arrays laid out like them."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..expr import IntImm
from ..relax.expr import RelaxExpr, TensorStructInfo
from ..relax.ops.layout import pack_channels

KINDS = ("float32", "int32", "int8", "uint8", "int16")  # dtypes of images


@dataclass(frozen=True)
class Image:
    """A value [N, blocks, H, W, lanes] of the new function. spots: the place of each channel among all lanes of all
    blocks, in order unless groups of channels begin with a block of their own, or are shuffled."""

    value: RelaxExpr
    spots: tuple

    @property
    def lanes(self):
        return self.value.struct_info.shape[-1].value

    @property
    def held(self):
        """How many channels there is room for."""
        return self.value.struct_info.shape[1].value * self.lanes

    @property
    def full(self):
        """Whether every lane is a channel: none is there to hold anything else."""
        return self.held == len(self.spots)

    @property
    def in_order(self):
        return self.spots == in_order(len(self.spots)) and self.held - self.lanes < len(self.spots)

    def like(self, value):
        """Another value whose channels lie as these do."""
        return Image(value, self.spots)

    def spread(self, data, axis=1, fill=0):
        """An array of these channels along `axis` as one of all places, the others `fill`."""
        shape = list(data.shape)
        shape[axis] = self.held
        result = np.full(shape, fill, data.dtype)
        result[(slice(None),) * axis + (np.array(self.spots),)] = data
        return result

    def pack(self, data, fill=0):
        """An array [N, C, H, W] as one [N, blocks, H, W, lanes]."""
        return pack_channels(self.spread(data, 1, fill), self.lanes)


def in_order(channels):
    """The spots of channels one after the other."""
    return tuple(range(channels))


def sources(spots, of, blocks, lanes):
    """The indices [blocks, lanes] with which gather_channels brings channels that lie at `of` to `spots`; -1 elsewhere,
    which is zero."""
    indices = np.full(blocks * lanes, -1, np.int32)
    indices[list(spots)] = of
    return indices.reshape(blocks, lanes)


def group_spots(channels, groups, lanes):
    """The spots of `channels` in groups that begin with a block of their own."""
    own = channels // groups
    room = -(-own // lanes) * lanes
    return tuple(c // own * room + c % own for c in range(channels))


def channels_of(value, dtypes=KINDS):
    """The channels of an image: a tensor of four dimensions with a static second one, of one of some dtypes; None for
    others."""
    info = value.struct_info
    if not isinstance(info, TensorStructInfo) or info.ndim != 4 or info.shape is None or str(info.dtype) not in dtypes:
        return None
    return info.shape[1].value if isinstance(info.shape[1], IntImm) else None
