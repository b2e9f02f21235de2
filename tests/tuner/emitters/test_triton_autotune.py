"""The list of configurations, loaded as a user's file does: by a Python of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tuned_moe import BEST, SHAPE, tuned
from tuning_rows import row

from solkit.errors import InputError
from solkit.tuner.emitters import emit
from solkit.tuner.tuning_results import results_of_runs

LOADED = """
import json, sys
space = {}
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), space)
told = [{**c.all_kwargs(), "maxnreg": c.maxnreg} for c in space["CONFIGS"]]
print(json.dumps({"configs": told, "key": space["KEY"]}))
"""


def loaded(path):
    pytest.importorskip("triton")
    done = subprocess.run(
        [sys.executable, "-c", LOADED, str(path)], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def test_triton_takes_the_configurations_each_once(tmp_path, moe):
    again = tuned({64: {32: 1.0}}, shape={**SHAPE, "N": 14336}, run="two")
    emit([*moe, *again], "triton-autotune", tmp_path / "configs.py")
    result = loaded(tmp_path / "configs.py")
    assert [config["BLOCK_SIZE_M"] for config in result["configs"]] == [16, 32, 128]
    first = result["configs"][0]
    assert {name: first[name] for name in BEST} == BEST
    assert first["maxnreg"] is None
    assert result["key"] == ["M", "N"]
    text = (tmp_path / "configs.py").read_text()
    assert "# M=64, E=8, N=14336, K=4096, dtype=bfloat16 on NVIDIA H200: 1 ms" in text


def test_options_words_and_other_names(tmp_path):
    params = {"BLOCK": 64, "ORDER": "row'\n\\", "EXACT": True, "maxnreg": 128, "num_ctas": 2}
    results = results_of_runs([row(params, 1.0, shape={"n": 5}, implementation='a "b" \\\n c')])
    path = tmp_path / "configs.py"
    emit(results, "triton-autotune", path, names={"BLOCK_SIZE": "BLOCK"}, drop=["EXACT"])
    (config,) = loaded(path)["configs"]
    assert (config["BLOCK_SIZE"], config["maxnreg"], config["num_ctas"]) == (64, 128, 2)
    assert config["ORDER"] == "row'\n\\"
    assert "EXACT" not in config
    with pytest.raises(InputError, match="has no parameter 'TILE'"):
        emit(results, "triton-autotune", path, names={"BLOCK_SIZE": "TILE"})
