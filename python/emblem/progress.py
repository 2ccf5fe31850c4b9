"""One line that shows how far a training is, in a terminal or a notebook."""
import sys
import time


class Progress:
    """Shows rows, the loss and the speed on stderr; nothing where stderr is not a terminal or a notebook."""

    def __init__(self, shown=None, stream=None):
        self.stream = stream or sys.stderr
        self.is_shown = self._can_show() if shown is None else bool(shown)
        self.width, self.last = 0, 0.0

    def _can_show(self):
        return self.stream.isatty() or "ipykernel" in sys.modules

    def update(self, event):
        now = time.monotonic()
        if not self.is_shown or now - self.last < 0.1:
            return
        self.last = now
        share = f"{100 * min(1.0, event['rows'] / event['expected_rows']):3.0f} % " if event["expected_rows"] else ""
        self._write(f"{share}{event['rows']:,} rows  loss {event['loss']:.4f}  {event['samples_per_second']:,.0f} rows/s")

    def _write(self, line):
        self.stream.write("\r" + line.ljust(self.width))
        self.stream.flush()
        self.width = len(line)

    def close(self):
        if self.width:
            self.stream.write("\r" + " " * self.width + "\r")
            self.stream.flush()
            self.width = 0
