"""Several GPUs of this machine, or those of a Ray cluster, for a search."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from solkit.core import Configuration, Device, Final, Outcome, Source, StoredFacts
from solkit.errors import InputError
from solkit.measure.benches import Bench
from solkit.roofline.devices import find

if TYPE_CHECKING:
    from solkit.datasets.outcomelog import OutcomeLog
    from solkit.measure.benches.multi_gpu import ManyBench
    from solkit.measure.benches.remote import RemoteBench


class _GpuPlaces(Protocol):
    """Settings that name GPUs: `TuneSettings`, `BatchSettings`."""

    @property
    def workers(self) -> int: ...
    @property
    def gpus(self) -> str | None: ...
    @property
    def ray(self) -> str | None: ...


class RemoteGpus:
    """Opens the bench that settings name; its GPUs are all of one model.

    Args:
        how: names the GPUs.
        model: which model of GPU, if there are several.
        tell: receives sentences about workers.

    Attributes:
        log: where outcomes are written, once it is known.
    """

    def __init__(
        self, how: _GpuPlaces, model: str | Device | None, tell: Callable[[str], None]
    ) -> None:
        self._how, self._tell = how, tell
        self._model = find(model).key if isinstance(model, str) else model and model.key
        self.log: OutcomeLog | None = None

    @contextlib.contextmanager
    def open_workers(self, seed: int = 0, gpus: int | None = None) -> Iterator[Bench]:
        """Yield the bench of new workers.

        Args:
            seed: of inputs.
            gpus: at most so many GPUs.

        Raises:
            InputError: there are several models of GPU, and none is chosen.
            SolkitError: it cannot be opened.
        """
        from solkit.measure.benches.multi_gpu import OneModel

        with self._start_workers(seed, gpus) as bench:
            models = [device.key for device in bench.devices]
            if self._model is None and len(models) > 1:
                raise InputError(
                    f"there are GPUs of several models ({', '.join(models)}), whose times do not "
                    "compare: choose one with --device"
                )
            yield OneModel(bench, self._model or models[0])

    def head_to_head(self, seed: int, base: Configuration, rival: Configuration) -> Final:
        """Time two in turns on one GPU, in a new process and on other inputs."""
        from solkit.tuner.head_to_head import head_to_head

        with self.open_workers(seed, gpus=None if self._model else 1) as bench:
            return head_to_head(bench, base, rival)

    def _start_workers(self, seed: int, gpus: int | None) -> ManyBench | RemoteBench:
        from solkit.measure.benches.bench_server import Trusted
        from solkit.measure.benches.local import gpus_named, local_bench
        from solkit.measure.benches.ray import ray_bench
        from solkit.measure.benches.remote import Trade

        kind = Trusted(workers=self._how.workers, seed=seed, facts=False)
        trade = Trade(self, tell=self._tell)
        if self._how.ray is not None:
            return ray_bench(self._how.ray, kind, trade, gpus=gpus)
        kinds, names = gpus_named(kind, self._how.gpus or "all")
        return local_bench(kinds[:gpus], trade, names[:gpus])

    def append(
        self,
        rows: Iterable[Outcome] = (),
        sources: Iterable[Source] = (),
        facts: Iterable[StoredFacts] = (),
    ) -> tuple[Outcome, ...]:
        """Write to the log. The bench is opened before it: what a log is about needs the GPU."""
        assert self.log is not None, "nothing is measured before there is a log"
        return self.log.append(rows, sources, facts)
