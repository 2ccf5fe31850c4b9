"""Cross-validation."""
from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterable, List, Literal, Optional, Tuple, Union, overload

import numpy as np

from emblem._runtime import Error
from emblem.model import Model
from emblem.pipeline import Pipeline, init, to_pipeline
from emblem.training import train

_MOST_CLASSES = 100  # of whole numbers that are classes, not counts

Metrics = Dict[str, np.ndarray]
Plan = Union[str, os.PathLike, Pipeline, None]


@overload
def cv(data: Any, pipeline: Plan = None, *, label: Optional[str] = None, folds: Any = 5, seed: int = 1,
       stratify: Optional[bool] = None, groups: Any = None, return_models: Literal[False] = False, **options: Any) -> Metrics: ...
@overload
def cv(data: Any, pipeline: Plan = None, *, label: Optional[str] = None, folds: Any = 5, seed: int = 1,
       stratify: Optional[bool] = None, groups: Any = None, return_models: Literal[True],
       **options: Any) -> Tuple[Metrics, List[Model]]: ...


def cv(data: Any, pipeline: Plan = None, *, label: Optional[str] = None, folds: Any = 5, seed: int = 1,
       stratify: Optional[bool] = None, groups: Any = None, return_models: bool = False, **options: Any) -> Any:
    """Cross-validation: trains `folds` models, each without one part of the rows, and evaluates it on that part.

    data: a DataFrame of pandas or Polars, a dict of columns, an Arrow table or an array of two dimensions.
    folds: how many, with the rows drawn by `seed`; or pairs of row numbers (to train on, to evaluate on); or a splitter of
    scikit-learn.
    stratify: whether each part has the classes in the same shares; None: where the label is text, or up to 100 whole numbers.
    groups: the name of a column, or a value per row; rows with the same value are in the same part.
    options: of emblem.train.

    Returns {metric: array of a value per fold}; with return_models also the models, in this order.

    >>> rows = {"x": [0.1, 0.9, 0.2, 0.8] * 50, "y": ["no", "yes", "no", "yes"] * 50}
    >>> found, models = emblem.cv(rows, label="y", folds=2, epochs=1, return_models=True, progress=False)
    >>> found["auc"].shape, len(models)
    ((2,), 2)
    """
    rows, take, column = _rows_of(data)
    name = label if label is not None else (to_pipeline(pipeline) if pipeline is not None else init(data)).labels[0]
    group_of = None if groups is None else np.asarray(column(groups) if isinstance(groups, str) else groups)
    if group_of is not None and group_of.shape != (rows,):
        raise Error(f"groups have the shape {group_of.shape}; expected ({rows},), one per row", "invalid_argument")
    found: Dict[str, list] = {}
    models = []
    for learned, held_out in _pairs(folds, rows, column(name), group_of, stratify, seed):
        model = train(take(learned), pipeline, valid=take(held_out), label=label, **options)
        for metric, value in model.history.evaluation.items():
            found.setdefault(metric, []).append(value)
        models.append(model)
    metrics = {metric: np.array(values) for metric, values in found.items()}
    return (metrics, models) if return_models else metrics


# Pairs of the numbers of rows to train on and to evaluate on.
def _pairs(folds: Any, rows: int, labels: Any, groups: Optional[np.ndarray], stratify: Optional[bool],
           seed: int) -> Iterable[Tuple[np.ndarray, np.ndarray]]:
    if hasattr(folds, "split"):
        return folds.split(np.zeros((rows, 1)), labels, groups)
    if not isinstance(folds, (int, np.integer)):
        return [_checked(pair, rows) for pair in folds]
    part = _parts(int(folds), rows, labels, groups, stratify, np.random.default_rng(seed))
    return [(np.flatnonzero(part != fold), np.flatnonzero(part == fold)) for fold in range(folds)]


def _checked(pair: Any, rows: int) -> Tuple[np.ndarray, np.ndarray]:
    try:
        learned, held_out = (np.asarray(one) for one in pair)
    except (TypeError, ValueError):
        raise Error("folds are neither a number, nor a splitter, nor pairs of row numbers", "invalid_argument") from None
    for one in (learned, held_out):
        if one.ndim != 1 or not one.size or one.dtype.kind not in "iu" or one.min() < 0 or one.max() >= rows:
            raise Error(f"a fold does not have row numbers of 0 to {rows - 1}; expected pairs (to train on, to evaluate on)",
                        "invalid_argument")
    return learned, held_out


# The part of each row.
def _parts(folds: int, rows: int, labels: Any, groups: Optional[np.ndarray], stratify: Optional[bool],
           draw: np.random.Generator) -> np.ndarray:
    codes = np.arange(rows) if groups is None else np.unique(groups, return_inverse=True)[1]
    units = int(codes.max(initial=-1)) + 1
    if not 2 <= folds <= units:
        raise Error(f"folds is {folds}; expected 2 to {units}, the number of {'rows' if groups is None else 'groups'}",
                    "invalid_argument")
    if groups is not None:
        if stratify:
            raise Error("stratify and groups are both given; expected one of them", "invalid_argument")
        return _even(np.bincount(codes), folds, draw)[codes]
    order = draw.permutation(rows)
    part = np.empty(rows, np.int64)
    classes = _classes(labels, stratify, folds)
    if classes is not None:
        order = order[np.argsort(classes[order], kind="stable")]
        part[order] = np.arange(rows) % folds
        return part
    return order % folds


# Parts of about the same size: the largest group to the smallest part.
def _even(sizes: np.ndarray, folds: int, draw: np.random.Generator) -> np.ndarray:
    order = draw.permutation(len(sizes))
    part, filled = np.empty(len(sizes), np.int64), np.zeros(folds, np.int64)
    for group in order[np.argsort(-sizes[order], kind="stable")]:
        part[group] = np.argmin(filled)
        filled[part[group]] += sizes[group]
    return part


# The class of each row; None: labels are numbers, or classes shall not count.
def _classes(labels: Any, stratify: Optional[bool], folds: int) -> Optional[np.ndarray]:
    if stratify is False:
        return None
    values = np.asarray(labels)
    if values.dtype.kind == "O":
        values = np.array([str(value) for value in values.tolist()])
    distinct, codes = np.unique(values, return_inverse=True)
    is_whole = values.dtype.kind in "bUSiu" or bool(np.isfinite(distinct).all() and (distinct == np.round(distinct)).all())
    return codes if stratify or is_whole and len(distinct) <= min(_MOST_CLASSES, len(values) // folds) else None


# (how many, the rows with these numbers, the values of a column)
def _rows_of(data: Any) -> Tuple[int, Callable[[np.ndarray], Any], Callable[[str], Any]]:
    if isinstance(data, dict):
        columns = {name: values if hasattr(values, "dtype") else np.asarray(values) for name, values in data.items()}
        return (len(next(iter(columns.values()))),
                lambda at: {name: values.iloc[at] if hasattr(values, "iloc") else values[at] for name, values in columns.items()},
                _reader(columns))
    if isinstance(data, np.ndarray) and data.ndim == 2:
        return len(data), lambda at: data[at], lambda name: data[:, int(name[1:])]
    if hasattr(data, "iloc"):
        return len(data), lambda at: data.iloc[at], _reader(data)
    if hasattr(data, "take") and hasattr(data, "num_rows"):
        return data.num_rows, data.take, _reader(data)
    if hasattr(data, "height"):  # Polars
        return data.height, lambda at: data[at], _reader(data)
    raise Error(f"data is a {type(data).__name__}; expected a DataFrame, an Arrow table, a dict of columns or an array",
                "invalid_argument")


def _reader(columns: Any) -> Callable[[str], Any]:
    def read(name: str) -> Any:
        try:
            values = columns[name]
        except (KeyError, TypeError, LookupError):
            raise Error(f"the data have no column {name!r}", "invalid_argument") from None
        return np.asarray(values.to_pylist() if hasattr(values, "to_pylist") else values)
    return read
