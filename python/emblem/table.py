"""Embedding tables of one's own: rows of floats by key, and the state of their optimizer."""
from __future__ import annotations

import os
from typing import Any, Dict, Mapping, NamedTuple, Optional, Union

import numpy as np

from emblem import _core, _cuda
from emblem._arrays import floats, integers
from emblem._runtime import Error


class LookupCounts(NamedTuple):
    """Keys that were looked up, and those of them that had no row."""
    keys: int
    missing: int


class Table:
    """An embedding table that grows: any integer is a key, and training gives it a row at its first occurrence.

    dim: floats per row. rows: makes it static: its keys are 0 to rows - 1, and all have rows.
    optimizer, lr, settings: how `update` changes rows: "sgd", "momentum", "adagrad", "rowwise_adagrad", "adam",
    "partial_rowwise_adam", "rmsprop", "adadelta" or "ftrl", with the fields that docs/configuration.md lists.
    pooling: of bags of keys, "sum" or "mean". value_type: of weights in memory, "fp32", "fp16" or "bf16".
    initializer: first values of a row, as "uniform,a=-0.01,b=0.01", "normal,mean=0,std=0.1", "constant,val=0" or "zeros";
    missing: what lookups without training read for keys without a row. seed: of initial values.
    capacity, eviction: most rows, and which leave then: "lru", "lfu", "step", "custom" (the lowest score), "none" (an error).
    admission_threshold: occurrences after which a key gets a row. device: "cpu" or "cuda", with placement "device", "cache" (of
    device_bytes) or "host".

    What it holds depends on these options and on what was looked up and learned alone. Threads may call at once; calls wait
    for each other, and other threads of Python run meanwhile. `update` belongs to the last `lookup` with train=True and is
    called by its thread: threads that train together hold a lock of their own around both. Arrays are whatever has the buffer
    protocol; keys are integers.

    >>> import numpy as np
    >>> table = emblem.Table(4, optimizer="adagrad", lr=0.1)
    >>> rows = table.lookup([7, 7, -3], train=True)
    >>> table.update(np.ones_like(rows))
    >>> len(table), 7 in table, 8 in table
    (2, True, False)
    >>> bool((table.lookup([7]) < rows[0]).all())
    True
    >>> table.lookup([7, -3, 8], offsets=[0, 2, 3]).shape
    (2, 4)
    """

    def __init__(self, dim: int, rows: int = 0, *, name: str = "table", optimizer: str = "sgd", lr: Optional[float] = None,
                 settings: Optional[Mapping[str, Any]] = None, pooling: str = "sum", value_type: str = "fp32",
                 initializer: str = "uniform,a=-0.01,b=0.01", missing: str = "zeros", seed: int = 1, trainable: bool = True,
                 stochastic_rounding: bool = True, capacity: int = 0, initial_capacity: int = 0, eviction: str = "none",
                 admission_threshold: int = 0, admission_capacity: int = 0, device: str = "cpu", threads: int = 0,
                 placement: str = "device", device_bytes: int = 0) -> None:
        if lr is not None and "lr" in (settings or {}):
            raise Error(f"lr is {lr}, and settings have an lr of {(settings or {})['lr']}; give one of them", "invalid_argument")
        fields = {**({} if lr is None else {"lr": lr}), **(settings or {})}
        self.dim = dim
        _cuda.load(device)
        self.core = _core.Table(
            name, dim, rows, value_type=value_type, initializer=initializer, missing=missing, seed=seed, optimizer=optimizer,
            settings={str(field): str(value) for field, value in fields.items()}, pooling=pooling, trainable=trainable,
            stochastic_rounding=stochastic_rounding, capacity=capacity, initial_capacity=initial_capacity, eviction=eviction,
            admission_threshold=admission_threshold, admission_capacity=admission_capacity, device=device, threads=threads,
            placement=placement, device_bytes=device_bytes)

    def lookup(self, keys: Any, offsets: Any = None, weights: Any = None, *, train: bool = False) -> np.ndarray:
        """The rows of keys, float32 [keys, dim]; with offsets the pooled rows of bags, [bags, dim], where bag i is
        keys[offsets[i]:offsets[i + 1]]. weights: a factor for each key.

        train: keys without a row get one, and `update` may follow."""
        return self.core.lookup(integers("keys", keys, np.int64), None if offsets is None else integers("offsets", offsets, np.int32),
                                None if weights is None else floats("weights", weights, 1), train)

    def update(self, gradients: Any, *, lr: Optional[float] = None, scale: float = 1) -> None:
        """Updates the rows of the last lookup with train=True by the gradients of its result, which has their shape. lr: in
        place of the optimizer's learning rate, 0 or more. scale: a factor of the gradients. An error where another thread
        has made the last lookup with train=True."""
        self.core.update(floats("gradients", gradients, 2), lr, scale)

    def write(self, keys: Any, weights: Any, *, states: Any = None, scores: Any = None) -> None:
        """Inserts or overwrites rows: weights are [keys, dim]. states: of the optimizer, as `export` gives them; None: those
        of new rows. Evicts nothing: an error where there would be more rows than the capacity."""
        self.core.write(integers("keys", keys, np.int64), floats("weights", weights, 2),
                        None if states is None else floats("states", states, 2),
                        None if scores is None else integers("scores", scores, np.int64))

    def export(self) -> Dict[str, np.ndarray]:
        """All rows, keys ascending: {"keys": [rows], "weights": [rows, dim], "states": [rows, floats], "scores": [rows]}."""
        return self.core.export()

    def erase(self, keys: Any) -> int:
        """Removes the rows of keys, and returns how many there were."""
        return self.core.erase(integers("keys", keys, np.int64))

    def clear(self) -> None:
        """Makes it as new."""
        self.core.clear()

    def set_next_score(self, score: int) -> None:
        """With eviction "custom": the score that later lookups with train=True give to their keys."""
        self.core.set_next_score(score)

    def take_counts(self) -> LookupCounts:
        """Of all lookups since the last call."""
        return LookupCounts(*self.core.take_counts())

    def save(self, folder: Union[str, os.PathLike]) -> None:
        """Writes a new folder, in the layout of a table in a checkpoint; it appears whole or not at all."""
        self.core.save(os.fspath(folder))

    def load(self, folder: Union[str, os.PathLike], *, weights_only: bool = False) -> None:
        """Replaces the content by that of a folder of `save`, or of a table in a checkpoint (CHECKPOINT/tables/NAME, whose
        steps become `updates`). weights_only: without the state of the optimizer, which may then be another. There is
        room for all rows, or an error: nothing is evicted."""
        self.core.load(os.fspath(folder), weights_only)

    @property
    def name(self) -> str:
        return self.core.name

    @property
    def bytes(self) -> int:
        """Memory held."""
        return self.core.bytes

    @property
    def updates(self) -> int:
        """Updates so far, from which Adam corrects its first steps; saved with the table. Set it where `write` has given
        the states of a table that was trained."""
        return self.core.updates

    @updates.setter
    def updates(self, updates: int) -> None:
        self.core.updates = updates

    def __len__(self) -> int:
        return self.core.size

    def __contains__(self, key: int) -> bool:
        return self.core.contains(key)

    def close(self) -> None:
        """Frees the rows. Other calls are errors afterwards."""
        self.core.close()

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"emblem.Table({self.name!r}, dim {self.dim}, {'closed' if self.core.is_closed else f'{len(self)} rows'})"
