"""Memory behind the tensors of a launch: addresses, sizes, and integers that are known."""

from __future__ import annotations

import numpy as np

from solkit.adapters.launch_recording import TensorArgument
from solkit.analysis.common.regions import ADDRESS_BITS
from solkit.analysis.interpreter.values import Array

OFFSET = (1 << ADDRESS_BITS) - 1
"""Bits of an address that are an offset in its storage."""

IN_ORDER = "indices whose values are not known are taken to be in order"
"""Assumption about integers that `Storages.integers_at` does not know."""


class Storages(list[TensorArgument]):
    """Storages, by number from 1 on: the n-th has the addresses from ``n << ADDRESS_BITS`` on."""

    def address_of(self, tensor: TensorArgument) -> int:
        """Return the address of a tensor's first element; those of one storage share its number."""
        numbers = [storage.storage for storage in self]
        if tensor.storage not in numbers:
            numbers.append(tensor.storage)
            self.append(tensor)
        return ((numbers.index(tensor.storage) + 1) << ADDRESS_BITS) + tensor.offset_bytes

    @property
    def sizes(self) -> Array:
        """Bytes of the storages by number; the first entry stands for none."""
        return np.array([0, *(storage.storage_bytes for storage in self)])

    def at_place(self, place: int) -> TensorArgument | None:
        """Return the storage with a number, if there is one."""
        return self[place - 1] if 0 < place <= len(self) else None

    def wrapped(self, place: int, addresses: Array) -> Array | None:
        """Return addresses as such within a storage; ``None`` if it is unknown."""
        storage = self.at_place(place)
        if storage is None or not storage.storage_bytes:
            return None
        first = place << ADDRESS_BITS
        within: Array = first + (addresses - first) % storage.storage_bytes
        return within

    def integers_at(self, place: int, addresses: Array, bits: int) -> tuple[Array, bool] | None:
        """Return the integers at some addresses; ``None`` if these are in no storage.

        Args:
            place: number of the storage.
            addresses: in it.
            bits: of an integer.

        Returns:
            The integers, and whether they are known; those that are not count up from 0.
        """
        storage = self.at_place(place)
        if storage is None:
            return None
        contents = storage.contents
        if contents is None or contents.size == 0 or bits != 8 * storage.element_bytes:
            return ((addresses & OFFSET) - storage.offset_bytes) // storage.element_bytes, False
        at = (addresses & OFFSET) // storage.element_bytes
        return contents[np.clip(at, 0, contents.size - 1)].astype(np.int64), True
