"""Values that a kernel's programs keep in shared memory, where addresses depend on them.

The software pipeline copies indices (page tables, sorted ids) to shared memory some iterations
before they are used. Buffers are followed in program order: a read gives what the last write left,
as the waits between them make it on the GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class SharedView:
    """A buffer in shared memory, or a part of it.

    Attributes:
        buffer: the name of its allocation.
        slot: of each program, int64 [programs] or [1]: the index of the part along the first axis;
            ``None`` for the whole buffer.
        is_known: whether the view is the whole or one slot; nothing is known of other parts.
    """

    buffer: str
    slot: Array | None = None
    is_known: bool = True


@dataclass(frozen=True)
class Stored:
    """Contents of a slot.

    Attributes:
        value: as computed; ``None`` if unknown.
        guessed: elements of the tensor that a guess stands for; ``None`` if it is no guess.
        is_whole: whether the value is kept whole where others are kept by their corners.
    """

    value: Any
    guessed: int | None = None
    is_whole: bool = False


_UNKNOWN = Stored(None)
_WHOLE_BUFFER = -1


class SharedValues:
    """The contents of buffers, by slot.

    Args:
        choose: gives the first of two values where a program is active, else the second.
    """

    def __init__(self, choose: Callable[[Array, Any, Any], Any]) -> None:
        self._choose = choose
        self._slots: dict[str, dict[int, Stored]] = {}
        self._is_ordered = True

    def copy(self) -> dict[str, dict[int, Stored]]:
        """Return the present contents, for `restore`."""
        return {name: dict(slots) for name, slots in self._slots.items()}

    def restore(self, contents: dict[str, dict[int, Stored]]) -> None:
        """Put earlier contents back."""
        self._slots = contents

    def forget(self) -> None:
        """Know nothing from now on: warps that do different things write and read in turns."""
        self._slots, self._is_ordered = {}, False

    def write(self, view: SharedView, stored: Stored, active: Array) -> None:
        """Keep what active programs write."""
        if not self._is_ordered:
            return
        slots = self._slots.setdefault(view.buffer, {})
        if not view.is_known:
            slots.clear()
            return
        for slot, where in self._places(view, active):
            old = slots.get(slot)
            if old is None or where.all():
                slots[slot] = stored
            elif old.value is None or stored.value is None or old.is_whole != stored.is_whole:
                slots[slot] = _UNKNOWN
            else:
                kept = self._choose(where, stored.value, old.value)
                guessed = stored.guessed if old.guessed is None else old.guessed
                slots[slot] = Stored(kept, guessed, stored.is_whole)

    def read(self, view: SharedView, active: Array) -> Stored:
        """Give the contents that active programs read."""
        slots = self._slots.get(view.buffer, {})
        if not view.is_known:
            return _UNKNOWN
        joined: Stored | None = None
        for slot, where in self._places(view, active):
            part = slots.get(slot, _UNKNOWN)
            if part.value is None:
                return _UNKNOWN
            if joined is None:
                joined = part
            elif part.is_whole != joined.is_whole:
                return _UNKNOWN
            else:
                value = self._choose(where, part.value, joined.value)
                guessed = part.guessed if joined.guessed is None else joined.guessed
                joined = Stored(value, guessed, part.is_whole)
        return joined or _UNKNOWN

    @staticmethod
    def _places(view: SharedView, active: Array) -> list[tuple[int, Array]]:
        """List the slots, with the programs that are there."""
        if view.slot is None:
            return [(_WHOLE_BUFFER, active)]
        slot = np.broadcast_to(view.slot.reshape(-1), active.shape)
        slots = np.unique(slot[active]).tolist()
        return [(int(place), active & (slot == place)) for place in slots]
