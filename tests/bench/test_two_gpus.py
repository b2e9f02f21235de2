"""The speed-up of two GPUs over one, on a recording in real time."""

from __future__ import annotations

import json
from collections import Counter

import pytest
import two_gpus


@pytest.mark.slow
def test_two_recorded_gpus_measure_everything_once_and_are_quicker(capsys):
    two_gpus.main(["--recorded", "--configurations", "24", "--rounds", "1"])
    data = json.loads(capsys.readouterr().out)
    assert (data["configurations"], data["each_once"]) == (24, True)
    assert data["speed_up"] > 1.2
    assert data["gpu_seconds_of_one"] > 0.9 * data["gpu_seconds_of_two"] > 0.7


def test_what_was_lost_or_counted_twice_is_told():
    requests, _ = two_gpus.recording(2)
    names = [two_gpus.name(request) for request in requests]

    def ratio(counts):
        runs = [two_gpus.Run(1, 4.0, 4.0, Counter(names)), two_gpus.Run(2, 2.0, 4.0, counts)]
        return two_gpus.report(runs, requests)

    assert ratio(Counter(names))["each_once"]
    assert ratio(Counter(names))["speed_up"] == 2.0
    assert not ratio(Counter(names[:1]))["each_once"]
    assert not ratio(Counter([*names, names[0]]))["each_once"]


def test_without_two_gpus_it_says_so(capsys):
    assert two_gpus.main([]) == 2
    assert "this machine has 0 GPUs" in capsys.readouterr().err
