"""Check that Inductor's files compute their references: ``python -m tools.inductor.check``.

Each file is run on the CPU in Triton's interpreter, at its own shape. To run all programs would
take minutes: some run, drawn at random, and what they have written is compared. A file in bfloat16,
which the interpreter of Triton 3.6 gets wrong, is run in float32 instead.

    python -m tools.inductor.check                    # all of datasets/inductor
    python -m tools.inductor.check FILE ... --programs 20 --configurations 3

It exits with 1 where a file is wrong. Programs that wait for one another would wait for ever: of a
cooperative kernel those configurations are run that split nothing. Where programs go on with what
others began, the first ones are run.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from solkit.adapters import triton_interpreter
from solkit.datasets.kernels import INDUCTOR
from solkit.kernelfiles._source import import_file

__all__ = ["UncheckedError", "check_file"]

_LOG = logging.getLogger(__name__)
_MOST_VALUES = 1 << 16  # in a block: above, numpy has no pace to gain
_MOST_PROGRAMS = 20_000  # in a launch: to skip one takes time too
_MOST_WHOLE = 400  # in a launch of which all have to run
_POISON = 113  # in each byte that no program has written
_TRIES = 200


class UncheckedError(Exception):
    """A file cannot be run here, or too little of it."""


def check_file(path: Path, programs: int = 8, configurations: int = 2) -> None:
    """Compare a file's kernel with its reference.

    Args:
        path: the file.
        programs: of each launch, how many run.
        configurations: how many are run, of those that are valid.

    Raises:
        AssertionError: they differ.
        UncheckedError: no configuration can be run here.
    """
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        launches = _Launches(programs, random.Random(path.name))
        module = launches.module(path, Path(folder))
        args = module.inputs(device="cpu")
        want = module.reference(*args)
        remaining = configurations
        for params in itertools.islice(_drawn(module, random.Random(path.name)), _TRIES):
            if not remaining:
                return
            try:
                got = module.kernel(*args, **params)
            except _TooManyError:
                continue
            _compare(got, want, module, params)
            remaining -= 1
    if remaining == configurations:
        raise UncheckedError("no configuration is small enough")


def _drawn(module: ModuleType, chance: random.Random) -> Iterator[dict[str, int]]:
    """Valid configurations in random order, those with small blocks, which take long, last."""
    every = [
        dict(zip(module.SPACE, values, strict=True))
        for values in itertools.product(*module.SPACE.values())
    ]
    fit = [
        params
        for params in chance.sample(every, len(every))
        if params.get("RSPLIT", 1) == 1
        and _values(params) <= _MOST_VALUES
        and module.valid(params, {})
    ]
    most = max(map(_values, fit), default=0)
    yield from sorted(fit, key=lambda params: 8 * _values(params) < most)


def _values(params: Mapping[str, int]) -> int:
    sizes = (n for name, n in params.items() if "BLOCK" in name and name != "BLOCK_K")
    return math.prod(sizes)


def _compare(got: Any, want: Any, module: ModuleType, params: Mapping[str, int]) -> None:
    """Compare what is written, by the file's own ``check`` where it has one."""
    outputs = got if isinstance(got, tuple) else (got,)
    rights = want if isinstance(want, tuple) else (want,)
    pairs = []
    for place, (mine, right) in enumerate(zip(outputs, rights, strict=True)):
        where = f"output {place}, {params}"
        assert (mine.shape, mine.dtype) == (right.shape, right.dtype), f"{where}: form"
        written = _written(mine)
        assert written.any(), f"{where}: not written"
        pairs.append((mine[written], right[written]))
        if hasattr(module, "check"):
            continue
        near = torch.isclose(*pairs[-1], equal_nan=True, **module.TOLERANCE)
        assert near.all(), f"{where}: {int((~near).sum())} of {near.numel()} values are wrong"
    if hasattr(module, "check"):
        mine, right = pairs[0] if len(pairs) == 1 else zip(*pairs, strict=True)
        assert module.check(mine, right) in (None, True), f"check() rejects it, {params}"


def _written(tensor: torch.Tensor) -> torch.Tensor:
    kind = torch.uint8 if tensor.dtype == torch.bool else tensor.dtype
    poison = torch.full((kind.itemsize,), _POISON, dtype=torch.uint8).view(kind)
    return tensor.view(kind).float() != poison.float()


class _TooManyError(Exception):
    """A launch has so many programs that skipping them takes long."""


class _Launches:
    """Lets some programs of each launch run: a file's text calls it where its launch is."""

    def __init__(self, programs: int, chance: random.Random) -> None:
        self._programs = programs
        self._chance = chance
        self._grid: tuple[int, ...] = (1, 1, 1)
        self._first = False
        self._most = _MOST_PROGRAMS
        self._chosen: frozenset[int] = frozenset()

    def module(self, path: Path, folder: Path) -> ModuleType:
        """The file, so changed."""
        text = path.read_text(encoding="utf-8").replace("bfloat16", "float32")
        head, signature, body = text.partition("def fused_kernel(")
        first_line, _, rest = body.partition("\n")
        guard = f"    if skipped({', '.join(f'tl.program_id({axis})' for axis in range(3))}):\n"
        text = f"{head}{signature}{first_line}\n{guard}        return\n{rest}"
        text = text.replace("torch.empty_strided(", "poisoned(")
        text = text.replace("fused_kernel[grid]", "fused_kernel[chosen(grid)]")
        text = text.replace("rk_desc = rk.to(tl.int32)", "rk_desc = rk")  # no tensor here
        # programs go on where the ones before them end, or have nothing to do
        self._first = "lookback" in text or "NUM_SMS" in text
        if "elif pid <" in text or "NUM_STAGES" in text:  # few write each output
            self._programs = self._most = _MOST_WHOLE
        (folder / path.name).write_text(text, encoding="utf-8")
        module = import_file(str(folder / path.name))
        vars(module).update(skipped=self._skipped, poisoned=_poisoned, chosen=self._choose)
        return module

    def _choose(self, grid: tuple[int, ...]) -> tuple[int, ...]:
        count = math.prod(grid)
        if count > self._most:
            raise _TooManyError
        self._grid = (*grid, 1, 1)[:3]
        few = min(self._programs, count)
        chosen = range(few) if self._first else self._chance.sample(range(count), few)
        self._chosen = frozenset(chosen)
        return grid

    def _skipped(self, *place: Any) -> bool:
        x, y, z = map(int, place)
        return (x * self._grid[1] + y) * self._grid[2] + z not in self._chosen


def _poisoned(size: tuple[int, ...], stride: tuple[int, ...], **options: Any) -> torch.Tensor:
    tensor = torch.empty_strided(size, stride, **options)
    storage: Any = tensor.untyped_storage()
    storage.fill_(_POISON)
    return tensor


def _main() -> None:
    if os.environ.get("TRITON_INTERPRET") != "1":  # which triton reads as it is imported
        again = [sys.executable, "-m", "tools.inductor.check", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, "TRITON_INTERPRET": "1"})
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--programs", type=int, default=8)
    parser.add_argument("--configurations", type=int, default=2)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    triton_interpreter.install()
    files = options.files or sorted(INDUCTOR.glob("*/*.py"))
    wrong = 0
    for path in files:
        start = time.perf_counter()
        try:
            check_file(path, options.programs, options.configurations)
        except Exception as error:  # whatever a file may raise is told, and the next one checked
            wrong += 1
            _LOG.info("%s: %s: %s", path, type(error).__name__, str(error)[:500])
        else:
            _LOG.info("%s: right, %.1f s", path, time.perf_counter() - start)
    _LOG.info("%d of %d files compute their references", len(files) - wrong, len(files))
    sys.exit(wrong > 0)


if __name__ == "__main__":
    _main()
