"""`solkit.compile` without a GPU: sessions, refusals, and kernels that are replaced in place."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import triton
from inductor_tuners import KERNEL, make_tuner

import solkit
from solkit.adapters import live_inductor, live_tuned
from solkit.adapters.launch_records import program_digest
from solkit.core.tuned import LaunchBucket, TunedEntry, TunedFolder
from solkit.datasets.tuned_folder import read_tuned_folder, write_tuned_folder
from solkit.errors import InputError, UnsupportedError
from solkit.integrations import applying, compiling

OBSTACLES = compiling._obstacles
TUNED = {"XBLOCK": 512, "num_warps": 8, "num_stages": 1}


def entry(params=TUNED, kernel=KERNEL.__name__):
    return TunedEntry(
        *(kernel, program_digest(KERNEL), "inductor", LaunchBucket(scalars={"xnumel": 4000})),
        *({"XBLOCK": 1024, "num_warps": 4, "num_stages": 1}, params, None, True),
    )


@pytest.fixture(autouse=True)
def on_a_gpu(monkeypatch):
    monkeypatch.setattr(applying, "_live_device", lambda _: "h100-sxm")
    monkeypatch.setattr(compiling, "_has_gpu", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    for name in ("synchronize", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)
    monkeypatch.setattr(compiling, "_SESSIONS", {})
    yield
    applying.withdraw()


@pytest.fixture
def tuned_by_batch(monkeypatch, request):
    """Searches that were asked for; each finds a configuration at once."""
    requests, interrupted = [], getattr(request, "param", False)

    class Search:
        def __init__(self, on):
            self.on = on

        def tune(self, folder, extended, gpu_s, limit_s):
            requests.append((Path(folder), gpu_s, limit_s, self.on))
            tuned = TunedFolder("h100-sxm", "", triton.__version__, (entry(),))
            write_tuned_folder(folder, tuned.extended(extended))
            return interrupted

        def close(self):
            pass

    monkeypatch.setattr(compiling, "SearchProcess", Search)
    return requests


@pytest.fixture(autouse=True)
def nothing_loads_ahead(monkeypatch):
    monkeypatch.setattr(compiling, "usable_cores", lambda: 1)


@pytest.fixture(autouse=True)
def launched(monkeypatch):
    """Programs that recorders of sessions see: the digest of one, by default."""
    programs, recorders = ["digest"], []

    class Recorder(compiling.LaunchRecorder):
        def start(self):
            recorders.append(self)
            super().start()

        def close(self):
            super().close()
            self.programs |= set(programs) - self._known_programs

    monkeypatch.setattr(compiling, "LaunchRecorder", Recorder)
    monkeypatch.setattr(compiling, "_obstacles", lambda *_: ())
    yield programs
    for recorder in reversed(recorders):
        recorder.close()


def session_of(folder, gpu_s):
    session, budget = (
        compiling._session_of(folder),
        compiling._own_options({"gpu_seconds": gpu_s})[1],
    )
    session.load_search(budget)
    session.begin(budget)
    return session


def calls_of(session, compiled):
    run = session.counted(compiled)
    return lambda *args: run(*args)


def test_the_second_call_tunes_first_and_later_ones_do_not(tmp_path, tuned_by_batch):
    session = session_of(tmp_path, 30.0)
    run = calls_of(session, lambda x: x + 1)
    assert run(1) == 2
    assert tuned_by_batch == []
    assert [run(2), run(3)] == [3, 4]
    assert tuned_by_batch == [(tmp_path, 30.0, 150.0, None)]
    assert [e.params for e in applying._STATE.chooser.tuned.entries] == [TUNED]


def test_no_search_begins_while_the_user_captures_a_cuda_graph(
    tmp_path, tuned_by_batch, monkeypatch
):
    run = calls_of(session_of(tmp_path, 5.0), lambda: 0)
    run()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    for is_capturing, searches in ((True, 0), (True, 0), (False, 1)):
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda c=is_capturing: c)
        run()
        assert len(tuned_by_batch) == searches


class Graph:
    """As torch's own."""

    def capture_begin(self):
        pass

    def capture_end(self):
        pass


def test_no_search_begins_while_another_thread_captures_a_cuda_graph(
    tmp_path, tuned_by_batch, monkeypatch
):
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    run = calls_of(session_of(tmp_path, 5.0), lambda: 0)
    graph = Graph()
    graph.capture_begin()
    for _ in range(3):
        run()
    assert tuned_by_batch == []
    graph.capture_end()
    run()
    assert len(tuned_by_batch) == 1


def test_graphs_of_one_folder_are_tuned_together(tmp_path, tuned_by_batch):
    first, second = (calls_of(session_of(tmp_path, 5.0), lambda: 0) for _ in range(2))
    for run in (first, second):
        run()
    assert tuned_by_batch == []
    for run in (first, second, first):
        run()
    assert len(tuned_by_batch) == 1


def test_a_backward_pass_is_waited_for(tmp_path, tuned_by_batch):
    weight = torch.ones(2, requires_grad=True)
    run = calls_of(session_of(tmp_path, 5.0), lambda: weight * 2)
    result = run()
    run()
    assert tuned_by_batch == []  # its backward pass may come yet
    result.sum().backward()
    run()
    assert len(tuned_by_batch) == 1


def test_a_backward_pass_that_never_comes_is_not_waited_for_long(tmp_path, tuned_by_batch):
    weight = torch.ones(2, requires_grad=True)
    run = calls_of(session_of(tmp_path, 5.0), lambda: weight * 2)
    for _ in range(4):
        run()
    assert len(tuned_by_batch) == 1


def begin_a_process(monkeypatch):
    monkeypatch.setattr(compiling, "_SESSIONS", {})
    applying.withdraw()


def test_a_second_process_applies_the_folder_and_searches_nothing(
    tmp_path, tuned_by_batch, monkeypatch
):
    for _ in range(2):
        begin_a_process(monkeypatch)
        run = calls_of(session_of(tmp_path, 5.0), lambda: 7)
        assert [run(), run(), run()] == [7, 7, 7]
        assert [e.kernel for e in applying._STATE.chooser.tuned.entries] == [KERNEL.__name__]
    assert len(tuned_by_batch) == 1


@pytest.mark.parametrize("tuned_by_batch", [True], indirect=True)
def test_what_an_interrupted_search_did_not_reach_is_tuned_by_the_next_process(
    tmp_path, tuned_by_batch, monkeypatch
):
    for _ in range(2):
        begin_a_process(monkeypatch)
        run = calls_of(session_of(tmp_path, 5.0), lambda: 0)
        run(), run()
    assert len(tuned_by_batch) == 2


@pytest.mark.parametrize("restarts", [False, True])
def test_another_model_of_the_folder_is_tuned_too(
    tmp_path, tuned_by_batch, launched, monkeypatch, restarts
):
    for number in (1, 2, 3):
        launched[:] = [f"digest {min(number, 2)}"]  # the third is as the second
        run = calls_of(session_of(tmp_path, 5.0), lambda: 0)
        run(), run(), run()
        if restarts:
            begin_a_process(monkeypatch)
        assert len(tuned_by_batch) == min(number, 2)
    assert {"digest 1", "digest 2"} < read_tuned_folder(tmp_path).known_programs()


def test_what_cannot_be_launched_again_is_said_once(tmp_path, tuned_by_batch, monkeypatch, capsys):
    monkeypatch.setattr(compiling, "_obstacles", lambda *_: ("kernel: it has a hook.",))
    for _ in range(2):
        begin_a_process(monkeypatch)
        run = calls_of(session_of(tmp_path, 5.0), lambda: 7)
        assert [run(), run()] == [7, 7]
    assert tuned_by_batch == []
    assert capsys.readouterr().err.count("is not tuned: nothing can be launched again. kernel") == 1


def test_a_recording_says_why_programs_cannot_be_launched_again(tmp_path, monkeypatch):
    launch = SimpleNamespace(launch=SimpleNamespace(program=SimpleNamespace(digest="digest")))
    kernels = (SimpleNamespace(launches=(launch,)),)
    monkeypatch.setattr(compiling, "read_launch_recording", lambda _: None)
    monkeypatch.setattr(compiling, "kernels_of_recording", lambda _: (kernels, ("other: hook.",)))
    assert OBSTACLES(tmp_path, {"digest", "other"}) == ()
    assert OBSTACLES(tmp_path, {"other"}) == ("other: hook.",)


def test_a_later_budget_counts_though_the_first_was_none(tmp_path, tuned_by_batch):
    first, second = (calls_of(session_of(tmp_path, s), lambda: 0) for s in (0.0, 9.0))
    for run in (first, second, first, second):
        run()
    assert tuned_by_batch == [(tmp_path, 9.0, 87.0, None)]


def test_without_a_folder_each_gpu_and_triton_has_its_own(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    names = set()
    for device in ("h100-sxm", "h200"):
        monkeypatch.setattr(applying, "_live_device", lambda _, device=device: device)
        names.add(compiling._default_folder().relative_to(tmp_path / "solkit" / "compiled"))
    assert {str(name) for name in names} == {
        f"{device}-triton-{triton.__version__.partition('+')[0]}" for device in ("h100-sxm", "h200")
    }


def test_a_folder_that_cannot_be_written_and_a_rank_without_number_leave_the_model_as_it_is(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "file").touch()
    monkeypatch.setenv("RANK", "")
    run = calls_of(session_of(tmp_path / "file" / "below", 5.0), lambda: 7)
    assert [run(), run()] == [7, 7]
    assert "is not used: cannot record into" in capsys.readouterr().err


@pytest.mark.parametrize(("device", "version"), [("a100-sxm-80gb", None), ("h100-sxm", "2.0")])
def test_one_for_another_gpu_or_triton_is_tuned_again(tmp_path, tuned_by_batch, device, version):
    write_tuned_folder(tmp_path, TunedFolder(device, "", version or triton.__version__))
    run = calls_of(session_of(tmp_path, 5.0), lambda: 0)
    run(), run()
    assert len(tuned_by_batch) == 1


def test_no_budget_no_gpu_and_other_ranks_mean_no_search(tmp_path, monkeypatch):
    compiled = lambda: 7  # noqa: E731
    assert session_of(tmp_path / "a", 0.0).counted(compiled) is compiled
    monkeypatch.setenv("SOLKIT_APPLY", "0")
    assert session_of(tmp_path / "off", 5.0).counted(compiled) is compiled
    monkeypatch.delenv("SOLKIT_APPLY")
    monkeypatch.setenv("RANK", "1")
    assert session_of(tmp_path / "b", 5.0).counted(compiled) is compiled
    monkeypatch.delenv("RANK")
    monkeypatch.setattr(compiling, "_has_gpu", lambda: False)
    assert session_of(tmp_path / "c", 5.0).counted(compiled) is compiled


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (InputError("nothing is valid"), "nothing is valid"),
        (ImportError("x"), "ImportError('x')"),
        (KeyboardInterrupt(), "the search was interrupted"),
    ],
)
def test_a_search_that_fails_leaves_the_model_as_it_is(tmp_path, monkeypatch, capsys, error, said):
    closed = []

    class Search:
        def __init__(self, _):
            pass

        def tune(self, *_):
            raise error

        def close(self):
            closed.append(1)

    monkeypatch.setattr(compiling, "SearchProcess", Search)
    run = calls_of(session_of(tmp_path, 5.0), lambda x: x)
    assert [run(1), run(2), run(3)] == [1, 2, 3]
    assert capsys.readouterr().err.splitlines() == [f"solkit: {tmp_path} is not tuned: {said}"]
    assert closed == [1]


def test_a_search_loads_while_an_unknown_model_is_compiled_where_cores_are_free(
    tmp_path, tuned_by_batch, monkeypatch
):
    monkeypatch.setattr(compiling, "usable_cores", lambda: 8)
    session = session_of(tmp_path, 5.0)
    loading = session._search
    assert loading is not None
    run = calls_of(session, lambda: 0)
    run(), run()
    assert (len(tuned_by_batch), session._search) == (1, None)
    begin_a_process(monkeypatch)
    assert session_of(tmp_path, 5.0)._search is None  # it will most likely not be needed


def test_what_was_applied_before_stays_applied(tmp_path):
    other = entry(kernel="other")
    write_tuned_folder(tmp_path, TunedFolder("h100-sxm", "", triton.__version__, (other,)))
    applying.apply(tmp_path)
    applying.apply_further(TunedFolder("h100-sxm", "", triton.__version__, (entry(),)), "further")
    assert {e.kernel for e in applying._STATE.chooser.tuned.entries} == {"other", KERNEL.__name__}
    applying.apply_further(TunedFolder(""), "recorded now")
    assert len(applying._STATE.chooser.tuned.entries) == 2


# ---------------------------------------------------------------------------- kernels in place


@pytest.fixture
def compiled(monkeypatch, tmp_path):
    """Inductor's tuner of a kernel that was compiled while nothing was tuned."""
    module = importlib.import_module("torch._inductor.runtime.triton_heuristics")

    def precompile_config(_, config):
        if config.num_warps == 32:
            raise ValueError("too many warps")
        launcher = lambda *_, stream: None  # noqa: E731, ARG005 - as Inductor's
        launcher.config, launcher.cache_hash = config, ""
        kernel = SimpleNamespace(hash="0")
        return SimpleNamespace(config=config, kernel=kernel, make_launcher=lambda: launcher)

    def make_launchers(self):
        self.launchers = [result.make_launcher() for result in self.compile_results]

    monkeypatch.setattr(module.CachingAutotuner, "_precompile_config", precompile_config)
    monkeypatch.setattr(module.CachingAutotuner, "_make_launchers", make_launchers)
    applying.apply_further(TunedFolder(""), tmp_path)
    tuner = make_tuner(module)
    tuner.precompile()
    return tuner


def serve(*entries):
    applying.apply_further(TunedFolder("h100-sxm", "", triton.__version__, entries), "folder")


def test_a_compiled_kernel_gets_its_tuned_configuration(compiled):
    compiled._cached_launcher = compiled.launchers[0]
    serve(entry())
    assert live_inductor.replace_compiled() == 1
    (launcher,) = compiled.launchers
    assert (launcher.config.kwargs, launcher.config.num_warps) == ({"XBLOCK": 512}, 8)
    assert compiled._cached_launcher is None
    assert live_inductor.replace_compiled() == 0  # it has it


@pytest.mark.parametrize("entries", [(), (entry({**TUNED, "num_warps": 32}),)])
def test_one_that_has_none_or_does_not_compile_stays(compiled, entries):
    before = dict(vars(compiled))
    serve(*entries)
    assert live_inductor.replace_compiled() == 0
    assert compiled.launchers is before["launchers"]
    assert compiled.compile_results is before["compile_results"]


def times_for(own_ms, tuned_ms):
    """Trials whose kernels take these times, and what was settled."""
    settled = []
    times = [own_ms] * 12, [tuned_ms] * 12
    judge = lambda *_: compiling._is_faster(*times)  # noqa: E731
    return live_inductor.Trials(
        judge, lambda request, stays: settled.append((request, stays))
    ), settled


@pytest.fixture
def launches(monkeypatch, compiled):
    """Launches a compiled kernel often enough for a first look at its trial."""
    event = SimpleNamespace(record=lambda: None, query=lambda: True, elapsed_time=lambda _: 1.0)
    monkeypatch.setattr(torch.cuda, "Event", lambda **_: event)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda _: None)

    def launch():
        for _ in range(25):
            compiled.launchers[0](1, 4000, stream=None)

    return launch


@pytest.mark.parametrize(("tuned_ms", "stays"), [(0.9, True), (1.1, False), (1.0, None)])
def test_a_tuned_kernel_stays_only_if_it_is_faster_in_the_program(
    compiled, launches, tuned_ms, stays
):
    compiled._cached_launcher = compiled.launchers[0]
    before = {name: vars(compiled)[name] for name in ("configs", "compile_results", "launchers")}
    trials, settled = times_for(1.0, tuned_ms)
    serve(entry())
    assert live_inductor.replace_compiled(trials) == 1
    assert compiled._cached_launcher is None
    launches()
    if stays is None:
        assert settled == []  # equal so far
        launches()
    assert [result for _, result in settled] == [bool(stays)]
    if stays:
        assert compiled.launchers[0].config.kwargs == {"XBLOCK": 512}
    else:
        assert {name: vars(compiled)[name] for name in before} == before
        assert compiled.launchers is before["launchers"]


@pytest.mark.usefixtures("tuned_by_batch")
def test_the_folder_forgets_what_does_not_gain_in_the_program(
    tmp_path, compiled, launches, launched, monkeypatch, capsys
):
    monkeypatch.setattr(compiling, "_is_faster", lambda *_: False)
    applying.withdraw()
    session = session_of(tmp_path, 5.0)
    live_tuned.SERVED.tuners.add(compiled)
    run = calls_of(session, lambda: 0)
    run(), run()
    assert "is tuned: 1 kernels changed" in capsys.readouterr().err
    assert read_tuned_folder(tmp_path).entries != ()
    launches()
    assert "keeps 0 of 1 changed kernels, faster in the program" in capsys.readouterr().err
    tuned = read_tuned_folder(tmp_path)
    assert tuned.entries == ()
    assert {*launched, program_digest(KERNEL)} <= tuned.known_programs()  # it is not searched again
    (note,) = (n for n in applying.applied() if n.kernel == KERNEL.__name__)
    assert (note.applied, note.why) == (False, "it was not faster in the program")
    assert live_inductor.replace_compiled() == 0


@pytest.mark.usefixtures("tuned_by_batch")
@pytest.mark.parametrize("stays", [True, False])
def test_what_other_programs_wrote_meanwhile_stays_in_the_folder(
    tmp_path, compiled, launches, launched, monkeypatch, stays
):
    monkeypatch.setattr(compiling, "_is_faster", lambda *_: stays)
    launched[:] = [program_digest(KERNEL)]
    applying.withdraw()
    run = calls_of(session_of(tmp_path, 5.0), lambda: 0)
    live_tuned.SERVED.tuners.add(compiled)
    run(), run()
    others = replace(entry(kernel="others"), program="others", on_trial=True)
    held = read_tuned_folder(tmp_path)
    write_tuned_folder(tmp_path, replace(held, entries=(*held.entries, others)))
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=lambda _: 1 / 0, flush=lambda: None))
    launches()
    tuned = read_tuned_folder(tmp_path)
    assert others in tuned.entries
    assert [e.on_trial for e in tuned.entries if e != others] == stays * [False]
    assert {program_digest(KERNEL), "others"} <= tuned.known_programs()


def test_inductor_keeps_no_launcher_of_a_trial_that_ended_within_a_launch(compiled, launches):
    trials, settled = times_for(1.0, 0.9)
    serve(entry())
    live_inductor.replace_compiled(trials)
    on_trial = compiled.launchers[0]
    launches()
    assert len(settled) == 1
    compiled._cached_launcher = on_trial  # as `run` does after the launch
    on_trial(1, 4000, stream=None)
    assert compiled._cached_launcher is None
    assert compiled.launchers[0] is not on_trial


@pytest.mark.usefixtures("tuned_by_batch")
def test_what_no_program_has_confirmed_is_tried_by_the_next_process(
    tmp_path, compiled, launches, launched, monkeypatch, capsys
):
    launched[:] = [program_digest(KERNEL)]
    own = compiled.launchers
    for stays in (None, True, None):
        begin_a_process(monkeypatch)
        compiled.launchers, compiled.compile_results = own, compiled.compile_results[:1]
        monkeypatch.setattr(compiling, "_is_faster", lambda *_, stays=stays: stays)
        run = calls_of(session_of(tmp_path, 5.0), lambda: 0)
        live_tuned.SERVED.tuners.add(compiled)
        is_confirmed = bool(applying._STATE.chooser.tuned.entries)
        run(), run()
        if stays:
            launches()
            assert "keeps 1 of 1 changed kernels" in capsys.readouterr().err
        (tuned,) = read_tuned_folder(tmp_path).entries
        assert tuned.on_trial is (stays is None and not is_confirmed)
    assert is_confirmed  # the third process compiles with it


def test_without_a_budget_what_is_on_trial_is_applied_as_it_is(tmp_path):
    held = replace(entry(), on_trial=True)
    write_tuned_folder(tmp_path, TunedFolder("h100-sxm", "", triton.__version__, (held,)))
    session_of(tmp_path, 0.0)
    assert applying._STATE.chooser.tuned.entries == (entry(),)


# -------------------------------------------------------------------------------------- options


@pytest.mark.parametrize("seconds", [-1, "60", True, float("nan"), float("inf")])
def test_a_budget_that_is_none_is_refused_before_the_first_call(seconds):
    with pytest.raises(InputError, match="gpu_seconds: expected a number of 0 or above"):
        solkit.compile(torch.nn.ReLU(), gpu_seconds=seconds)
    with pytest.raises(InputError, match="wall_seconds: expected a number above 0"):
        solkit.compile(torch.nn.ReLU(), wall_seconds=seconds)


def test_programs_without_python_are_refused_by_name():
    with pytest.raises(UnsupportedError, match=r"C\+\+ wrapper .*cpp_wrapper = False"):
        solkit.compile(torch.nn.ReLU(), options={"cpp_wrapper": True})
    exported = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
    with pytest.raises(UnsupportedError, match="AOTInductor"):
        solkit.compile(exported)


def test_inductor_gets_its_own_options_and_the_modes(tmp_path, monkeypatch):
    compile_fx = importlib.import_module("torch._inductor.compile_fx")
    got = []
    monkeypatch.setattr(
        compile_fx,
        "compile_fx",
        lambda graph, _, config_patches: got.append(config_patches) or graph,
    )
    options = {"folder": tmp_path, "gpu_seconds": 0, "mode": "max-autotune-no-cudagraphs"}
    graph = torch.fx.symbolic_trace(torch.nn.ReLU())
    compiling.backend(graph, (), options={**options, "epilogue_fusion": False})
    assert got == [
        {"max_autotune": True, "coordinate_descent_tuning": True, "epilogue_fusion": False}
    ]


def test_torch_compile_knows_the_backend_by_its_name():
    text = Path(__file__).parents[2].joinpath("pyproject.toml").read_text(encoding="utf-8")
    section = text.partition("[project.entry-points.torch_dynamo_backends]\n")[2]
    module, _, name = section.partition("\n")[0].split('"')[1].partition(":")
    assert getattr(importlib.import_module(module), name) is compiling.backend


# ------------------------------------------------------------------------------- through Dynamo


@pytest.fixture
def eager_inductor(monkeypatch):
    """Inductor's front end (Dynamo, AOTAutograd), without its code generation."""
    from functorch.compile import aot_module_simplified, make_boxed_func

    def compile_fx(graph, inputs, config_patches):  # noqa: ARG001 - as Inductor's
        boxed = lambda graph, _: make_boxed_func(graph.forward)  # noqa: E731
        return aot_module_simplified(graph, inputs, fw_compiler=boxed)

    monkeypatch.setattr(
        importlib.import_module("torch._inductor.compile_fx"), "compile_fx", compile_fx
    )
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("eager_inductor")
def test_a_model_is_tuned_at_its_second_call_and_computes_the_same(
    tmp_path, tuned_by_batch, launched
):
    model = torch.nn.Linear(3, 2)
    compiled = solkit.compile(model, folder=tmp_path, gpu_seconds=2)
    batches = [torch.randn(n, 3) for n in (4, 4, 5, 6)]  # of dynamic sizes from the third on
    with torch.no_grad():
        for searches, x in zip((0, 1, 1, 2), batches):
            launched[:] = [f"digest of rank {x.dim()}, dynamic: {len(x) > 4}"]
            assert torch.equal(compiled(x), model(x))
            assert len(tuned_by_batch) == searches


@pytest.mark.usefixtures("eager_inductor")
def test_a_training_step_is_recorded_with_its_backward_pass(tmp_path, tuned_by_batch, monkeypatch):
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh())
    compiled = solkit.compile(model, folder=tmp_path, gpu_seconds=2)
    x = torch.randn(4, 3)
    closed = []
    close = compiling.LaunchRecorder.close
    monkeypatch.setattr(
        compiling.LaunchRecorder, "close", lambda self: (closed.append(1), close(self))
    )
    compiled(x).sum().backward()
    assert not closed  # while the backward pass ran
    grad = model[0].weight.grad.clone()
    model.zero_grad()
    compiled(x).sum().backward()
    assert torch.equal(model[0].weight.grad, grad)
    assert (len(tuned_by_batch), bool(closed)) == (1, True)


def test_kernels_that_were_compiled_ahead_for_the_folder_are_found(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "own"))
    key = tmp_path / "folder" / "triton_cache" / "KEY"
    key.mkdir(parents=True)
    (key / "__grp__k.json").write_text('{"child_paths": {}}')
    tuned = TunedFolder("h100-sxm", "", triton.__version__)
    write_tuned_folder(tmp_path / "folder", tuned)
    session_of(tmp_path / "folder", 5.0)
    assert (tmp_path / "own" / "KEY" / "__grp__k.json").exists()
