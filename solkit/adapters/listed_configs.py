"""Configurations that a language's own tuner lists, in the form of a `triton.autotune`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from solkit.core import Value
from solkit.errors import ParamsError

_SHOWN = 8


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


def index_of_params(
    configs: Sequence[Mapping[str, Value]], params: Mapping[str, Value], tuner: str
) -> int:
    """Return which configuration is the first with the requested values.

    Args:
        configs: as parameters.
        params: some may be other kernels'.
        tuner: what has the configurations, for the error.

    Raises:
        ParamsError: none has them.
    """
    own = {key: value for key, value in params.items() if any(key in c for c in configs)}
    for index, config in enumerate(configs):
        if all(config.get(key) == value for key, value in own.items()):
            return index
    listed = "; ".join(str(dict(config)) for config in configs[:_SHOWN])
    raise ParamsError(f"{tuner} has no configuration with {own}; it has: {listed}")
