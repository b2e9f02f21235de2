"""Configurations that another tool chose elsewhere: files of vLLM or SGLang for other GPUs.

Such files have choices without times, for another GPU, compiler or batch size. So they are no
measurements (`solkit.tuner.transfer_prior`) but suggestions: the nearest are measured right after
the configuration in use, and only a head-to-head decides.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from solkit.core import Outcome, Params, Space, Value, canonical
from solkit.errors import InputError
from solkit.tuner.emitters import ALIASES
from solkit.tuner.transfer_prior import shape_distance

CHOICES = 4
"""So many distinct ones are measured at the most."""


@dataclass(frozen=True)
class ChoicesElsewhere:
    """Files of other tools with what they chose.

    Attributes:
        files: that `solkit data import` reads.
        names: by a file's name of a size or parameter, the kernel's; others are looked up under
            their own names, then under usual ones.
    """

    files: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    def nearest(
        self, shape: Mapping[str, Value], space: Space, default: Params, most: int = CHOICES
    ) -> tuple[Params, ...]:
        """Return choices for the nearest shapes first, each once; the space has all of them.

        Args:
            shape: the sizes that are asked about.
            space: the kernel's parameters.
            default: the configuration in use, which has parameters that the files lack.
            most: so many at the most.

        Raises:
            InputError: a file cannot be read, or has no choices.
        """
        rows = [row for path in self.files for row in _rows_of(path)]
        rows.sort(key=lambda row: shape_distance(self._renamed(row.shape, shape), shape))
        points: dict[str, Params] = {canonical(default): default}
        for row in rows:
            point = {**default, **self._known_params(row, default)}
            if point in space:
                points.setdefault(canonical(point), point)
        return tuple(points.values())[1 : most + 1]

    def _known_params(self, row: Outcome, default: Params) -> dict[str, Value]:
        params = self._renamed(row.params, default)
        return {name: value for name, value in params.items() if name in default}

    def _renamed(self, values: Mapping[str, Value], names: Collection[str]) -> dict[str, Value]:
        """Return sizes or parameters under the kernel's names."""
        return {self._name_in(names, name): value for name, value in values.items()}

    def _name_in(self, names: Collection[str], name: str) -> str:
        candidates = (self.names.get(name, name), *ALIASES.get(name, ()))
        return next((other for other in candidates if other in names), name)


def _rows_of(path: str) -> Sequence[Outcome]:
    file = Path(path)
    return _read_choices(path, file.stat().st_mtime_ns if file.exists() else 0)


@lru_cache(maxsize=64)
def _read_choices(path: str, _modified_ns: int) -> Sequence[Outcome]:
    from solkit.datasets.formats import Labels, read

    labels = Labels(device="another")  # whichever: some files name none
    rows = [row for row in read(path, labels=labels).rows if _is_choice(row)]
    if not rows:
        raise InputError(f"{path} has no configurations that another tool chose")
    return rows


def _is_choice(row: Outcome) -> bool:
    return bool(row.params) and row.comparison is None and not row.verdict.is_failure
