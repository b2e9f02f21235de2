"""Configurations that a language's own tuner lists, in the form of a `triton.autotune`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from solkit.core import Value

__all__ = ["ListedConfig", "ListedTuner"]


@dataclass(frozen=True)
class ListedConfig:
    """A configuration as parameters.

    Attributes:
        params: its numbers, bools and strings, by name.
    """

    params: Mapping[str, Value]

    def all_kwargs(self) -> Mapping[str, Value]:
        """Return the parameters."""
        return self.params


@dataclass(frozen=True)
class ListedTuner:
    """A kernel's configurations, with the attributes of a `triton.autotune`.

    Attributes:
        configs: the choices.
        early_config_prune, perf_model: nothing is pruned.
    """

    configs: tuple[ListedConfig, ...]
    early_config_prune: None = None
    perf_model: None = None

    @classmethod
    def of(cls, configs: Iterable[Mapping[str, Value]]) -> ListedTuner:
        """Return the tuner of configurations."""
        return cls(tuple(map(ListedConfig, configs)))
