"""Fixtures that several rooms share."""

from __future__ import annotations

import functools
import gc
import multiprocessing
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
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

from solkit.core import Device, Work
from solkit.processes import jobs as worker
from solkit.processes.forkserver import Fork, ForkServer
from solkit.processes.host import Host
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


SERVERS = ("compiler_loaded", "interpreting_jobs", "checker")
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
def pytest_runtest_call() -> Any:
    """Take back handlers of signals that a test leaves: later ones would not hear Ctrl-C."""
    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGALRM
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        return (yield)
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)


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


class _OneProcess(worker.Jobs):
    """Jobs of one process, one after the other: for short ones a fork each takes most of the time.

    Args:
        server: that forks it.
        env: as for `worker.Jobs`.
    """

    def __init__(self, server: ForkServer, env: Mapping[str, str] | None = None) -> None:
        self._env, self._private = {**worker.ENVIRONMENT, **(env or {})}, False
        self.server, self._host = server, None

    def _receive_answer(
        self,
        function: str,
        args: tuple[Any, ...],
        timeout_s: float,
        shown: Sequence[str],  # noqa: ARG002 - a sandbox's
    ) -> bytes:
        if self._host is None or not self._host.is_alive:
            self._host = Host(self._start, "doing what a test asks")
        return self._host.call({}, pickle.dumps((function, args)), limit_s=timeout_s).payload

    def _start(self, descriptor: int) -> Fork:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(Path(__file__).parent))
            return self.fork("one_process:answer_all", (), (descriptor,))

    def close(self) -> None:
        """End the process; its server is another's."""
        if self._host is not None:
            self._host.close()


@pytest.fixture(scope="session")
def one_process() -> type[worker.Jobs]:
    """Jobs that one process does, for what leaves nothing behind."""
    return _OneProcess


@pytest.fixture(scope="session")
def _tracing(one_process: Callable[..., worker.Jobs]) -> Iterator[worker.Jobs]:
    jobs = one_process(worker.shared_jobs().server)
    yield jobs
    jobs.close()


@pytest.fixture
def work(write: Callable[..., str], _tracing: worker.Jobs) -> Callable[[str, str], Work]:
    """The work of ``reference`` (its body) on ``inputs`` (what it returns), traced for real."""

    def tracer(inputs: str, body: str) -> Work:
        arguments = ", ".join(f"a{i}" for i in range(inputs.count(";") + 1))
        path = write(
            f"def inputs(device='cuda'):\n    return ({inputs.replace(';', ',')},)\n"
            f"def reference({arguments}):\n    {body}\n"
        )
        traced: Work = _tracing.call("one_process:work_on_h100", path)
        return traced

    return tracer


@pytest.fixture(scope="session")
def interpreting_jobs() -> Iterator[worker.Jobs]:
    """Jobs in whose processes Triton interprets kernels.

    Whether it does is read when they are defined, so such processes have a server of their own.
    """
    jobs = worker.Jobs("interpreting:warm_up", {"TRITON_INTERPRET": "1"})
    # not sys.path: folders of kernel files that were loaded are there, one with a select.py
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path)
        jobs.start()
    yield jobs
    jobs.close()


@pytest.fixture(scope="session")
def interpreted(interpreting_jobs: worker.Jobs) -> Callable[..., Any]:
    """Call ``module:function`` of a folder in a process where Triton interprets kernels."""
    triton, numpy = (tuple(map(int, version(p).split(".")[:2])) for p in ("triton", "numpy"))
    if triton < (3, 7) and numpy >= (2, 4):
        pytest.skip("this triton's interpreter needs numpy < 2.4")

    def call(folder: Path, function: str, *args: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(folder))
            return interpreting_jobs.call(function, *args)

    return call


@pytest.fixture(scope="session")
def _compiling_jobs() -> Iterator[worker.Jobs]:
    loads = "solkit.analysis.compiled_reference:warm_up"
    jobs = worker.DerivedJobs(worker.shared_jobs(), loads)
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
    _look_ahead(len(sys.modules))
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


@functools.lru_cache(maxsize=1)
def _look_ahead(_modules: int) -> None:
    """Look through all modules once, not in each fork: tests have imported thousands."""
    from solkit import kernelfiles

    kernelfiles.look_ahead()


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
