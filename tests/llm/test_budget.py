from __future__ import annotations

import math
import random
import threading
from fractions import Fraction

import pytest

from solkit.errors import BudgetSpentError, InputError
from solkit.llm.budget import Budget


@pytest.mark.parametrize("seed", range(50))
def test_no_calls_in_any_order_cost_more_than_the_budget(seed):
    """Random prices, limits and uses, several calls at once; each uses at most what it may."""
    draw = random.Random(seed)
    most, price_in, price_out = (10 ** draw.uniform(-4, 2) for _ in range(3))
    budget = Budget(most, price_in, price_out, max_tokens=draw.choice([None, 10**6]))
    open_calls, charged, refused = [], Fraction(0), 0
    for _ in range(300):
        if open_calls and draw.random() < 0.5:
            held = open_calls.pop(draw.randrange(len(open_calls)))
            kind = draw.random()
            if kind < 0.2:
                budget.release(held)
                continue
            used = (None, None)
            if kind < 0.8:
                used = draw.randint(0, held.tokens_in), draw.randint(0, held.tokens_out)
            spent = budget.settle(held, *used)
            prices = Fraction(price_in), Fraction(price_out)
            charged += (spent.tokens_in * prices[0] + spent.tokens_out * prices[1]) / 10**6
        else:
            try:
                open_calls.append(budget.reserve(draw.randrange(10**5), draw.randrange(10**5)))
            except BudgetSpentError:
                refused += 1
        assert charged <= Fraction(most)
        assert budget.cost == float(charged)
        assert budget.tokens <= 10**6 or refused >= 0
    total = charged + sum(held.cost for held in open_calls)
    assert total <= Fraction(most)


def test_tokens_alone_can_be_limited():
    budget = Budget(max_tokens=100)
    budget.settle(budget.reserve(30, 30), 30, 30)
    with pytest.raises(BudgetSpentError, match="60 are spent"):
        budget.reserve(30, 30)
    assert (budget.tokens, budget.cost) == (60, 0.0)


def test_a_call_without_usage_costs_its_reservation_and_says_so():
    budget = Budget(1.0, 1.0, 10.0)
    spent = budget.settle(budget.reserve(1000, 2000), None, 5)
    assert spent.is_estimate
    assert (spent.tokens_in, spent.tokens_out) == (1000, 5)
    assert not budget.settle(budget.reserve(1, 1), 1, 1).is_estimate


def test_a_released_call_costs_nothing():
    budget = Budget(1.0, 1.0, 1.0)
    held = budget.reserve(10**6, 0)
    with pytest.raises(BudgetSpentError, match="set aside"):
        budget.reserve(1, 0)
    budget.release(held)
    budget.reserve(10**6, 0)
    assert budget.cost == 0.0


def test_what_is_charged_beyond_the_reservation_stops_the_next_call():
    budget = Budget(1.0, 1.0, 1.0)
    budget.settle(budget.reserve(1, 1), 10**7, 1)
    assert budget.cost > 1.0
    with pytest.raises(BudgetSpentError):
        budget.reserve(0, 1)


def test_a_resumed_run_goes_on_with_what_is_left():
    with pytest.raises(BudgetSpentError):
        Budget(1.0, 1.0, 1.0, spent_cost=0.9).reserve(200_000, 0)


def test_threads_share_a_budget():
    budget, granted = Budget(1.0, 1.0, 1.0), []

    def spend():
        for _ in range(50):
            try:
                granted.append(budget.settle(budget.reserve(5_000, 5_000), 5_000, 5_000))
            except BudgetSpentError:
                return

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == 100
    assert budget.cost == 1.0


@pytest.mark.parametrize("figure", [-1, math.nan, math.inf])
def test_absurd_figures_are_errors(figure):
    with pytest.raises(InputError, match="expected a number"):
        Budget(figure, 1.0, 1.0)
    with pytest.raises(InputError, match="expected a number"):
        Budget(1.0, figure, 1.0)


def test_a_limit_needs_prices():
    with pytest.raises(InputError, match="prices"):
        Budget(1.0)
