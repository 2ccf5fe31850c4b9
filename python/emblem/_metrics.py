"""Metrics that functions of the user compute, as the engine calls them."""
from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional

import numpy as np

from emblem._runtime import LOG, Error


class OwnMetrics:
    """Called with the labels and predictions of an evaluation, float32 [rows, columns]; gives values by name.

    is_run: a training calls it: first with a few rows, where a function that fails is an error, then with the rows of each
    evaluation, where it costs the value alone, not what was learned."""

    def __init__(self, functions: Mapping[str, Callable], *, is_run: bool = False) -> None:
        if not isinstance(functions, Mapping) or not all(callable(one) for one in functions.values()):
            raise Error("metrics are no dict of functions; expected {name: function(labels, predictions)}", "invalid_argument")
        self.names = [str(name) for name in functions]
        self._functions = functions
        self._is_run, self._is_trial = is_run, is_run
        self.interrupted: Optional[Callable[[], Any]] = None  # what Ctrl-C in a function calls, once there is a run

    def __call__(self, labels: np.ndarray, predictions: np.ndarray) -> Dict[str, float]:
        labels, predictions = _by_row(labels.astype(np.float64)), _by_row(predictions)
        found = {str(name): self._value(name, function, labels, predictions) for name, function in self._functions.items()}
        self._is_trial = False
        return found

    def _value(self, name: str, function: Callable, labels: np.ndarray, predictions: np.ndarray) -> float:
        try:
            return float(function(labels, predictions))
        except KeyboardInterrupt:
            if self.interrupted is None:
                raise
            self.interrupted()
        except Exception as error:
            said = f"metric {name!r} failed on {len(labels)} rows: {type(error).__name__}: {error}"
            if not self._is_run or self._is_trial and len(np.unique(labels)) > 1:
                raise Error(said, "invalid_argument") from error
            LOG.warning("%s; its value is NaN", " ".join(said.split("\n")))
        return float("nan")


def _by_row(values: np.ndarray) -> np.ndarray:
    return values[:, 0] if values.shape[1] == 1 else values
