"""Fixture of followed kernels: an analysis of the one kernel of a case."""

from __future__ import annotations

import pytest

from solkit.analysis.candidate import analyse
from solkit.core import AnalysisStatus
from solkit.kernelfiles import Workload
from solkit.roofline import devices


@pytest.fixture
def launched(in_child):
    """The analysis of the one kernel that a case launches."""

    def run(case, device="h100", **sizes):
        def child():
            workload = Workload((), {}, None, lambda: case("cuda", **sizes))
            return analyse(workload, devices.find(device), {}, 1)

        analysis = in_child(child, device=device)
        assert analysis.status is AnalysisStatus.COMPLETE, analysis
        (kernel,) = analysis.own
        assert kernel.demand is not None, analysis.notes
        return kernel

    return run
