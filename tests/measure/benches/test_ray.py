"""A real Ray cluster of several nodes on this machine, whose GPUs are recordings.

Workers, nodes and the head are killed: nothing is lost, nothing counts twice.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import kinds
import pytest
from recordings import outcome

from solkit.core import Configuration
from solkit.datasets.outcomelog import OutcomeLog, read
from solkit.errors import ClusterLostError, UnsupportedError, WorkerError
from solkit.measure.benches import ray as rays
from solkit.measure.benches.bench_server import Recorded, Trusted
from solkit.measure.benches.ray import ray_bench
from solkit.measure.benches.remote import Trade
from solkit.measure.benches.remote_compile import Job
from solkit.measure.benches.source_archive import make_bundle
from solkit.roofline.devices import find

KERNEL = "k" * 16
EXAMPLE = Path(__file__).parents[3] / "examples" / "bias_gelu.py"
SMALL = {"num_cpus": 0, "num_gpus": 1, "object_store_memory": 80 << 20}


def at(block):
    return Configuration(KERNEL, "kernel", {"M": 64, "N": 32}, {"BLOCK": block})


def recorded(pace=0.0):
    rows = (outcome(n, compile_s=0.0) for n in range(200))
    return Recorded(tuple(rows), pace=pace)


@pytest.fixture(scope="module")
def cluster():
    """A head and a node, with a GPU each."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'solkit[ray]'")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        roots = Path(rays.__file__).parents[3], Path(__file__).parent
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, roots)))
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        cluster = Cluster(True, head_node_args={**SMALL, "include_dashboard": False})
        cluster.nodes = [cluster.add_node(**SMALL, wait=False)]
        cluster.wait_for_nodes()
        yield cluster
        cluster.shutdown()


@pytest.fixture
def log(tmp_path):
    with OutcomeLog(tmp_path / "log.jsonl") as log:
        yield log


def logged(log):
    return Counter(row.params["BLOCK"] for row in read(log.path).rows)


def workers():
    """Process ids of the workers on GPUs."""
    results = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(b"ray::_Worker"):
                results.append(int(path.parent.name))
        except OSError:
            continue
    return results


@pytest.mark.slow
def test_a_killed_worker_and_a_lost_node_lose_nothing(cluster, log):
    messages = []
    trade = Trade(log, tell=messages.append)
    with ray_bench(cluster.address, recorded(pace=0.02), trade, place_s=300.0) as bench:
        assert (bench.gpus, bench.device.key) == (2, "h100-sxm")
        requests = [at(n) for n in range(200)]
        bench.submit(requests[:120])
        outcomes = bench.outcomes()
        seen = [next(outcomes)[0] for _ in range(20)]
        old = set(workers())
        os.kill(min(old), signal.SIGKILL)
        seen += [item for item, _ in outcomes]
        wait_for(lambda: set(workers()) - old)  # another one takes its place
        bench.submit(requests[120:])
        outcomes = bench.outcomes()
        seen += [next(outcomes)[0] for _ in range(16)]
        cluster.remove_node(cluster.nodes[0])
        seen += [item for item, _ in outcomes]
    assert Counter(map(id, seen)) == Counter(map(id, requests))
    assert logged(log) == Counter(range(200))
    assert [
        message
        for message in messages
        if "died unexpectedly" in message or "connection error" in message
    ]


def wait_for(is_so):
    deadline = time.monotonic() + 300
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.slow
def test_jobs_are_done_on_nodes_without_a_gpu(cluster, monkeypatch):
    """`test_far` has what a job does; here it says where it ran."""
    import ray

    monkeypatch.setattr(rays, "run_helper_job", kinds.where)
    rays._remote_helper.cache_clear()
    node = cluster.add_node(**{**SMALL, "num_cpus": 1, "num_gpus": 0})
    job = Job(make_bundle(str(EXAMPLE)), "kernel", {}, (), find("h100-sxm"), 60.0)
    try:
        ray.init(cluster.address, logging_level="ERROR", log_to_driver=False)
        lender = rays._find_lender()
        assert lender.slots == 1
        assert lender.run(job) == ("kernel", node.node_id)
        with pytest.raises(WorkerError, match="no machine without a GPU compiles"):
            rays._Helpers(["0" * 56]).run(job)
    finally:
        rays._remote_helper.cache_clear()
        ray.shutdown()
        cluster.remove_node(node, allow_graceful=False)


@pytest.mark.slow
def test_a_lost_head_is_an_error_and_the_log_has_all_that_was_measured(cluster, log):
    with ray_bench(cluster.address, recorded(pace=0.1), Trade(log), head_s=1.0) as bench:
        bench.submit([at(n) for n in range(200)])
        outcomes = bench.outcomes()
        seen = [next(outcomes)[0].params["BLOCK"] for _ in range(10)]
        cluster.head_node.kill_gcs_server()
        with pytest.raises(ClusterLostError, match=r"the head of the Ray cluster .*--resume"):
            seen.extend(item.params["BLOCK"] for item, _ in outcomes)
        assert bench.pending > 0
    assert set(logged(log).values()) == {1}
    assert logged(log).keys() >= set(seen)


@pytest.mark.slow
def test_no_cluster_at_the_address_is_an_error(log):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'solkit[ray]'")
    with pytest.raises(UnsupportedError, match=r"no Ray cluster at 127\.0\.0\.1:1: nothing"):
        ray_bench("127.0.0.1:1", Trusted(), Trade(log))


def test_without_ray_the_error_says_what_to_install(log, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'solkit\[ray\]'"):
        ray_bench("auto", Trusted(), Trade(log))
