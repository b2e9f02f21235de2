"""Tuned folders and Inductor: its real `CachingAutotuner`, with a compiler that only notes."""

from __future__ import annotations

import importlib
import pickle
from types import SimpleNamespace

import pytest
import triton
from inductor_tuners import KERNEL, make_tuner

from solkit.adapters import live_inductor
from solkit.adapters.launch_records import program_digest
from solkit.core.tuned import LaunchBucket, TunedEntry, TunedFolder
from solkit.datasets.tuned_folder import write_tuned_folder
from solkit.integrations import applying

TUNED = {"XBLOCK": 512, "num_warps": 8, "num_stages": 1}


@pytest.fixture
def heuristics(monkeypatch):
    """Inductor's module, whose compiler compiles nothing."""
    module = importlib.import_module("torch._inductor.runtime.triton_heuristics")

    def precompile_config(_, config):
        if config.num_warps == 32:
            raise ValueError("too many warps")
        launcher = SimpleNamespace(config=config, cache_hash="")
        return SimpleNamespace(
            config=config, kernel=SimpleNamespace(hash="0"), make_launcher=lambda: launcher
        )

    tuner = module.CachingAutotuner
    monkeypatch.setattr(tuner, "_precompile_config", precompile_config)
    monkeypatch.setattr(tuner, "_make_launchers", make_launchers)
    monkeypatch.setattr(applying, "_live_device", lambda _: "h100-sxm")
    yield module
    applying.withdraw()


def make_launchers(self):
    self.launchers = [result.make_launcher() for result in self.compile_results]


def entry(params=TUNED, xnumel=4000, verified=True):
    return TunedEntry(
        *(KERNEL.__name__, program_digest(KERNEL), "inductor"),
        LaunchBucket(scalars={"xnumel": xnumel}),
        *({"XBLOCK": 1024, "num_warps": 4, "num_stages": 1}, params, None, verified),
    )


def use(tmp_path, *entries):
    folder = TunedFolder("h100-sxm", "", triton.__version__, entries)
    write_tuned_folder(tmp_path, folder)
    applying.apply(tmp_path)


def configs(tuner):
    return [(launcher.config.kwargs, launcher.config.num_warps) for launcher in tuner.launchers]


def whys():
    return [choice.why for choice in applying.applied()]


@pytest.mark.parametrize("blocks", [(1024,), (1024, 256)])
def test_a_kernel_is_compiled_with_its_tuned_configuration_alone(heuristics, tmp_path, blocks):
    use(tmp_path, entry())
    tuner = make_tuner(heuristics, blocks, coordinate_descent_tuning=True)
    tuner.precompile()
    assert configs(tuner) == [({"XBLOCK": 512}, 8)]
    assert tuner.launchers[0].config.found_by_coordesc  # so nothing is searched at its first run
    assert whys() == [""]


def test_a_result_of_a_cache_or_a_worker_is_replaced(heuristics, tmp_path):
    worker = make_tuner(heuristics, (1024, 256))
    worker.precompile(warm_cache_only=True)  # where nothing is applied
    worker.fn.fn, function = None, worker.fn
    use(tmp_path, entry())
    reload_kernel = lambda: make_tuner(heuristics)  # noqa: E731 - as Inductor passes it
    assert function.fn is None
    worker.precompile(reload_kernel=reload_kernel)
    assert configs(worker) == [({"XBLOCK": 512}, 8)]


def test_what_a_worker_compiled_with_it_is_taken(heuristics, tmp_path):
    use(tmp_path, entry())
    tuner = make_tuner(heuristics)
    tuner.precompile(warm_cache_only=True)
    (result,) = tuner.compile_results
    tuner.fn.fn = None
    tuner.precompile(reload_kernel=lambda: 1 / 0)
    assert tuner.compile_results == [result]


def test_inductors_caches_get_no_tuned_kernel(heuristics, tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(
        heuristics.TritonBundler, "put_static_autotuner", lambda *result: kept.append(result)
    )
    monkeypatch.setattr(heuristics.CachingAutotuner, "is_statically_launchable", lambda _: True)
    use(tmp_path, entry())
    make_tuner(heuristics).precompile(static_triton_bundle_key="key")
    assert not kept
    applying.withdraw()
    make_tuner(heuristics).precompile(static_triton_bundle_key="key")
    assert len(kept) == 1


@pytest.mark.parametrize(
    ("kind", "params", "meta", "why"),
    [
        ("TEMPLATE", TUNED, {}, "Inductor's program may rest on XBLOCK"),
        ("FIXED", TUNED, {}, "Inductor's program may rest on XBLOCK"),
        ("REDUCTION", TUNED, {"deterministic": True}, "Inductor's program may rest on XBLOCK"),
        ("POINTWISE", {**TUNED, "RSPLIT": 4}, {}, "Inductor's program may rest on RSPLIT"),
        ("POINTWISE", {**TUNED, "XBLOCK": 1 << 20}, {}, "ValueError: XBLOCK=1048576 is more"),
        ("POINTWISE", TUNED, {"min_xblock": 1024}, "ValueError: XBLOCK=512 is less"),
        ("POINTWISE", {**TUNED, "num_warps": 32}, {}, "ValueError: too many warps"),
    ],
)
def test_what_inductor_would_not_vary_stays(heuristics, tmp_path, kind, params, meta, why):
    use(tmp_path, entry(params))
    tuner = make_tuner(heuristics, kind=kind, **meta)
    tuner.precompile()
    assert configs(tuner) == [({"XBLOCK": 1024}, 4)]
    assert whys()[0].startswith(why)
    assert not applying.applied()[0].applied


@pytest.mark.parametrize(
    ("kind", "meta", "least"),
    [
        ("SPLIT_SCAN", {"min_split_scan_rblock": 512}, {"R0_BLOCK": 512, "R1_BLOCK": 512}),
        ("REDUCTION", {"min_split_scan_rblock": 512}, {}),  # all kernels' data name it
        ("REDUCTION", {"min_xblock": 8, "min_rblock": 64}, {"XBLOCK": 8, "R0_BLOCK": 64}),
    ],
)
def test_blocks_are_no_smaller_than_inductors_text_takes(heuristics, kind, meta, least):
    assert live_inductor.least_blocks(make_tuner(heuristics, kind=kind, **meta)) == least


def test_a_templates_warps_may_change(heuristics, tmp_path):
    use(tmp_path, entry({"XBLOCK": 1024, "num_warps": 8, "num_stages": 4}))
    tuner = make_tuner(heuristics, kind="TEMPLATE")
    tuner.precompile()
    assert configs(tuner) == [({"XBLOCK": 1024}, 8)]


def test_a_users_autotuned_kernel_gets_what_its_list_has(heuristics, tmp_path):
    use(tmp_path, entry({"XBLOCK": 256, "num_warps": 4, "num_stages": 1}))
    tuner = make_tuner(heuristics, (1024, 256), kind="USER_AUTOTUNE")
    tuner.precompile()
    assert configs(tuner) == [({"XBLOCK": 256}, 4)]


def test_another_size_is_compiled_as_before(heuristics, tmp_path):
    use(tmp_path, entry(xnumel=10_000))
    tuner = make_tuner(heuristics)
    tuner.precompile()
    assert configs(tuner) == [({"XBLOCK": 1024}, 4)]
    assert whys() == ["no tuned size is like this launch's"]


def test_sizes_that_were_tuned_differently_are_no_one_kernels(heuristics, tmp_path):
    use(tmp_path, entry(), entry({**TUNED, "XBLOCK": 128}, xnumel=3000))
    tuner = make_tuner(heuristics)
    tuner.precompile()
    assert configs(tuner) == [({"XBLOCK": 1024}, 4)]
    assert whys() == ["the compiled kernel serves sizes that were tuned differently"]


def test_a_kernel_that_got_one_can_be_pickled(heuristics, tmp_path):
    use(tmp_path, entry())
    tuner = make_tuner(heuristics)
    tuner.precompile(warm_cache_only=True)
    state = {name: vars(tuner)[name] for name in ("configs", "inductor_meta", "_solkit_program")}
    assert pickle.loads(pickle.dumps(state))["_solkit_program"] == program_digest(KERNEL)
