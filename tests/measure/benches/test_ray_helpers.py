"""Helpers of a cluster, without Ray."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from solkit.errors import WorkerError
from solkit.measure.benches import ray as rays


class RayError(Exception):
    pass


def test_a_job_begins_while_another_one_finds_the_last_node_lost(monkeypatch):
    nodes = [{"NodeID": "a", "Alive": True}]
    strategy = SimpleNamespace(NodeAffinitySchedulingStrategy=lambda *_, **__: None)

    def lose(*_, **__):
        raise RayError("the node died")

    ray = SimpleNamespace(
        nodes=lambda: nodes,
        get=lose,
        exceptions=SimpleNamespace(RayError=RayError),
        util=SimpleNamespace(scheduling_strategies=strategy),
    )
    remote = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda _: None))
    monkeypatch.setattr(rays, "_ray_package", lambda: ray)
    monkeypatch.setattr(rays, "_remote_helper", lambda: remote)
    helpers = rays._Helpers(["a"])

    def number_after_the_loss():
        helpers._nodes = []  # by the thread of the other job
        yield 0

    helpers._next = number_after_the_loss()
    with pytest.raises(WorkerError, match="no machine without a GPU compiles: the node died"):
        helpers.run(SimpleNamespace(limit_s=1.0, choices=()))
