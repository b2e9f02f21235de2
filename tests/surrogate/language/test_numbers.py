"""Numbers as the network reads them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from few_kernels import table

from solkit.surrogate.language.numbers import MOST_NAMED, Scale, encode_value, named_values


def test_a_number_is_told_by_its_size_and_what_divides_it():
    value = encode_value(96)
    assert value[3] == 1  # a number
    assert value[5] == pytest.approx(np.log2(96) / 8)
    np.testing.assert_array_equal(value[6:14], [1, 1, 1, 1, 1, 0, 0, 0])  # 96 = 3 * 2^5
    waves = np.log2(96) * np.pi / np.array([1, 2, 4, 8])
    np.testing.assert_allclose(value[14:22], np.r_[np.sin(waves), np.cos(waves)], rtol=1e-4)


def test_one_true_and_a_word_are_not_the_same():
    one, true, word = encode_value(1), encode_value(True), encode_value("1")
    assert one[3] == 1
    assert (true[0], true[1], true[3]) == (1, 1, 0)
    assert encode_value(False)[1] == 0
    assert (word[2], word[3]) == (1, 0)
    assert len({tuple(items) for items in (one, true, word)}) == 3


@pytest.mark.parametrize("value", [0, 0.0, float("inf"), float("nan"), -4, 2**70, None])
def test_any_value_gives_finite_numbers(value):
    assert np.isfinite(encode_value(value)).all()


def test_named_values_are_parameters_then_sizes():
    result = named_values('{"BLOCK": 64, "EVICT": "evict_last"}', '{"M": 8}')
    assert result.names == ("BLOCK", "EVICT", "M")
    assert result.words == ("", "evict_last", "")
    assert result.sizes.tolist() == [False, False, True]
    many = named_values("{" + ", ".join(f'"p{n}": {n}' for n in range(30)) + "}", '{"M": 8}')
    assert len(many.names) == MOST_NAMED


def test_features_are_placed_among_those_that_were_learned_from():
    results = table(8)
    values = np.linspace(0, 10, len(results), dtype=np.float32)
    results = replace(results, values=np.stack([values, np.full_like(values, np.nan)], axis=1))
    scale = Scale.from_table(results, results.names)
    result, unknown = scale.scale_features(results)
    assert result[0, 0] < result[len(results) // 2, 0] < result[-1, 0]
    assert abs(result[len(results) // 2, 0]) < 0.1  # the middle
    assert unknown.tolist() == [[False, True]] * len(results)
    assert (result[:, 1] == 0).all()
    far = replace(results, values=np.full((len(results), 2), 1e9, np.float32))
    assert scale.scale_features(far)[0].max() <= 2


def test_a_feature_that_a_table_lacks_is_unknown():
    result = table(4)
    scale = Scale.from_table(result, (*result.names, "model.gap"))
    _, unknown = scale.scale_features(result)
    assert unknown[:, 2].all()
    assert not unknown[:, :2].any()
