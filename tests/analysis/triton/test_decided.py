"""Work that loaded numbers decide: the real numbers where they are known, else all of it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from solkit.analysis.candidate import analyse
from solkit.core import AnalysisStatus
from solkit.kernelfiles import Workload
from solkit.roofline import devices

SOURCE = Path(__file__).with_name("decided.py")
SPEC = importlib.util.spec_from_file_location("decided", SOURCE)
decided = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(decided)


@pytest.fixture(scope="module")
def counted(interpreted):
    """Bytes that each case asks for, counted as it runs on the CPU."""
    return interpreted(SOURCE.parent, "decided:interpreted")


@pytest.fixture
def launched(in_child):
    """The analysis of the one kernel that a case launches."""

    def run(case, **sizes):
        def child():
            workload = Workload((), {}, None, lambda: case("cuda", **sizes))
            return analyse(workload, devices.find("h100"), {}, 1)

        analysis = in_child(child, device="h100")
        assert analysis.status is AnalysisStatus.COMPLETE, analysis
        (kernel,) = analysis.kernels
        assert kernel.demand is not None, analysis.notes
        return kernel

    return run


def asked(demand, kind):
    return sum(a.requested_bytes for a in demand.accesses if a.kind == kind)


@pytest.mark.parametrize("name", decided.CASES)
def test_bytes_asked_for_are_those_that_the_interpreter_sees(name, launched, counted):
    demand = launched(decided.CASES[name]).demand
    for kind, wanted in counted[name].items():
        # programs that were not followed lane by lane are scaled: within 2 %
        assert asked(demand, kind) == pytest.approx(wanted, rel=0.02), kind
