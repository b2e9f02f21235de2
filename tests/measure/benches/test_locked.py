"""One bench that several threads share."""

from __future__ import annotations

from recordings import outcome

from solkit.core import Configuration
from solkit.errors import InputError
from solkit.measure.benches.locked import SharedBench


def at(block):
    return Configuration("k.py", "kernel", {}, {"BLOCK": block})


class Refusing:
    """Takes one configuration; before it refuses another one calls `refuses`."""

    capacity = 2

    def __init__(self):
        self.refuses, self.taken = lambda: None, []

    def submit(self, configurations):
        if configurations[0].params["BLOCK"]:
            self.refuses()
            raise InputError("no such file")
        self.taken += configurations

    def outcomes(self):
        while self.taken:
            yield self.taken.pop(), outcome(0)

    def discard(self):
        self.taken.clear()


def test_what_is_withdrawn_while_the_bench_refuses_it_costs_no_other_thread_its_outcome():
    bench = Refusing()
    shared = SharedBench(bench)
    refused, kept = shared.submit(at(1)), shared.submit(at(0))
    bench.refuses = lambda: shared.withdraw([refused])
    assert shared.wait_for_first([kept]) is kept
    assert kept.result() == outcome(0)
    assert refused.cancelled()
