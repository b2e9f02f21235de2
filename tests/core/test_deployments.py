"""What L2 still holds of a launch's tensors follows from how far back they were used."""

import pytest

from solkit.core import Deployment

MB = 10**6
USED = {"x": 3 * MB, "w": 80 * MB, "out": None, "bias": 40 * MB}


@pytest.mark.parametrize(
    ("l2_bytes", "resident", "l2"),
    [
        (MB, (), "cold"),
        (3 * MB, ("x",), "replayed"),
        (50 * MB, ("bias", "x"), "replayed"),  # the one used last is read last
        (100 * MB, ("w", "bias", "x"), "replayed"),
    ],
)
def test_what_was_used_within_the_size_of_l2_is_in_it(l2_bytes, resident, l2):
    deployed = Deployment(reuse_bytes=USED)
    assert deployed.resident(l2_bytes) == resident
    assert deployed.l2(l2_bytes) == l2


def test_l2_is_warm_if_it_holds_all_tensors():
    assert Deployment(reuse_bytes={"x": MB, "y": 2 * MB}).l2(2 * MB) == "warm"


def test_where_nothing_is_said_l2_is_cold_and_launches_are_eager():
    assert (Deployment().l2(50 * MB), Deployment().launched()) == ("cold", "eager")
