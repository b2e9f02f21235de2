"""Settings of measurements: one record, from the command line down to the referee."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from solkit.errors import InputError


@dataclass(frozen=True)
class MeasureSettings:
    """Settings by which candidates are measured.

    Attributes:
        on: the GPU to measure on, e.g. ``"cuda:1"``; ``None`` is the first one of the target's
            model.
        precision: what contractions may be computed in, for the bound that a time is held against;
            see `solkit.roofline.precision_routes.Rule`.
        protocol: the name of a timing protocol (`solkit.measure.timing.protocols`).
        time_limit_s: wall seconds that one candidate may take at one shape. Running it on fake
            tensors may take half of them.
        checks_limit_s: wall seconds after which a candidate is checked on no further distribution,
            and after which no further timed call is judged. What was left out is noted. ``None``
            for a share of `time_limit_s`.
        searching: whether times only choose what is measured next. Then fewer calls are timed if
            these agree, and a slow reference only a few times; intervals still say how sure it is.
        study_limit_s: wall seconds for tracing one file, or compiling its candidate, at one shape.
        turns_s: wall seconds for a comparison's turns beyond the minimum number.
        sandbox: whether untrusted code runs under bubblewrap.
        custom_kernel: whether delegating the work to cuBLAS, cuDNN or torch counts as cheating.
        log: the file that outcomes are appended to; ``None`` is this month's in the user's data
            folder.
        counters: whether Nsight Compute counts each launch after timing.
        host_bytes: limit on resident host memory of a candidate's processes.
        patience_s: wall seconds to wait for a GPU that another SolKit holds.
        seed: of the inputs that are checked; ``None`` draws a secret one for each candidate. Inputs
            of timed calls always have secret seeds.
    """

    on: str | None = None
    precision: str = "tolerance"
    protocol: str = "cold"
    time_limit_s: float = 120.0
    checks_limit_s: float | None = None
    searching: bool = False
    study_limit_s: float = 180.0
    turns_s: float = 2.0
    sandbox: bool = False
    custom_kernel: bool = False
    log: str | os.PathLike[str] | None = None
    counters: bool = False
    host_bytes: int = 32 << 30
    patience_s: float = 600.0
    seed: int | None = None

    @property
    def gpu_index(self) -> int:
        """The number in `on`; 0 for ``"cuda"`` and for ``None``.

        Raises:
            InputError: `on` does not name a GPU.
        """
        match = re.fullmatch(r"cuda(?::(\d+))?", self.on or "cuda")
        if match is None:
            raise InputError(f"on: expected a GPU such as 'cuda:1', got {self.on!r}")
        return int(match[1] or 0)
