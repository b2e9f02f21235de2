"""Analysis in bulk: what comes back, what misbehaving kernels cost, and what is kept on disk."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from solkit.adapters.nvrtc import find_toolkit
from solkit.analysis.analyser import Analyser
from solkit.analysis.study import StudyPlan, study
from solkit.core import SOURCE_DEPTHS, AnalysisStatus, Configuration, Depth
from solkit.errors import JobDiedError, KernelFileError, ParamsError, UnsupportedError, WorkerError
from solkit.processes import jobs

KERNEL = """
import os, pathlib, time
LOADS = pathlib.Path(__file__).with_name("loads")
with LOADS.open("a") as log:
    log.write("x")

def inputs(N=1024, device="cuda"):
    return torch.randn(N, device=device)
def reference(x):
    return x * 2
def kernel(x, *, DO="nothing", NUMBER=0):
    if DO == "die":
        os._exit(7)
    if DO == "abort":
        os.abort()
    if DO == "hang":
        LOADS.with_name("pid").write_text(str(os.getpid()))
        time.sleep(600)
    return torch.cat([x] * (NUMBER + 1))
"""

TRITON = """
import triton
import triton.language as tl

@triton.jit
def double(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at) * 2)

def inputs(N=4096, device="cuda"):
    return torch.randn(N, device=device)
def reference(x):
    return x * 2
def kernel(x, *, BLOCK=1024):
    y = torch.empty_like(x)
    double[(x.numel() // BLOCK,)](x, y, BLOCK)
    return y
"""

CUDA = """
from torch.utils.cpp_extension import load_inline

SOURCE = r'''
__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
torch::Tensor doubled(torch::Tensor x) {
  auto y = torch::empty_like(x);
  twice<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}
'''
built = load_inline("doubling", "torch::Tensor doubled(torch::Tensor x);", SOURCE, ["doubled"])

def inputs(N=4096, device="cuda"):
    return torch.randn(N, device=device)
def reference(x):
    return x * 2
def kernel(x):
    return built.doubled(x)
"""


MIXED = (
    TRITON.partition("def inputs")[0]
    + CUDA.replace("return built.doubled(x)", "y = torch.empty_like(x)\n    "
                   "double[(4,)](built.doubled(x), y, 1024)\n    return y")
)  # fmt: skip
"""Both, one after the other."""


def configurations(path, choices):
    return (Configuration(path, "kernel", {}, params) for params in choices)


def analysed(analyser, path, choices):
    """What becomes of each choice of parameters, by that as text."""
    analysis = analyser.analysed(configurations(path, choices))
    return {str(item.configuration.params): item for item in analysis}


@pytest.fixture
def analyser(tmp_path):
    """One that is closed at the end, and an empty cache of its own."""
    with Analyser("h100", cache=tmp_path / "cache", workers=2) as analyser:
        yield analyser


@pytest.fixture
def no_process_after(monkeypatch):
    """Call it, and whatever wants a process from then on fails."""

    def refuse(*_, **__):
        raise WorkerError("a process was to be started")

    return lambda: monkeypatch.setattr(jobs.Jobs, "fork", refuse)


@pytest.mark.slow
def test_each_configuration_comes_back_with_what_it_gives(analyser, write):
    requested_configurations = configurations(write(KERNEL), ({"NUMBER": n} for n in range(40)))
    results = {
        item.configuration.params["NUMBER"]: item
        for item in analyser.analysed(requested_configurations)
    }
    assert {n: result.analysis.outputs for n, result in results.items()} == {
        n: f"1 output float32[{1024 * (n + 1)}]" for n in range(40)
    }
    assert all(result.error is None and result.seconds > 0 for result in results.values())


@pytest.mark.slow
def test_a_file_is_loaded_once_by_each_worker(analyser, write):
    path = write(KERNEL)
    assert (
        len(list(analyser.analysed(configurations(path, [{"NUMBER": n} for n in range(30)])))) == 30
    )
    assert 1 <= len(Path(path).with_name("loads").read_text()) <= 2


@pytest.mark.slow
def test_one_that_misbehaves_costs_itself_alone(write):
    path = write(KERNEL)
    bad = ({"DO": "die"}, {"DO": "abort"}, {"DO": "hang"}, {"NOTHING": 1})
    good = [{"NUMBER": n} for n in range(5)]
    mixed = [*good[:2], *bad, *good[2:]]
    with Analyser("h100", cache=False, workers=2, limit_s=5.0) as analyser:
        results = analysed(analyser, path, mixed)
    died, aborted, hung, unknown = (results[str(params)].error for params in bad)
    assert "exit code 7" in str(died)
    assert "SIGABRT" in str(aborted)
    assert "ran for over 5 s" in str(hung)
    assert [isinstance(item, JobDiedError) for item in (died, aborted, hung)] == [True] * 3
    assert isinstance(unknown, ParamsError)
    assert "'NOTHING'" in str(unknown)
    assert all(results[str(params)].analysis is not None for params in good)


def test_a_compiler_that_crashes_loses_its_own_kernel(analyser, write):
    crash = (
        "import solkit.analysis.triton.compiling as compiling\n"
        "compiling.compile_for = lambda *_: os.abort()\n"
    )
    path = write("import os\n" + crash + TRITON)
    (result,) = analyser.analysed(configurations(path, [{}]))
    assert result.analysis.status is AnalysisStatus.PARTIAL
    assert result.analysis.kernels[0].error == "the compiler crashed (exit code -6)"


def test_what_a_kernel_launches_is_compiled(analyser, write):
    requested_configurations = configurations(write(TRITON), [{"BLOCK": 1024}, {"BLOCK": 3}])
    analysis_by_param = {
        item.configuration.params["BLOCK"]: item.analysis
        for item in analyser.analysed(requested_configurations)
    }
    assert analysis_by_param[1024].status is AnalysisStatus.COMPLETE
    assert analysis_by_param[1024].kernels[0].launch.grid == (4, 1, 1)
    assert analysis_by_param[1024].kernels[0].facts.registers > 0
    assert "power of 2" in analysis_by_param[3].kernels[0].error


def test_a_file_that_cannot_be_read_is_an_error_that_says_so(analyser, tmp_path):
    path = str(tmp_path / "nothing.py")
    with pytest.raises(KernelFileError, match="no such file"):
        analyser.describe(path).result()
    (results,) = analyser.analysed(configurations(path, [{}]))
    assert isinstance(results.error, KernelFileError)


@pytest.mark.slow
def test_threads_share_an_analyser(analyser, write):
    paths = [write(KERNEL, f"kernel{n}.py") for n in range(3)]
    results = {}

    def work(path):
        requested_configurations = configurations(path, [{"NUMBER": n} for n in range(5)])
        results[path] = sorted(
            item.analysis.outputs for item in analyser.analysed(requested_configurations)
        )

    threads = [threading.Thread(target=work, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == dict.fromkeys(
        paths, sorted(f"1 output float32[{1024 * n}]" for n in range(1, 6))
    )


def test_a_file_saved_anew_is_read_anew(analyser, write):
    path = write(KERNEL)
    assert analyser.describe(path).result().problem.sizes == {"N": 1024}
    write(KERNEL.replace("1024", "2048"))
    assert analyser.describe(path).result().problem.sizes == {"N": 2048}
    write(KERNEL.replace("1024", "4096"))
    assert analyser.problem(path, None, {}).result().outputs == "1 output float32[4096]"


def test_closing_gives_up_what_is_left(write):
    analyser = Analyser("h100", cache=False, workers=1)
    path = write(KERNEL)
    first, *others = configurations(path, [{"DO": "hang"}] * 3)
    running = analyser.submit(first)
    while not running.running():
        time.sleep(0.01)
    waiting = [analyser.submit(items) for items in others]
    start = time.monotonic()
    analyser.close()
    assert time.monotonic() - start < 60  # not 600
    assert isinstance(running.result().error, WorkerError)
    for item in waiting:
        with pytest.raises(CancelledError):
            item.result()
    with pytest.raises(WorkerError, match="is closed"):
        analyser.describe(path)


@pytest.mark.slow
def test_leaving_the_iterator_gives_up_what_waits(analyser, write):
    requested_configurations = configurations(write(KERNEL), ({"NUMBER": n} for n in range(10**9)))
    analysis = analyser.analysed(requested_configurations)
    next(analysis)
    analysis.close()
    assert analyser.describe(write(KERNEL, "other.py")).result().problem.name == "other"


# --------------------------------------------------------------------------------- on disk


def test_what_was_found_needs_no_process_again(analyser, write, no_process_after, tmp_path):
    path = write(KERNEL)
    choices = [{"NUMBER": n} for n in range(3)]

    def everything(analyser):
        results = analysed(analyser, path, choices)
        analyses = {params: result.analysis for params, result in results.items()}
        return analyser.describe(path).result(), analyser.problem(path, None, {}).result(), analyses

    first = everything(analyser)
    no_process_after()
    with Analyser("h100", cache=tmp_path / "cache") as another:
        assert everything(another) == first


def test_a_plan_needs_no_process_again(analyser, write, no_process_after):
    path = write("import torch\n" + KERNEL.replace("x * 2", "x + x - x"))
    first = analyser.plan(path, None, {"N": 64}, 60)
    no_process_after()
    assert analyser.plan(path, None, {"N": 64}, 60) == first
    with pytest.raises(WorkerError, match="to be started"):
        analyser.plan(path, None, {"N": 65}, 60)


def test_a_captured_space_needs_no_process_again(analyser, write, no_process_after, tmp_path):
    path = write(TRITON)
    requested_configurations = list(
        configurations(path, [{"BLOCK": 1024}, {"BLOCK": 512}, {"BLOCK": 2048}])
    )
    first = [result.analysis for result in analyser.captured(requested_configurations)]
    grids = [analysis.kernels[0].launch.grid for analysis in first]
    assert grids == [(4, 1, 1), (8, 1, 1), (2, 1, 1)]
    no_process_after()
    with Analyser("h100", cache=tmp_path / "cache") as another:
        again = another.captured(requested_configurations)
        assert [result.analysis for result in again] == first
        assert [result.configuration for result in again] == requested_configurations
        (fewer,) = another.captured(requested_configurations[:1])
    assert isinstance(fewer.error, WorkerError)  # it is another space


def test_a_captured_space_with_a_failure_is_not_kept(analyser, write, no_process_after, tmp_path):
    path = write(TRITON)
    requested_configurations = list(
        configurations(path, [{"BLOCK": 1024}, {"BLOCK": 3}, {"SIZE": 1}])
    )
    results = analyser.captured(requested_configurations)
    assert results[0].analysis is not None
    assert isinstance(results[2].error, ParamsError)
    no_process_after()
    with Analyser("h100", cache=tmp_path / "cache") as another:
        assert all(result.analysis is None for result in another.captured(requested_configurations))


BESIDE = """
import pathlib
import helper_of_analyser
HERE = pathlib.Path(__file__).parent
def inputs(device="cuda"):
    return torch.randn(helper_of_analyser.N, device=device)
def reference(x):
    return x * len((HERE / "data.txt").read_text())
"""


@pytest.mark.parametrize("changed", ["problem.py", "helper_of_analyser.py", "data.txt"])
def test_what_is_kept_holds_while_the_files_read_for_it_do(
    analyser, write, tmp_path, no_process_after, changed
):
    (tmp_path / "helper_of_analyser.py").write_text("N = 8\n")
    (tmp_path / "data.txt").write_text("text")
    path = write(BESIDE)
    analyser.problem(path, None, {}).result()
    no_process_after()
    assert analyser.problem(path, None, {}).result().outputs == "1 output float32[8]"
    with (tmp_path / changed).open("a") as file:
        file.write("\n# more")
    with pytest.raises(WorkerError, match="a process was to be started"):
        analyser.problem(path, None, {}).result()


def test_another_device_shape_or_parameter_is_another_answer(analyser, write, tmp_path):
    path = write(KERNEL)
    first = analyser.problem(path, None, {}).result()
    assert analyser.problem(path, None, {"N": 8}).result().outputs == "1 output float32[8]"
    outputs = [
        item.analysis.outputs for item in analyser.analysed(configurations(path, [{"NUMBER": 1}]))
    ]
    assert outputs == ["1 output float32[2048]"]
    with Analyser("a100", cache=tmp_path / "cache") as another:
        assert another.problem(path, None, {}).result() == first
    assert len(list((tmp_path / "cache").glob("*/*"))) == 4


def test_a_file_that_asks_for_environment_variables_is_read_each_time(analyser, write, monkeypatch):
    path = write(KERNEL.replace("N=1024", "N=int(os.environ['SIZE_OF_IT'])"))
    for size in (8, 16):
        monkeypatch.setenv("SIZE_OF_IT", str(size))
        assert analyser.describe(path).result().problem.sizes == {"N": size}


def test_errors_are_not_kept(analyser, write, tmp_path):
    list(analyser.analysed(configurations(write(KERNEL), [{"NOTHING": 1}, {"DO": "die"}])))
    assert not list((tmp_path / "cache").glob("*/*"))


def test_without_a_folder_to_write_to_nothing_is_kept(write, tmp_path):
    (tmp_path / "a file").write_text("")
    with Analyser("h100", cache=tmp_path / "a file", workers=1) as analyser:
        assert analyser.describe(write(KERNEL)).result().problem.sizes == {"N": 1024}


@pytest.mark.skipif(not os.environ.get("HOME"), reason="a user without a home")
def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    from solkit.analysis.cache import default_folder

    monkeypatch.setenv("SOLKIT_CACHE", str(tmp_path))
    assert default_folder() == tmp_path
    monkeypatch.setenv("SOLKIT_CACHE", "off")
    assert default_folder() is None
    monkeypatch.delenv("SOLKIT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_folder() == tmp_path / "xdg" / "solkit" / "analysis"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_folder() == Path.home() / ".cache" / "solkit" / "analysis"


def test_each_depth_has_answers_of_its_own(analyser, write, no_process_after):
    path = write(TRITON)
    (configuration,) = configurations(path, [{}])

    def facts(depth):
        analysis = analyser.submit(configuration, depth).result().analysis
        assert analysis.status is AnalysisStatus.COMPLETE
        return analysis.kernels[0].facts

    facts_by_depth = {depth: facts(depth) for depth in SOURCE_DEPTHS}
    assert [facts_by_depth[depth].depth for depth in SOURCE_DEPTHS] == list(SOURCE_DEPTHS)
    no_process_after()
    kept = (Depth.LOWERED, Depth.COMPILED)
    assert [facts(depth) for depth in kept] == [facts_by_depth[depth] for depth in kept]


@pytest.fixture
def nvrtc():
    try:
        return find_toolkit()
    except UnsupportedError as error:
        pytest.skip(str(error))


@pytest.mark.slow
def test_what_a_measurement_may_wait_for_goes_ahead_of_rankings(analyser, write, monkeypatch):
    order = []

    def refuse(_source, request, future, convert):
        order.append((request.method, request.goes_first))
        future.set_result(convert(WorkerError("There is no worker.")))

    monkeypatch.setattr(analyser._pool, "submit", refuse)
    one, other = configurations(write(KERNEL), [{"NUMBER": 1}, {"NUMBER": 2}])
    analyser.captured([one])
    analyser.captured([one, other])
    analyser.submit(one)
    analyser.submit(one, Depth.LOWERED)
    assert order == [
        ("capture", True),  # before it is studied
        *[("capture", False)] * 2,  # of a ranking
        ("analyse", True),
        ("lower", False),
    ]


@pytest.mark.usefixtures("nvrtc")
def test_cuda_is_compiled_where_triton_is_lowered(analyser, write):
    def facts(path, depth):
        (configuration,) = configurations(path, [{}])
        analysis = analyser.submit(configuration, depth).result().analysis
        assert analysis.status is AnalysisStatus.COMPLETE, analysis.notes
        return [kernel.facts for kernel in analysis.kernels]

    (alone,) = facts(write(CUDA), Depth.LOWERED)
    assert (alone.depth, alone.estimated, alone.launch.grid) == (Depth.COMPILED, (), (16, 1, 1))
    assert [alone] == facts(write(CUDA), Depth.COMPILED)
    mixed = write(MIXED)
    assert [items.depth for items in facts(mixed, Depth.LOWERED)] == [Depth.COMPILED] * 2
    assert facts(mixed, Depth.LOWERED) == facts(mixed, Depth.COMPILED)


@pytest.mark.slow
def test_what_is_captured_alone_is_what_compiling_starts_from(analyser, write):
    path = write(TRITON)
    choices = [{"BLOCK": block} for block in (256, 512, 1024)]
    captured, compiled = (
        {
            str(item.configuration.params): [kernel.facts for kernel in item.analysis.kernels]
            for item in analyser.analysed(configurations(path, choices), depth)
        }
        for depth in (Depth.CAPTURED, Depth.COMPILED)
    )
    assert captured.keys() == compiled.keys()
    for params, (facts,) in captured.items():
        assert facts.depth is Depth.CAPTURED
        assert facts.registers is None
        assert facts.launch == compiled[params][0].launch


def ends(path, limit_s=120.0):
    """Whether the process that hung with a file ends in time."""
    pid = Path(path).with_name("pid").read_text()
    deadline = time.monotonic() + limit_s
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return not Path(f"/proc/{pid}").exists()


def wait_until_it_hangs(path):
    file, deadline = Path(path).with_name("pid"), time.monotonic() + 120
    while not (file.exists() and file.read_text()):  # it is written in two steps
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_cancelled_request_ends_its_worker_and_no_other(write):
    path = write(KERNEL)
    with Analyser("h100", cache=False, workers=1) as analyser:
        future = analyser.submit(Configuration(path, "kernel", {}, {"DO": "hang"}))
        wait_until_it_hangs(path)
        assert not future.cancel()  # it runs
        assert isinstance(future.result(120).error, JobDiedError)
        assert ends(path)
        (other,) = configurations(write(TRITON, "other.py"), [{}])
        assert analyser.submit(other, Depth.CAPTURED).result(120).analysis.kernels


HANGING = {"DO": "hang"}


@pytest.mark.parametrize(
    "run",
    [
        lambda analyser, path: study(analyser, StudyPlan(path, params=HANGING)),
        lambda analyser, path: list(analyser.analysed(configurations(path, [HANGING]))),
    ],
)
def test_ctrl_c_ends_what_runs_although_the_analyser_stays_open(run, write):
    path = write(KERNEL)

    def interrupt():
        wait_until_it_hangs(path)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with Analyser("h100", cache=False, workers=2) as analyser:
        threading.Thread(target=interrupt).start()
        try:
            with pytest.raises(KeyboardInterrupt):
                run(analyser, path)
        finally:
            signal.signal(signal.SIGINT, before)
        assert ends(path)


def test_kernels_are_compiled_for_a_measurement_without_being_read(write, tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    one = Configuration(write(TRITON), "kernel", {"N": 2048}, {"BLOCK": 512})
    with Analyser("h100", cache=tmp_path / "cache", workers=1) as analyser:
        for _ in range(2):  # it is not taken for done: Triton's cache may have been emptied
            analyser.compile(one).result()
            kept = [path.suffix for path in (tmp_path / "triton").rglob("*") if path.is_file()]
            assert kept.count(".cubin") == 1
            assert ".sass" not in kept
            shutil.rmtree(tmp_path / "triton")


def test_of_an_autotuner_all_that_it_would_time_is_compiled(write, tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    tuned = TRITON.replace("@triton.jit", LISTED).replace(", *, BLOCK=1024", "")
    tuned = tuned.replace("(x.numel() // BLOCK,)", "lambda meta: (x.numel() // meta['BLOCK'],)")
    one = Configuration(write(tuned.replace("](x, y, BLOCK)", "](x, y)")), "kernel", {}, {})
    with Analyser("h100", cache=tmp_path / "cache", workers=1) as analyser:
        for compile_at, count in ((analyser.compile, 1), (analyser.compile_listed, 2)):
            compile_at(one).result()
            assert len(list((tmp_path / "triton").rglob("*.cubin"))) == count


LISTED = """
def pruned(configs, *_, **__):
    return [config for config in configs if config.kwargs["BLOCK"] > 128]

@triton.autotune(
    [triton.Config({"BLOCK": block}) for block in (128, 512, 1024)], [],
    prune_configs_by={"early_config_prune": pruned},
)
@triton.jit
"""
