"""A bar that shows how far a training is, in a terminal or a notebook."""
from __future__ import annotations

import shutil
import sys
import time
from typing import Any, Mapping, Optional, TextIO

_EIGHTHS = " ▏▎▍▌▋▊▉"


class Progress:
    """One line on stderr: share, bar, rows, time, time left, speed, loss, the last evaluation; at the end, outcome, metrics and
    time. Nothing where stderr is neither a terminal nor a notebook.

    >>> import io
    >>> stream = io.StringIO()
    >>> bar = Progress(True, stream, width=60, clock=lambda: 10.0)
    >>> bar.update({"rows": 50, "expected_rows": 100, "loss": 0.25, "samples_per_second": 10.0, "epoch": 0})
    >>> stream.getvalue().strip()
    '50 %|██████      | 50/100 00:00<00:05, 10 rows/s, loss 0.25'
    >>> bar.finish("finished after 3 steps", {"auc": 0.75})
    >>> stream.getvalue().split("\\r")[-1]
    'finished after 3 steps, auc 0.75, 00:00\\n'
    """

    def __init__(self, shown: Optional[bool] = None, stream: Optional[TextIO] = None, width: int = 0,
                 clock: Any = time.monotonic) -> None:
        self.stream = stream or sys.stderr
        self.is_shown = self._can_show() if shown is None else bool(shown)
        self._given_width, self._clock = width, clock
        self._begin = clock()
        self._last, self._shown_width = float("-inf"), 0
        self._metrics = ""

    def _can_show(self) -> bool:
        return self.stream is not None and (self.stream.isatty() or "ipykernel" in sys.modules)

    def update(self, event: dict) -> None:
        now = self._clock()
        if not self.is_shown or now - self._last < 0.1:
            return
        self._last = now
        self._write(self._line(event, now - self._begin))

    def update_tuning(self, steps: int, most: int, trial: str) -> None:
        """Of a search for settings."""
        if self.is_shown:
            self._write(f"tuning: {steps:,}/{most:,} steps, {trial}"[:self._columns()])

    def note_evaluation(self, event: dict) -> None:
        self._metrics = "".join(f", {name} {value:.4g}" for name, value in list(event["metrics"].items())[:2])

    def _line(self, event: dict, elapsed: float) -> str:
        rows, expected, speed = event["rows"], event["expected_rows"], event["samples_per_second"]
        left = f"<{_clock_time((expected - rows) / speed)}" if expected > rows and speed > 0 else ""
        text = (f" {rows:,}{f'/{expected:,}' if expected else ''} {_clock_time(elapsed)}{left}, {speed:,.0f} rows/s, "
                f"loss {event['loss']:.4g}{self._metrics}")
        width = self._columns()
        if not expected:
            return text.strip()[:width]
        share = min(1.0, rows / expected)
        head = f"{100 * share:3.0f} %"
        return f"{head}|{_bar(share, max(4, min(40, width - len(head) - len(text) - 2)))}|{text}"[:max(width, 20)]

    def _columns(self) -> int:
        return self._given_width or shutil.get_terminal_size().columns - 1

    def _write(self, line: str) -> None:
        self.stream.write("\r" + line.ljust(self._shown_width))
        self.stream.flush()
        self._shown_width = len(line)

    def close(self, last: str = "") -> None:
        """Removes the bar, and leaves the line `last` where it was."""
        if self._shown_width:
            self.stream.write("\r" + " " * self._shown_width + "\r")
        if last and self.is_shown:
            self.stream.write(last + "\n")
        if self._shown_width or last and self.is_shown:
            self.stream.flush()
        self._shown_width = 0

    def finish(self, outcome: str, metrics: Mapping[str, float]) -> None:
        """Leaves a line of how it ended: outcome, metrics, time."""
        found = "".join(f", {name} {value:.4g}" for name, value in list(metrics.items())[:3])
        self.close(f"{outcome}{found}, {_clock_time(self._clock() - self._begin)}")


def _bar(share: float, width: int) -> str:
    eighths = round(share * width * 8)
    full, part = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[part] if part else "")).ljust(width)


def _clock_time(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"
