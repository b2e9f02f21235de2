"""Budget of a model: money and tokens, reserved before a call and settled after it.

A reservation is the worst case: every byte of the prompt a token, and the longest answer. So the
budget holds however many calls run at once, as long as the other side charges no more tokens than
it was allowed to use. If it does, that is charged too, and no further call starts.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from fractions import Fraction

from solkit.errors import BudgetSpentError, InputError

_MILLION = 1_000_000


@dataclass(frozen=True)
class Reservation:
    """Highest cost of one call."""

    tokens_in: int
    tokens_out: int
    cost: Fraction


@dataclass(frozen=True)
class Spent:
    """Actual cost of one call.

    Attributes:
        tokens_in, tokens_out: as charged.
        cost: in the currency of the prices.
        is_estimate: whether the other side reported no usage: the whole reservation is charged.
    """

    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    is_estimate: bool = False


class Budget:
    """Money and tokens that calls share. Thread-safe.

    Args:
        max_cost: in the currency of the prices; ``None`` for no limit.
        price_in, price_out: of a million tokens; ``None`` for free.
        max_tokens: of prompts and answers together; ``None`` for no limit.
        spent_cost, spent_tokens: by an earlier part of the same run.

    Raises:
        InputError: a figure is negative or not finite, or there is a limit but no price.
    """

    def __init__(
        self,
        max_cost: float | None = None,
        price_in: float | None = None,
        price_out: float | None = None,
        *,
        max_tokens: int | None = None,
        spent_cost: float = 0.0,
        spent_tokens: int = 0,
    ) -> None:
        figures = (max_cost, price_in, price_out, max_tokens, spent_cost, spent_tokens)
        for figure in figures:
            if figure is not None and not (math.isfinite(figure) and figure >= 0):
                raise InputError(f"a budget has {figure!r}; expected a number, 0 or more")
        if max_cost is not None and (price_in is None or price_out is None):
            raise InputError("a limit on the cost needs the prices of a million tokens in and out")
        self._most_cost = None if max_cost is None else Fraction(max_cost)
        self._most_tokens = max_tokens
        self._prices = Fraction(price_in or 0), Fraction(price_out or 0)
        self._cost, self._tokens = Fraction(spent_cost), spent_tokens
        self._held_cost, self._held_tokens = Fraction(0), 0
        self._lock = threading.Lock()

    @property
    def cost(self) -> float:
        """Spent so far."""
        return float(self._cost)

    @property
    def tokens(self) -> int:
        """Charged so far."""
        return self._tokens

    def reserve(self, tokens_in: int, tokens_out: int) -> Reservation:
        """Set the worst case of a call aside.

        Raises:
            BudgetSpentError: it is more than is left.
        """
        worst = Reservation(tokens_in, tokens_out, self._price_of_tokens(tokens_in, tokens_out))
        with self._lock:
            self._check_worst_case(worst)
            self._held_cost += worst.cost
            self._held_tokens += tokens_in + tokens_out
        return worst

    def settle(self, held: Reservation, tokens_in: int | None, tokens_out: int | None) -> Spent:
        """Charge a call that was made; the whole reservation if its usage is unknown."""
        is_estimate = tokens_in is None or tokens_out is None
        used_in = held.tokens_in if tokens_in is None else tokens_in
        used_out = held.tokens_out if tokens_out is None else tokens_out
        cost = self._price_of_tokens(used_in, used_out)
        with self._lock:
            self._free_reservation(held)
            self._cost += cost
            self._tokens += used_in + used_out
        return Spent(used_in, used_out, float(cost), is_estimate)

    def release(self, held: Reservation) -> Spent:
        """Give back what was set aside for a call that cost nothing."""
        with self._lock:
            self._free_reservation(held)
        return Spent()

    def _free_reservation(self, held: Reservation) -> None:
        self._held_cost -= held.cost
        self._held_tokens -= held.tokens_in + held.tokens_out

    def _price_of_tokens(self, tokens_in: int, tokens_out: int) -> Fraction:
        return (tokens_in * self._prices[0] + tokens_out * self._prices[1]) / _MILLION

    def _check_worst_case(self, worst: Reservation) -> None:
        cost = self._cost + self._held_cost + worst.cost
        if self._most_cost is not None and cost > self._most_cost:
            raise BudgetSpentError(
                f"the next call may cost {float(worst.cost):.4f}; of {float(self._most_cost):.4f} "
                f"{float(self._cost):.4f} are spent and {float(self._held_cost):.4f} set aside"
            )
        tokens = self._tokens + self._held_tokens + worst.tokens_in + worst.tokens_out
        if self._most_tokens is not None and tokens > self._most_tokens:
            raise BudgetSpentError(
                f"the next call may take {worst.tokens_in + worst.tokens_out} tokens; of "
                f"{self._most_tokens} {self._tokens} are spent"
            )
