"""Holds measured needs and hard bounds against what skippers touch."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import skipping
import torch

from solkit.core import Needed, Work
from solkit.measure.sensitivity import needed as measuring
from solkit.processes import jobs
from solkit.roofline import devices
from solkit.roofline.hard_bound import where_needed


@dataclass
class Found:
    """One problem's bounds and what its skipper touches, in bytes and operations.

    Attributes:
        source: the problem.
        read, written, flops: of the hard bound with what was measured.
        static: the hard bound's bytes read without it.
        touched, changed, multiplied: by the skipper.
        total: bytes of the inputs.
        astray: whether a sector was called needed of which the skipper touches none.
        error: why there is nothing else.
    """

    source: str
    read: int = 0
    written: int = 0
    flops: int = 0
    static: int = 0
    touched: int = 0
    changed: int = 0
    multiplied: int = 0
    total: int = 0
    astray: bool = False
    error: str = ""

    @property
    def is_unsound(self) -> bool:
        above = self.read > self.touched or self.written > self.changed
        return above or self.flops > self.multiplied or self.astray


def examine(problems: Sequence[skipping.Problem], samples: int) -> Iterator[Found]:
    """Measure problems and trace them, all in one child process."""
    traced = jobs.call("proof:_traced", [problem.source for problem in problems], timeout_s=600)
    for seed, (item, work) in enumerate(zip(problems, traced, strict=True)):
        try:
            yield _examined(item, work, samples, seed)
        except Exception:
            yield Found(item.source, error=traceback.format_exc())


def dense(names: Sequence[str], samples: int) -> Iterator[Found]:
    """Problems whose kernels skip nothing: `Found.multiplied` holds the static bound's part."""
    problems = [skipping.whole(*skipping.WHOLE[name]) for name in names]
    traced = jobs.call("proof:_traced", [problem.source for problem in problems], timeout_s=600)
    for work, result in zip(traced, examine(problems, samples), strict=True):
        assert not isinstance(work, str), work
        yield replace(result, multiplied=sum(work.hard_operations.values()))


def _traced(sources: list[str]) -> list[Work | str]:
    from solkit import kernelfiles
    from solkit.adapters import fake_cuda
    from solkit.analysis.problem import problem_case  # imports triton
    from solkit.analysis.worker import fake_device

    fake_device(devices.find("h100"))
    results: list[Work | str] = []
    for number, source in enumerate(sources):
        path = Path(tempfile.gettempdir()) / f"skip_{number}.py"
        path.write_text(source, encoding="utf-8")
        try:
            with fake_cuda.fake_tensors():
                results.append(problem_case(kernelfiles.load(str(path)), {}, {}, None).work)
        except BaseException:
            results.append(traceback.format_exc())
    return results


def _examined(problem: skipping.Problem, work: Work | str, samples: int, seed: int) -> Found:
    assert not isinstance(work, str), work
    scope = problem.load()
    torch.manual_seed(seed)
    inputs = list(scope["inputs"]())
    before = [items.clone() for items in inputs]
    touches, results, products = problem.touched(inputs)

    def run() -> list[torch.Tensor]:
        result = scope["reference"](*inputs)
        return list(result) if isinstance(result, tuple) else [result]

    for got, want in zip(results, run(), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4, check_dtype=False)
    changed = sum(_changed(before[0], inputs[0]) if problem.writes else _size(r) for r in results)
    for item, old in zip(inputs, before):
        item.copy_(old)

    def draw(number: int) -> list[torch.Tensor]:
        torch.manual_seed(seed + 1000 * number)
        return list(scope["inputs"]())

    with _Watched(touches, inputs) as watched:
        needed = measuring.measure_needed(
            run, inputs, draw, samples=samples, limit_s=60.0, seed=seed
        )
    assert isinstance(needed, Needed)
    hard = where_needed(work, needed)
    return Found(
        problem.source,
        hard.hard_read_bytes,
        hard.hard_write_bytes,
        sum(hard.hard_operations.values()),
        work.hard_read_bytes,
        sum(touch.bytes for touch in touches),
        changed,
        2 * products,
        sum(map(_size, inputs)),
        watched.astray,
    )


class _Watched:
    """Notes whether a change that moved the outputs changed only what the skipper leaves."""

    def __init__(self, touches: Sequence[skipping.Touch], inputs: Sequence[torch.Tensor]) -> None:
        self._touches = {x.data_ptr(): touch for x, touch in zip(inputs, touches)}
        self._depends = measuring._Subject.depends_on_any
        self.astray = False

    def __enter__(self) -> _Watched:
        watched, real = self, self._depends

        def depends(subject: Any, changes: Any) -> bool:
            tried: list[Any] = []

            def noted() -> Iterator[Any]:
                for change in changes:
                    tried[:] = [change]
                    yield change

            result = real(subject, noted())
            if result and not any(map(watched._touches_any, tried[0].writes)):
                watched.astray = True
            return result

        measuring._Subject.depends_on_any = depends
        return self

    def __exit__(self, *_: object) -> None:
        measuring._Subject.depends_on_any = self._depends

    def _touches_any(self, write: Any) -> bool:
        flat, places, _ = write
        sectors = self._touches[flat.data_ptr()].sectors
        return bool(sectors[places * flat.element_size() // 32].any())


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _changed(before: torch.Tensor, after: torch.Tensor) -> int:
    return int((before != after).sum()) * before.element_size()
