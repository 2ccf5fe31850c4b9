"""A trained model as a function of small batches."""
from __future__ import annotations

import os
from typing import Any, List, Sequence, Union

import numpy as np

from emblem import _core
from emblem._runtime import Error, require
from emblem.data import to_core
from emblem.model import Model


class Predictor:
    """Rows in memory in, predictions out, with little time per call: for an answer per request inside of a program. Computes on
    a CPU; threads call it at once, and share the weights of the tables.

    model: an emblem.Model, a checkpoint, or a model directory: its latest one. It holds a copy: a training may go on.
    outputs: names, as "probs_ctr"; by default a probability, number or class probabilities of each tower. threads: of each
    call. precision: of layers, "fp32" or "bf16". row_precision: of rows in memory, "fp32", "bf16", "fp16" or "int8".

    >>> rows = {"x": [0.1, 0.9, 0.2, 0.8, 0.7] * 80, "y": [0, 1, 0, 1, 0] * 80}
    >>> predictor = emblem.Predictor(emblem.train(rows, label="y", epochs=1, progress=False))
    >>> predictor.predict({"x": [0.5]}).shape
    (1,)
    """

    def __init__(self, model: Union[str, os.PathLike, Model], *, outputs: Sequence[str] = (), threads: int = 1, precision: str = "",
                 row_precision: str = "") -> None:
        require(str, precision=precision, row_precision=row_precision)
        checkpoint = model.checkpoint if isinstance(model, Model) else os.fspath(model)
        self.core = _core.Predictor(checkpoint, list(outputs), threads, precision, row_precision)

    @property
    def columns(self) -> List[str]:
        """Names of what `predict` gives for a row; "prediction" for a model of one number."""
        return self.core.columns

    def predict(self, rows: Any) -> np.ndarray:
        """float32 [rows], or [rows, columns] where there are several, in the order of the rows: a dict of columns, a frame or a
        table, each time with the columns and types of the first time."""
        core = to_core(rows)
        if core is None or core.rows < 0:
            raise Error("the rows are not in memory; expected a dict of columns, a DataFrame or an Arrow table", "invalid_argument")
        values = self.core.predict(core)
        return values[:, 0] if values.shape[1] == 1 else values

    def __repr__(self) -> str:
        return f"emblem.Predictor({', '.join(self.columns)})"
