"""The best time of a search against its GPU seconds, as SVG that needs no script."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from solkit.core.quantities import duration
from solkit.service.store import Point

_WIDTH, _HEIGHT = 360.0, 200.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 12.0, 14.0, 34.0
_ROOM = 0.08  # of the range of times, free above and below
_SPARK_WIDTH, _SPARK_HEIGHT = 120.0, 28.0


def best_time_curve(points: Sequence[Point]) -> str:
    """Return a figure of the best time so far, and the speed of light; empty without a time."""
    timed = [point for point in points if point.best_ms is not None]
    if not timed:
        return ""
    last = points[-1]
    end_s = max(last.gpu_s, last.budget_s if last.gpu_s < last.budget_s else 0.0) or 1.0
    sol_ms = timed[-1].sol_ms
    times = [point.best_ms or 0.0 for point in timed]
    low, high = _time_range([*times, *([] if sol_ms is None else [sol_ms])])
    frame = _Frame(end_s, low, high)
    best_ms = times[-1]
    parts = [
        *_time_axis(frame, end_s),
        _level_line(frame, sol_ms, "sol", "speed of light") if sol_ms is not None else "",
        f'<path class="best" d="{_step_points(frame, timed, last.gpu_s)}"/>',
        f'<circle class="dot" cx="{frame.x(last.gpu_s):.1f}" cy="{frame.y(best_ms):.1f}" r="3"/>',
    ]
    label = f"The best time fell from {duration(times[0])} to {duration(best_ms)}"
    return (
        f'<svg class="curve" viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img" '
        f'aria-label="{escape(label)} in {last.gpu_s:.1f} GPU s">{"".join(parts)}</svg>'
    )


def sparkline(points: Sequence[Point]) -> str:
    """Return the same in a table's cell, without words; empty without two times."""
    timed = [point for point in points if point.best_ms is not None]
    if len(timed) < 2:
        return ""
    low, high = _time_range([point.best_ms or 0.0 for point in timed])
    end_s = points[-1].gpu_s or 1.0
    frame = _Frame(end_s, low, high, (2.0, _SPARK_WIDTH - 2), (2.0, _SPARK_HEIGHT - 2))
    return (
        f'<svg class="spark" viewBox="0 0 {_SPARK_WIDTH:.0f} {_SPARK_HEIGHT:.0f}" '
        f'aria-hidden="true"><path class="best" d="{_step_points(frame, timed, end_s)}"/></svg>'
    )


class _Frame:
    """Coordinates of seconds and times in a figure.

    Args:
        end_s: the last second.
        low, high: the least and the largest time.
        across, down: the room, in units of the figure.
    """

    def __init__(
        self,
        end_s: float,
        low: float,
        high: float,
        across: tuple[float, float] = (_LEFT, _WIDTH - _RIGHT),
        down: tuple[float, float] = (_TOP, _HEIGHT - _BOTTOM),
    ) -> None:
        self._end_s, self.low, self.high = end_s, low, high
        self.across, self.down = across, down

    def x(self, gpu_s: float) -> float:
        left, right = self.across
        return left + (right - left) * min(gpu_s / self._end_s, 1.0)

    def y(self, time_ms: float) -> float:
        top, bottom = self.down
        return bottom - (bottom - top) * (time_ms - self.low) / (self.high - self.low)


def _time_range(times: Sequence[float]) -> tuple[float, float]:
    low, high = min(times), max(times)
    room = _ROOM * (high - low) or 0.1 * high or 1.0
    return max(low - room, 0.0), high + room


def _step_points(frame: _Frame, timed: Sequence[Point], end_s: float) -> str:
    """Return a best time holds until there is a better one."""
    first = timed[0]
    path = [f"M{frame.x(first.gpu_s):.1f} {frame.y(first.best_ms or 0.0):.1f}"]
    for point in timed[1:]:
        path.append(f"H{frame.x(point.gpu_s):.1f}V{frame.y(point.best_ms or 0.0):.1f}")
    return "".join(path) + f"H{frame.x(end_s):.1f}"


def _time_axis(frame: _Frame, end_s: float) -> list[str]:
    (left, right), (top, bottom) = frame.across, frame.down
    marks = [f'<path class="axis" d="M{left} {top}V{bottom}H{right}"/>']
    for share in (0.0, 0.5, 1.0):
        time_ms = frame.low + share * (frame.high - frame.low)
        marks.append(_svg_text(left - 6, frame.y(time_ms) + 4, duration(time_ms), "end"))
        seconds = share * end_s
        place = {0.0: "start", 0.5: "middle", 1.0: "end"}[share]
        marks.append(_svg_text(frame.x(seconds), bottom + 15, f"{seconds:.3g}", place))
    marks.append(_svg_text((left + right) / 2, bottom + 29, "GPU seconds", "middle"))
    return marks


def _level_line(frame: _Frame, time_ms: float, kind: str, words: str) -> str:
    left, right = frame.across
    at = frame.y(time_ms)
    line = f'<path class="{kind}" d="M{left} {at:.1f}H{right}"/>'
    return line + _svg_text(right, at - 4, f"{words} {duration(time_ms)}", "end")


def _svg_text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
