"""`solkit.compile` on a real GPU: two models in one folder, tuned once each."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

PROGRAM = """
import sys
import torch, solkit

def first(x):
    return torch.softmax(x.float() * 2, -1)

def second(x):
    return torch.nn.functional.layer_norm(x.float().exp() + 1, x.shape[-1:])

x = torch.randn(2048, 3000, device="cuda", dtype=torch.bfloat16)
for model in (first, second)[: int(sys.argv[2])]:
    wall = {"wall_seconds": float(sys.argv[3])} if len(sys.argv) > 3 else {}
    run = solkit.compile(model, folder=sys.argv[1], gpu_seconds=5, **wall)
    for _ in range(3):
        torch.testing.assert_close(run(x), model(x), rtol=1e-2, atol=1e-2)
"""


def run(folder, *arguments):
    """Return what a script, whose main part has no guard, says of the folder."""
    script = folder.with_name("program.py")
    script.write_text(PROGRAM)
    variables = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder.with_name("inductor"))}
    command = [sys.executable, str(script), str(folder), *map(str, arguments)]
    ended = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return [line for line in ended.stderr.splitlines() if line.startswith(f"solkit: {folder} is ")]


def times_tuned(folder, models):
    """Return how many searches a process made."""
    lines = run(folder, models)
    assert all("is tuned:" in line for line in lines), lines
    return len(lines)


def test_a_second_model_is_tuned_in_a_folder_that_is_tuned_already(tmp_path):
    folder = tmp_path / "tuned"
    assert times_tuned(folder, 1) == 1
    assert times_tuned(folder, 1) == 0
    assert times_tuned(folder, 2) == 1
    assert times_tuned(folder, 2) == 0


def test_a_second_model_of_a_process_is_tuned_too(tmp_path):
    folder = tmp_path / "tuned"
    assert times_tuned(folder, 2) == 2
    assert times_tuned(folder, 2) == 0


def test_a_search_ends_at_its_wall_and_the_next_process_searches(tmp_path):
    folder = tmp_path / "tuned"
    (line,) = run(folder, 1, 1.0)
    assert "is not tuned: the search did not end within 1 s (wall_seconds)" in line
    assert times_tuned(folder, 1) == 1


SLOW, FAST = {"XBLOCK": 32, "num_warps": 1}, {"XBLOCK": 1024, "num_warps": 4}


class Chooser:
    """Chooses one configuration for all of Inductor's kernels."""

    def __init__(self, params):
        self.params = params

    def names(self, *_):
        return True

    def parameters(self, *_):
        return frozenset()

    def choose(self, _):
        return self.params

    def failed(self, *args, **kwargs):
        raise AssertionError((args, kwargs))


@pytest.fixture
def compiled_kernel():
    """A compiled function, its input and the tuner of its one kernel, while nothing is tuned."""
    import torch

    from solkit.adapters import live_tuned

    live_tuned.serve(Chooser(None))
    x = torch.randn(1 << 24, device="cuda")
    run = torch.compile(lambda x: x * 2 + 1)
    run(x)
    (tuner,) = (t for t in live_tuned.SERVED.tuners if t.launchers)
    yield run, x, tuner
    live_tuned.withdraw()
    torch._dynamo.reset()


def launches_until_settled(run, x, settled):
    """Return how many calls a trial takes, all of which compute the same."""
    import torch

    for calls in range(1, 200):
        torch.testing.assert_close(run(x), x * 2 + 1)
        if settled:
            return calls
    raise AssertionError("the trial did not end")


def test_the_program_keeps_what_is_faster_in_it_and_drops_what_is_not(compiled_kernel):
    from solkit.adapters import live_inductor, live_tuned
    from solkit.integrations.compiling import _is_faster

    run, x, tuner = compiled_kernel
    for params, stays in ((SLOW, False), (FAST, True)):
        if stays:
            live_tuned.serve(Chooser(SLOW))
            live_inductor.replace_compiled()  # what is in use now
        before, settled = tuner.launchers, []
        live_tuned.serve(Chooser(params))
        trials = live_inductor.Trials(_is_faster, lambda _, kept, to=settled: to.append(kept))
        assert live_inductor.replace_compiled(trials) == 1
        assert 24 < launches_until_settled(run, x, settled) < 60
        assert settled == [stays]
        assert (tuner.launchers is before) is not stays
        assert getattr(tuner.launchers[0], "_is_static", True)  # Inductor's own kind of launcher
