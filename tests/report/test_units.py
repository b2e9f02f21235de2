import pytest

from solkit.report import units


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0.12839, "128 µs"),
        (0.03003, "30.0 µs"),
        (0.0019, "1.90 µs"),
        (0.00025, "250 ns"),
        (1.285, "1.28 ms"),
        (2500.0, "2.50 s"),
        (0.0, "0.00 ns"),
        (float("inf"), "inf s"),
        (float("nan"), "nan ns"),
    ],
)
def test_durations(time_ms, text):
    assert units.duration(time_ms) == text


def test_more_digits():
    assert units.duration(0.19263, digits=4) == "192.6 µs"


@pytest.mark.parametrize(
    ("value", "text"),
    [(137_438_953_472, "137 GFLOP"), (5, "5.00 FLOP"), (0, "0.00 FLOP"), (12_300, "12.3 kFLOP")],
)
def test_amounts(value, text):
    assert units.amount(value, "FLOP") == text


def test_rates_are_in_tera():
    assert units.format_rate(1070.4e12, "FLOP") == "1070 TFLOP/s"
    assert units.format_rate(3.352e12, "B") == "3.352 TB/s"
    assert units.format_rate(300e9, "B") == "0.3 TB/s"


def test_on_chip_memory_is_binary():
    assert [units.binary_bytes(n) for n in (0, 512, 98304, 52428800)] == [
        "0 B",
        "512 B",
        "96 KiB",
        "50 MiB",
    ]


def test_settings_read_as_the_command_line_takes_them():
    assert units.format_settings({"M": 4096, "dtype": "bfloat16"}) == "M=4096,dtype=bfloat16"
