"""The conditions that a program launches a kernel under."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

L2State = Literal["cold", "warm", "replayed"]
"""What L2 holds of a launch's tensors when it begins: none of them, all, or some, by name."""


@dataclass(frozen=True)
class Deployment:
    """Conditions under which a program launches a kernel, so that a timing can do alike.

    Attributes:
        graph: whether a CUDA graph launches it.
        reuse_bytes: by tensor, what launches had read and written when this one began, since a
            launch began that used the tensor last, that one's own included; ``None`` if none did.
    """

    graph: bool = False
    reuse_bytes: Mapping[str, int | None] = field(default_factory=dict)

    def resident(self, l2_bytes: float) -> tuple[str, ...]:
        """Return the tensors that a cache of that size still holds, the one used last at the end.

        They are those whose reuse distance fits: Mattson, Gecsei, Slutz & Traiger, "Evaluation
        Techniques for Storage Hierarchies", IBM Systems Journal 9, 1970, of a cache that forgets
        what was used longest ago.
        """
        fits = {n: size for n, size in self.reuse_bytes.items() if size and size <= l2_bytes}
        return tuple(sorted(fits, key=lambda name: -fits[name]))

    def l2(self, l2_bytes: float) -> L2State:
        """Return the state of a cache of that size."""
        held = len(self.resident(l2_bytes))
        if not held:
            return "cold"
        return "warm" if held == len(self.reuse_bytes) else "replayed"

    def launched(self) -> Literal["eager", "graph"]:
        """Return what launches it."""
        return "graph" if self.graph else "eager"
