"""Kernels of candidates at held-out shapes, compiled before a bench checks candidates there."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from solkit.analysis.pool import await_futures
from solkit.core import Configuration, canonical
from solkit.pipeline.evolve_original import Original
from solkit.pipeline.preparing import Preparation
from solkit.spans import span

_STUDY_S, _STUDY_SHARE = 10.0, 3.0
"""Seconds to wait for kernels of held-out shapes, at the least, and as a share of what the search's
own shape took, where cores are busy: what takes longer would, on the GPU."""
_LISTED_S = 60.0
"""Seconds to wait for an autotuner's list: compiling the rest takes the time of the autotuner."""


class HeldOutKernels:
    """Compiles candidates at held-out shapes, each candidate once, from any number of threads.

    Args:
        prepared: compiles.
        original: what the search starts from; its problem has the shapes.
    """

    def __init__(self, prepared: Preparation, original: Original) -> None:
        self._prepared, self._original = prepared, original
        self._begun: dict[str, list[Future[None]]] = {}
        self._listed: list[Future[None]] = []  # of the original's autotuners
        self._compiled: set[str] = set()
        self._studied_s: dict[str, float] = {}

    def begin_original(self) -> None:
        """Begin to compile the original: the GPU waits until all is compiled.

        Its own shape is analysed meanwhile. Of autotuners all configurations are compiled that they
        would time at a shape.
        """
        own = self._original.configuration
        self._begun[_file_and_params(own)] = self._begin(own)
        candidate, problem = self._original.file.candidate, self._original.file.problem
        if candidate is not None and candidate.space.points is not None:
            shapes = own.shape, *problem.held_out_shapes
            at = (replace(own, shape=shape) for shape in shapes)
            self._listed = list(map(self._prepared.analyser.compile_listed, at))

    def _begin(self, configuration: Configuration) -> list[Future[None]]:
        shapes = self._original.file.problem.held_out_shapes
        at = [replace(configuration, shape=shape) for shape in shapes]
        return [self._prepared.analyser.compile(one) for one in at]

    def note_study(self, configuration: Configuration, took_s: float) -> None:
        """Note the seconds that studying a candidate took at its own shape."""
        self._studied_s[_file_and_params(configuration)] = took_s

    def compile(self, configuration: Configuration, begun: set[Future[Any]] | None = None) -> bool:
        """Compile a candidate once, and tell whether that was done in time.

        After the search's own shape, and only if that worked: tasks of one file that run out of
        time together are all done again, one by one. `begun` gets what is under way, so that giving
        up ends it.
        """
        name = _file_and_params(configuration)
        if name in self._compiled:
            return True
        ahead = self._begun.pop(name, None)
        futures = self._begin(configuration) if ahead is None else ahead
        if begun is not None:
            for future in futures:
                begun.add(future)
        limit_s = max(_STUDY_S, _STUDY_SHARE * self._studied_s.get(name, 0.0))
        with span("compiling for held-out shapes"):
            _, late = await_futures(futures, limit_s)
        for future in futures:
            future.cancel()
        if late or any(future.cancelled() for future in futures):
            return False
        self._compiled.add(name)
        return True

    def await_listed(self, configuration: Configuration) -> None:
        """Wait for what autotuners will time, if a candidate is the original.

        What takes too long is given up.
        """
        own = _file_and_params(self._original.configuration)
        if not self._listed or _file_and_params(configuration) != own:
            return
        listed, self._listed = self._listed, []
        with span("compiling an autotuner's list"):
            await_futures(listed, _LISTED_S)
        for future in listed:
            future.cancel()


def _file_and_params(configuration: Configuration) -> str:
    return f"{configuration.path} {canonical(configuration.params)}"
