"""Random numbers that a program draws on the CPU: the same on every machine, by the seed.

Few numbers are drawn at once, from the generator that the program names, or torch's own. They are
what a real run draws as long as nothing else moved that generator: an operation that was put off
(`deferred_values`), or a draw for the GPU, which has generators of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch

_FEW = 1 << 12
"""Elements that are drawn at once: lengths, and what they are drawn from."""


def draws_few_on_cpu(func: torch._ops.OpOverload, results: Sequence[torch.Tensor]) -> bool:
    """Tell whether an op draws a few numbers on the CPU."""
    return torch.Tag.nondeterministic_seeded in func.tags and all(
        result.device.type == "cpu" and result.numel() <= _FEW for result in results
    )


_MOST_HELD = 64


class DrawsInStep:
    """Generators that stand where a real run's stand: freshly seeded, or moved by exact draws."""

    def __init__(self) -> None:
        # generators by their ids, with their states: held, so that no other one gets the id
        self._states: dict[int, tuple[torch.Generator, torch.Tensor]] = {}  # after an exact draw
        self._behind: dict[int, tuple[torch.Generator, torch.Tensor]] = {}  # a draw was put off

    def is_in_step(self, kwargs: Mapping[str, Any]) -> bool:
        """Tell whether the generator of a call stands where a real run's does."""
        generator = _generator_of(kwargs)
        state, key = generator.get_state(), id(generator)
        if key in self._behind and torch.equal(self._behind[key][1], state):
            return False
        origin = self._states.get(key)
        # a program's own generator moves by its draws alone
        own = generator is not torch.default_generator
        fresh = own or torch.equal(state, _fresh_state(generator.initial_seed()))
        return fresh or (origin is not None and torch.equal(origin[1], state))

    def note_draw(self, kwargs: Mapping[str, Any], was_in_step: bool) -> None:
        """Note that a draw was made."""
        generator = _generator_of(kwargs)
        states = self._states if was_in_step else self._behind
        states[id(generator)] = generator, generator.get_state()
        if len(states) > _MOST_HELD:
            del states[next(iter(states))]

    def note_delay(self, kwargs: Mapping[str, Any]) -> None:
        """Note that a draw was put off."""
        self.note_draw(kwargs, was_in_step=False)


def _generator_of(kwargs: Mapping[str, Any]) -> torch.Generator:
    generator = kwargs.get("generator")  # `torch.Generator` may be a stand-in here
    return generator if isinstance(generator, torch._C.Generator) else torch.default_generator


@functools.lru_cache(maxsize=16)
def _fresh_state(seed: int) -> torch.Tensor:
    return torch._C.Generator(torch.device("cpu")).manual_seed(seed).get_state()
