"""Fixtures that several rooms share."""

from __future__ import annotations

import functools
import gc
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

import pytest

# XGBoost and BLAS read it as they load; with tables this small threads would only wait for one
# another, and wait busily: beside another process of ``-n`` a fit takes twice as long.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
os.environ["SOLKIT_STANDBY"] = ""  # a daemon of the user's is none of the tests' business

from solkit.analysis.analyser import Analyser
from solkit.analysis.study import StudyPlan, study
from solkit.core import Device, Work
from solkit.processes import jobs as worker
from solkit.processes.forkserver import ForkServer
from solkit.roofline import devices

HEADER = "import torch\nimport torch.nn.functional as F\n"


def _prepare_torch(hides_gpu: bool) -> None:
    """One thread; and keep the GPU from this process and its forks, which fake one.

    torch counts GPUs once, at the first question, and a fork keeps the answer: it would come too
    late in `_child`. What is started anew, as measuring is, finds the environment as it was.
    """
    import torch

    torch.set_num_threads(1)  # tensors are tiny here: threads would only wait for one another
    if hides_gpu:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CUDA_VISIBLE_DEVICES", "")
            assert not torch.cuda.is_available()


def pytest_configure(config: pytest.Config) -> None:
    """``-m gpu`` alone leaves the GPU to this process: some of those tests time in it.

    Processes of ``-n`` get long stretches of neighbours, which share what is costly to set up. The
    one that starts them runs no test: they need not wait until it has loaded torch.
    """
    # Some containers set it. Each process that tests start would compile SolKit, and each of ``-n``
    # all tests with their assertions.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job, as CI may be:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # what tests start hears Ctrl-C
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        gc.disable()  # to look for garbage takes a third of the time in which tests are collected
        _prepare_torch(hides_gpu=config.getoption("markexpr") != "gpu")
    if config.getoption("dist", "no") == "load":
        config.option.dist = "worksteal"


SERVERS = ("compiler_loaded", "interpreted", "checker")
"""Fixtures that start a server which takes seconds to load."""


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Mark cases as slow, and run modules that need the same server one after the other.

    Each process of ``-n`` begins with a long stretch of them, so that mostly one starts it.
    """
    for item in items:
        mark = item.get_closest_marker("quick")
        if mark is not None and not any(case in item.callspec.id for case in mark.args):
            item.add_marker(pytest.mark.slow)
    first = dict.fromkeys((item.path for item in items), len(SERVERS))
    for item in items:
        needed = [place for place, name in enumerate(SERVERS) if name in item.fixturenames]
        first[item.path] = min([first[item.path], *needed])
    items.sort(key=lambda item: first[item.path])


def pytest_collection_finish() -> None:
    """No later collection of garbage looks through what is imported now, as torch is."""
    if not gc.isenabled():
        gc.freeze()  # with what little garbage there is: to look for it takes a second
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Any:
    """Fail skips that ``skips.toml`` does not list, where ``CI`` is set."""
    report = yield
    return _unless_unlisted(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Any:
    """Fail modules that skip as a whole alike."""
    report = yield
    return _unless_unlisted(report)


def _unless_unlisted(report: Any) -> Any:
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI"):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not is_listed(report.nodeid, reason):
            report.outcome = "failed"
            report.longrepr = f"{report.nodeid} skips and is not in tests/skips.toml: {reason}"
    return report


def is_listed(test: str, reason: str) -> bool:
    """Tell whether a test may skip for a reason."""
    name = test.removeprefix("tests/")
    return any(
        fnmatchcase(name, row["tests"]) and any(fnmatchcase(reason, r) for r in row["reasons"])
        for row in _listed_skips()
    )


@functools.cache
def _listed_skips() -> list[dict[str, Any]]:
    path = Path(__file__).with_name("skips.toml")
    rows: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["skip"]
    return rows


@pytest.fixture(autouse=True, scope="session")
def data_of_ones_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a developer measured on his machine changes no test, and no test adds to it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOLKIT_CALIBRATIONS", str(Path(__file__).with_name("none")))
        patch.setenv("SOLKIT_TRACES", str(tmp_path_factory.getbasetemp() / "traces"))
        patch.setenv("SOLKIT_HINTS", "0")  # whether there is time for one depends on the machine
        patch.setenv("SOLKIT_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
        yield


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Write a kernel file with the usual imports; gives its path."""

    def writer(body: str, name: str = "problem.py") -> str:
        path = tmp_path / name
        path.write_text(HEADER + body, encoding="utf-8")
        return str(path)

    return writer


@pytest.fixture
def work(write: Callable[..., str]) -> Callable[[str, str], Work]:
    """The work of ``reference`` (its body) on ``inputs`` (what it returns), traced for real."""

    def tracer(inputs: str, body: str) -> Work:
        arguments = ", ".join(f"a{i}" for i in range(inputs.count(";") + 1))
        path = write(
            f"def inputs(device='cuda'):\n    return ({inputs.replace(';', ',')},)\n"
            f"def reference({arguments}):\n    {body}\n"
        )
        with Analyser("h100", cache=False) as analyser:
            return study(analyser, StudyPlan(path, analysing=False)).cases[0].work

    return tracer


@pytest.fixture(scope="session")
def interpreted() -> Iterator[Callable[..., Any]]:
    """Call ``module:function`` of a folder in a process where Triton interprets kernels.

    Whether it does is read when they are defined, so such processes have a server of their own.
    """
    triton, numpy = (tuple(map(int, version(p).split(".")[:2])) for p in ("triton", "numpy"))
    if triton < (3, 7) and numpy >= (2, 4):
        pytest.skip("this triton's interpreter needs numpy < 2.4")
    jobs = worker.Jobs()
    jobs.server = ForkServer(
        "interpreting:warm_up", {**worker.ENVIRONMENT, "TRITON_INTERPRET": "1"}
    )
    # not sys.path: folders of kernel files that were loaded are there, one with a select.py
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])

    def call(folder: Path, function: str, *args: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", path)  # of the server, which is started when it is needed
            patch.setenv("TRITON_INTERPRET", "1")
            patch.syspath_prepend(str(folder))
            return jobs.call(function, *args)

    yield call
    jobs.close()


@pytest.fixture(scope="session")
def _compiling_jobs() -> Iterator[worker.Jobs]:
    jobs = worker.Jobs("compiling:warm_up")
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path)
        jobs.start()
    yield jobs
    jobs.close()


@pytest.fixture(scope="module")
def compiler_loaded(_compiling_jobs: worker.Jobs) -> Iterator[None]:
    """Let jobs fork from a server that has loaded Inductor, which takes each of them seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "_shared", _compiling_jobs)
        yield


# What patches torch or triton runs in a forked child, so that nothing leaks into other tests.

LIMIT_S = 300  # only a child that hangs takes so long


@pytest.fixture(scope="session")
def in_child() -> Callable[..., Any]:
    """Run a function in a child with a fake H100 (or another device); gives what it returns."""
    return run_in_child


def run_in_child(function: Callable[..., Any], *args: Any, device: str = "h100") -> Any:
    _warm_up()
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sender, function, args, devices.find(device)))
    process.start()
    sender.close()
    try:
        assert receiver.poll(LIMIT_S), f"the child did not answer within {LIMIT_S} s"
        error, value = receiver.recv()
    finally:
        process.kill()
        process.join()
    assert error is None, error
    return value


@functools.cache
def _warm_up() -> None:
    """Load and compute what forks would else do each on its own; nothing is patched here."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    import solkit.analysis.worker  # noqa: F401
    from solkit.adapters import fake_cuda, triton_startup

    fake_cuda.defer_dynamo()
    triton_startup.prepare()
    with FakeTensorMode():
        torch.softmax(torch.ones(2, 2) @ torch.ones(2, 2), dim=-1).copy_(torch.ones(2, 2))
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page


def _child(
    sender: Any, function: Callable[..., Any], args: tuple[Any, ...], device: Device
) -> None:
    from solkit.adapters import fake_cuda
    from solkit.analysis.worker import fake_device

    gc.freeze()  # collecting what other tests left would end connections of their threads, as Ray's
    try:
        fake_device(device)
        with fake_cuda.fake_tensors():
            answer = None, function(*args)
    except BaseException:
        answer = traceback.format_exc(), None
    sender.send(answer)
