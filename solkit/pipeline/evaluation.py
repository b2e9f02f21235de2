"""All that a Lab knows about one candidate."""

from __future__ import annotations

import os
from dataclasses import dataclass

from solkit.core import Configuration, Outcome, Result, Verdict
from solkit.errors import SolkitError

Text = str | os.PathLike[str]
"""A kernel file: its path, or its source text, which has more than one line."""

Given = Text | Configuration
"""A candidate; a configuration has its own shape and parameters, and maybe a text for a path."""


@dataclass(frozen=True)
class Evaluation:
    """All that a `solkit.Lab` knows about one candidate.

    Attributes:
        candidate: as it was given.
        configuration: its file, shape and parameters; ``None`` if the candidate is unusable.
        result: bound, analysis, score and gap; ``None`` if the candidate is unusable.
        outcome: the result of measuring it, as logged; ``None`` if it was not measured.
        error: why the candidate cannot be used or measured; ``None`` if it can.
    """

    candidate: Given
    configuration: Configuration | None = None
    result: Result | None = None
    outcome: Outcome | None = None
    error: SolkitError | None = None

    @property
    def verdict(self) -> Verdict:
        """The verdict; ``NOT_MEASURED`` without an outcome."""
        if self.outcome is not None:
            return self.outcome.verdict
        return Verdict.NOT_MEASURED if self.result is None else self.result.verdict

    @property
    def time_ms(self) -> float | None:
        """Median time; ``None`` if it has none that counts."""
        if self.outcome is None or not self.outcome.verdict.is_right:
            return None
        return self.outcome.time_ms
