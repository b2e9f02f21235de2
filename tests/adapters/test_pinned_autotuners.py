"""Autotuners of a later process launch what those of an earlier one chose."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

triton = pytest.importorskip("triton")
torch = pytest.importorskip("torch")

from triton import knobs  # noqa: E402
from triton.runtime.autotuner import Autotuner  # noqa: E402

from solkit.adapters import pinned_autotuners  # noqa: E402
from solkit.core.tuned import TunerChoice  # noqa: E402


@pytest.fixture(autouse=True)
def watched(monkeypatch):
    monkeypatch.setattr(Autotuner, "prune_configs", Autotuner.prune_configs)  # to be put back
    monkeypatch.setattr(knobs.compilation, "listener", None)
    pinned_autotuners.watch()
    yield
    pinned_autotuners.pin([])
    pinned_autotuners.announce(lambda _: None)


class Tuner:
    """A real autotuner of a kernel that only notes what is launched; `times` decide its choice."""

    def __init__(self, times, pruned=None):
        self.times, self.launched = times, []
        configs = [triton.Config({"BLOCK": block}) for block in times]
        early = {"early_config_prune": pruned} if pruned else None

        def kernel(x_ptr, n, BLOCK):
            pass

        self.tuner = Autotuner(
            SimpleNamespace(fn=kernel), ["x_ptr", "n", "BLOCK"], configs, ["n"], None, None,
            prune_configs_by=early, do_bench=self.bench,
        )  # fmt: skip
        self.tuner.fn = SimpleNamespace(
            run=lambda *_, **options: self.launched.append(options["BLOCK"])
        )

    def bench(self, call, quantiles):
        call()
        return [self.times[self.launched[-1]]] * len(quantiles)

    def run(self, n, dtype=torch.float32):
        """Return the configurations that one call launches, those that are timed included."""
        self.launched.clear()
        self.tuner.run(torch.empty(1, dtype=dtype), n, grid=(1,), warmup=False)
        return list(self.launched)


def test_a_choice_is_launched_without_timing_the_others():
    first = Tuner({16: 3.0, 32: 1.0, 64: 2.0})
    assert set(first.run(100)) == {16, 32, 64}
    choices = pinned_autotuners.chosen()
    later = Tuner({16: 1.0, 32: 5.0, 64: 2.0})  # it would choose another one
    pinned_autotuners.pin(choices)
    assert set(later.run(100)) == {32}
    assert later.tuner.best_config.kwargs == {"BLOCK": 32}
    assert pinned_autotuners.chosen() == choices


def test_other_keys_and_other_lists_are_timed():
    Tuner({16: 3.0, 32: 1.0}).run(100)
    pinned_autotuners.pin(pinned_autotuners.chosen())
    same = Tuner({16: 1.0, 32: 5.0})
    assert same.run(200)[-1] == 16
    assert same.run(100, torch.float16)[-1] == 16
    assert Tuner({16: 1.0, 32: 5.0, 64: 9.0}).run(100)[-1] == 16
    assert same.run(100)[-1] == 32


def test_what_pruning_leaves_out_is_not_launched():
    Tuner({16: 3.0, 32: 1.0}).run(100)
    pinned_autotuners.pin(pinned_autotuners.chosen())
    pruning = Tuner({16: 3.0, 32: 1.0}, lambda configs, *_, **__: (c for c in configs[:1]))
    assert set(pruning.run(100)) == {16}


def test_an_unknown_choice_leaves_all():
    pinned_autotuners.pin([TunerChoice("elsewhere", "('100', 'torch.float32')", "BLOCK: 32")])
    assert set(Tuner({16: 1.0, 32: 2.0}).run(100)) == {16, 32}


def test_a_list_is_announced_before_it_is_timed_unless_its_choice_is_kept():
    counts = []
    pinned_autotuners.announce(counts.append)
    first = Tuner({16: 3.0, 32: 1.0, 64: 2.0}, lambda configs, *_, **__: configs[:2])
    first.run(100)
    first.run(100)
    assert counts == [2]  # what pruning leaves, once
    pinned_autotuners.pin(pinned_autotuners.chosen())
    Tuner({16: 3.0, 32: 1.0, 64: 2.0}, lambda configs, *_, **__: configs[:2]).run(100)
    assert counts == [2]


def test_what_comes_from_the_compilers_cache_takes_no_time_of_the_compiler():
    pinned_autotuners.pin([])
    for hit, total in ((False, 2_000_000), (True, 9_000_000), (False, 500_000)):
        knobs.compilation.listener(cache_hit=hit, times=SimpleNamespace(total=total))
    assert pinned_autotuners.compiled_s() == 2.5
    pinned_autotuners.pin([])
    assert pinned_autotuners.compiled_s() == 0.0
