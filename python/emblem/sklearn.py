"""Estimators of scikit-learn: on DataFrames and arrays, in pipelines, searches and cross-validation."""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

import numpy as np

try:
    import sklearn
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.class_weight import compute_sample_weight
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data
except ImportError:
    found = f"{sklearn.__version__} is installed" if "sklearn" in globals() else "it is not installed"
    raise ImportError(f"the estimators need scikit-learn 1.6 or newer, but {found}: pip install --upgrade scikit-learn, or "
                      "emblem-recsys with the extra [sklearn]") from None

from emblem._runtime import Error
from emblem._tensors import columns_of
from emblem.data import Data, named
from emblem.pipeline import Columns as Chosen
from emblem.pipeline import Pipeline, init
from emblem.training import train

_LABEL, _WEIGHT, _QUERY = "emblem_label", "emblem_weight", "emblem_query"
_SAMPLED_ROWS = 1000  # kept of the training rows, for feature_importances_

Columns = Dict[str, Any]


class _Estimator(BaseEstimator):
    """model: one of `emblem init --model`; "" chooses. settings: {field: value} of the pipeline. epochs: passes over the rows;
    None: until a held-out tenth of the rows (or `eval_set`) shows no gain. categories: columns, by name or position, whose
    numbers are codes. verbose: whether a bar is shown."""

    def __init__(self, model: str = "", epochs: Optional[int] = None, settings: Optional[Mapping[str, Any]] = None,
                 random_state: Any = None, device: str = "cpu", threads: int = 0, categories: Optional[Chosen] = None,
                 verbose: int = 0) -> None:
        self.model = model
        self.epochs = epochs
        self.settings = settings
        self.random_state = random_state
        self.device = device
        self.threads = threads
        self.categories = categories
        self.verbose = verbose

    def _train(self, rows: Columns, pipeline: Pipeline, valid: Optional[Data]) -> None:
        random = check_random_state(self.random_state)
        if self.random_state is not None:
            pipeline["train_config.seed"] = int(random.randint(1 << 31))
        self.model_ = train(_data(rows), pipeline, valid=valid, epochs=self.epochs, settings=self.settings, device=self.device,
                            threads=self.threads, progress=bool(self.verbose))
        self.n_iter_ = self.model_.history.steps
        count = len(rows[_LABEL])
        kept = np.sort(random.permutation(count)[:_SAMPLED_ROWS])
        self._sample = {name: _take(rows[name], kept) for name in self.columns_}
        self.__dict__.pop("_importances", None)

    # DataFrames and tables keep the types of their columns; all else is an array of numbers.
    def _columns(self, X: Any, reset: bool) -> Columns:
        is_pandas = hasattr(X, "columns") and hasattr(X, "iloc")
        if is_pandas or hasattr(X, "get_columns") or hasattr(X, "__arrow_c_stream__"):
            validate_data(self, X, reset=reset, skip_check_array=True)
            columns = {str(name): X[name] for name in X.columns} if is_pandas else {
                name: values if isinstance(values, np.ndarray) else np.fromiter(values, object, len(values))
                for name, values in columns_of(X).items()}
            if reset:
                self.columns_, self._numbers = list(columns), list[str]()
            return columns
        X = validate_data(self, X, reset=reset, dtype="numeric", ensure_all_finite="allow-nan")
        if reset:
            self.columns_ = [f"x{at}" for at in range(X.shape[1])]
            self._numbers = self.columns_  # whatever their values look like
        return {name: np.ascontiguousarray(X[:, at], np.float64) for at, name in enumerate(self.columns_)}

    # The pipeline that emblem.init chooses for these rows.
    def _choose(self, rows: Columns, task: str, valid: Optional[Data], **options: Any) -> Pipeline:
        categories = named(dict.fromkeys(self.columns_), "categories", () if self.categories is None else self.categories)
        return init(_data(rows), _LABEL, task=task, model=self.model, weight=_WEIGHT if _WEIGHT in rows else "",
                    categories=categories, numbers=[name for name in self._numbers if name not in categories], valid=valid, **options)

    def _predicted(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "model_")
        return self.model_.predict(_data(self._columns(X, reset=False)))

    # Rows that evaluations read, with labels as the model has them.
    def _held_out(self, eval_set: Any, weighted: bool, to_labels: Any) -> Optional[Columns]:
        if eval_set is None:
            return None
        if isinstance(eval_set, list):
            if len(eval_set) != 1:
                raise ValueError(f"eval_set has {len(eval_set)} entries; expected one pair (X, y)")
            eval_set = eval_set[0]
        columns = self._columns(eval_set[0], reset=False)
        columns[_LABEL] = to_labels(eval_set[1])
        _check_rows(columns, columns[_LABEL])
        if weighted:
            columns[_WEIGHT] = np.ones(len(columns[_LABEL]))
        return columns

    @property
    def feature_importances_(self) -> np.ndarray:
        """By column: how much predictions change on average if its values are permuted, among up to 1,000 rows of the training.
        They sum to 1."""
        check_is_fitted(self, "model_")
        if "_importances" not in self.__dict__:
            random = np.random.default_rng(0)
            rows = len(next(iter(self._sample.values())))
            order = random.permutation(rows)
            expected = self.model_.predict(_data(self._sample)).astype(np.float64)
            changes = np.array([np.nanmean(np.abs(self.model_.predict(
                _data({**self._sample, name: _take(self._sample[name], order)})) - expected)) for name in self.columns_])
            total = changes.sum()
            self._importances = changes / total if total > 0 else changes
        return self._importances

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags


def _take(column: Any, rows: np.ndarray) -> Any:
    return column.iloc[rows] if hasattr(column, "iloc") else column[rows]


# Columns of pandas are read together, as a frame: by pyarrow where it is installed.
def _data(columns: Columns) -> Data:
    index = next((values.index for values in columns.values() if hasattr(values, "iloc")), None)
    if index is None:
        return Data(columns)
    import pandas
    frame = pandas.DataFrame({name: pandas.Series(values.array if hasattr(values, "array") else values, index)
                              for name, values in columns.items()})
    try:
        return Data(frame)
    except Error:  # Arrow has no type for a column of numbers and texts
        return Data(columns)


def _weights(sample_weight: Any, rows: int) -> Optional[np.ndarray]:
    if sample_weight is None:
        return None
    weights = check_array(sample_weight, ensure_2d=False, dtype=np.float64)
    if weights.shape != (rows,):
        raise ValueError(f"sample_weight has the shape {weights.shape}; expected ({rows},)")
    if not weights.any():
        raise ValueError("all sample weights are zero; expected a weight above zero")
    return weights


def _require_labels(y: Any) -> None:
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None")


def _check_rows(columns: Columns, y: Any) -> None:
    rows = len(next(iter(columns.values())))
    if rows != len(y):
        raise ValueError(f"Found input variables with inconsistent numbers of samples: [{rows}, {len(y)}]")


class _Supervised(_Estimator):
    """tune: training steps of a search for the settings (emblem.init), which `random_state` seeds; True: 100,000."""

    def __init__(self, model: str = "", epochs: Optional[int] = None, settings: Optional[Mapping[str, Any]] = None,
                 random_state: Any = None, device: str = "cpu", threads: int = 0, tune: Union[bool, int] = False,
                 categories: Optional[Chosen] = None, verbose: int = 0) -> None:
        super().__init__(model, epochs, settings, random_state, device, threads, categories, verbose)
        self.tune = tune

    def _fit(self, columns: Columns, label: np.ndarray, sample_weight: Any, task: str, classes: int,
             held_out: Optional[Columns]) -> Any:
        rows = dict(columns, **{_LABEL: label})
        weights = _weights(sample_weight, len(label))
        if weights is not None:
            rows[_WEIGHT] = weights
        valid = None if held_out is None else _data(held_out)
        seeded = self.tune and self.random_state is not None
        seed = int(check_random_state(self.random_state).randint(1 << 31)) if seeded else 1
        pipeline = self._choose(rows, task, valid, tune=self.tune, seed=seed, device=self.device, threads=self.threads,
                                progress=bool(self.verbose))
        if classes > 2:
            pipeline["data_config.label_classes"] = [str(at) for at in range(classes)]
        self._train(rows, pipeline, valid)
        return self


class EmblemClassifier(ClassifierMixin, _Supervised):
    """Two classes or more.

    class_weight: {class: weight}, or "balanced": classes weigh the same in all; times sample_weight.

    >>> import numpy as np
    >>> X = np.random.default_rng(1).normal(size=(200, 2))
    >>> emblem.EmblemClassifier(epochs=5).fit(X, np.where(X[:, 0] > 0, "yes", "no")).classes_.tolist()
    ['no', 'yes']
    """

    def __init__(self, model: str = "", epochs: Optional[int] = None, settings: Optional[Mapping[str, Any]] = None,
                 random_state: Any = None, device: str = "cpu", threads: int = 0, tune: Union[bool, int] = False,
                 categories: Optional[Chosen] = None, verbose: int = 0,
                 class_weight: Union[Mapping[Any, float], str, None] = None) -> None:
        super().__init__(model, epochs, settings, random_state, device, threads, tune, categories, verbose)
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None, eval_set: Any = None) -> "EmblemClassifier":
        """eval_set: (X, y), rows that decide when to stop; by default a tenth of the rows does."""
        _require_labels(y)
        columns = self._columns(X, reset=True)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        _check_rows(columns, codes)
        if len(self.classes_) < 2:
            raise ValueError(f"Classifier can't train when only one class is present: the labels have one class, "
                             f"{self.classes_[0]!r}; expected at least two")
        if self.class_weight is not None:
            of_classes = compute_sample_weight(self.class_weight, y)
            given = _weights(sample_weight, len(codes))
            sample_weight = of_classes if given is None else of_classes * given
        held_out = self._held_out(eval_set, sample_weight is not None, self._codes_of)
        return self._fit(columns, codes.astype(np.int64), sample_weight,
                         "binary" if len(self.classes_) == 2 else "classes", len(self.classes_), held_out)

    def _codes_of(self, y: Any) -> np.ndarray:
        y = column_or_1d(y)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"eval_set has the label {unknown[0]}, which the training rows do not have")
        return np.searchsorted(self.classes_, y).astype(np.int64)

    def predict_proba(self, X: Any) -> np.ndarray:
        predicted = self._predicted(X).astype(np.float64)
        return np.stack([1 - predicted, predicted], axis=1) if predicted.ndim == 1 else predicted

    def predict(self, X: Any) -> np.ndarray:
        best = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[best]


class EmblemRegressor(RegressorMixin, _Supervised):
    """Numbers.

    >>> import numpy as np
    >>> X = np.random.default_rng(1).normal(size=(200, 2))
    >>> bool(emblem.EmblemRegressor(random_state=1).fit(X, X[:, 0]).score(X, X[:, 0]) > 0.5)
    True
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None, eval_set: Any = None) -> "EmblemRegressor":
        """eval_set: (X, y), rows that decide when to stop; by default a tenth of the rows does."""
        _require_labels(y)
        columns = self._columns(X, reset=True)
        y = column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64), warn=True)
        _check_rows(columns, y)
        held_out = self._held_out(eval_set, sample_weight is not None, lambda labels: np.asarray(labels, np.float64))
        return self._fit(columns, y, sample_weight, "number", 0, held_out)

    def predict(self, X: Any) -> np.ndarray:
        return self._predicted(X).astype(np.float64)


class EmblemRanker(_Estimator):
    """Orders the rows of each query by relevance: labels of 0 or more, trained with lambdarank_loss, measured by NDCG.

    top_k: NDCG of this many rows decides when to stop.

    >>> import numpy as np
    >>> X = np.random.default_rng(1).normal(size=(300, 2))
    >>> ranker = emblem.EmblemRanker(epochs=5, random_state=1).fit(X, (X[:, 0] > 0).astype(int), group=[10] * 30)
    >>> bool(ranker.score(X, X[:, 0] > 0, group=[10] * 30) > 0.8)
    True
    """

    def __init__(self, model: str = "", epochs: Optional[int] = None, settings: Optional[Mapping[str, Any]] = None,
                 random_state: Any = None, device: str = "cpu", threads: int = 0, top_k: int = 10,
                 categories: Optional[Chosen] = None, verbose: int = 0) -> None:
        super().__init__(model, epochs, settings, random_state, device, threads, categories, verbose)
        self.top_k = top_k

    def fit(self, X: Any, y: Any, sample_weight: Any = None, group: Any = None, qid: Any = None, eval_set: Any = None,
            eval_group: Any = None, eval_qid: Any = None) -> "EmblemRanker":
        """group: the numbers of rows of the queries, which follow each other in X; or qid: the query of each row, in any order.
        Without them all rows are of one query. eval_set: (X, y), with eval_group or eval_qid: rows that decide when to stop; by
        default a tenth of the queries does."""
        _require_labels(y)
        columns = self._columns(X, reset=True)
        y = self._relevance(y)
        _check_rows(columns, y)
        queries, count = _queries(len(y), group, qid)
        rows = dict(columns, **{_LABEL: y, _QUERY: queries})
        weights = _weights(sample_weight, len(y))
        if weights is not None:
            rows[_WEIGHT] = weights
        held_out = self._held_out(eval_set, weights is not None, self._relevance)
        if held_out is not None:
            held_out[_QUERY], more = _queries(len(held_out[_LABEL]), eval_group, eval_qid)
            count = max(count, more)
        rows = self._in_order_of_queries(rows, queries)
        valid = None if held_out is None else _data(held_out)
        self._train(rows, self._pipeline(rows, count, valid), valid)
        return self

    def _relevance(self, y: Any) -> np.ndarray:
        y = column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64), warn=True)
        if len(y) and y.min() < 0:
            raise ValueError(f"the labels have {y.min():g}; expected relevance of 0 or more")
        return y

    # A batch compares rows that follow each other: those of a query together, the queries mixed.
    def _in_order_of_queries(self, rows: Columns, queries: np.ndarray) -> Columns:
        place = check_random_state(self.random_state).permutation(queries.max() + 1)
        order = np.argsort(place[queries], kind="stable")
        return {name: _take(values, order) for name, values in rows.items()}

    def _pipeline(self, rows: Columns, queries: int, valid: Optional[Data]) -> Pipeline:
        pipeline = self._choose(rows, "number", valid, skipped=[_QUERY])
        pipeline.feature_configs.append(
            {"id_feature": {"feature_name": _QUERY, "num_buckets": queries, "embedding_dim": 1}})
        pipeline["model_config.losses"] = [{"lambdarank_loss": {"session_name": _QUERY}}]
        pipeline["model_config.metrics"] = [{"ndcg_at_k": {"top_k": self.top_k, "grouping_key": _QUERY}}]
        pipeline["data_config.shuffle"] = False
        if valid is None and queries > 1 and pipeline.data_config.holdout_ratio > 0:
            pipeline["data_config.holdout_fields"] = [_QUERY]
        if "early_stopping" in pipeline.train_config:
            pipeline["train_config.early_stopping.metric"] = f"ndcg@{self.top_k}"
        return pipeline

    def predict(self, X: Any) -> np.ndarray:
        """A score of each row: of two rows of a query the one with the higher score comes first."""
        return self._predicted(X).astype(np.float64)

    def score(self, X: Any, y: Any, group: Any = None, qid: Any = None) -> float:
        """The mean NDCG of the top_k rows of each query that has a relevant one."""
        y = self._relevance(y)
        queries, count = _queries(len(y), group, qid)
        by_query = np.argsort(queries, kind="stable")
        ends = np.cumsum(np.bincount(queries, minlength=count))[:-1]
        found = [_ndcg(labels, scores, self.top_k) for labels, scores in
                 zip(np.split(y[by_query], ends), np.split(self.predict(X)[by_query], ends))]
        known = [one for one in found if one is not None]
        return float(np.mean(known)) if known else 1.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True  # 0, too
        return tags


def _queries(rows: int, group: Any, qid: Any) -> Tuple[np.ndarray, int]:
    """(the number of the query of each row, how many there are)"""
    if group is not None and qid is not None:
        raise ValueError("group and qid are both given; expected one of them")
    if qid is not None:
        _, codes = np.unique(column_or_1d(qid), return_inverse=True)
        if len(codes) != rows:
            raise ValueError(f"qid has {len(codes)} values; expected {rows}, one per row")
        return codes.astype(np.int64), int(codes.max()) + 1
    sizes = np.array([rows]) if group is None else column_or_1d(group).astype(np.int64)
    if sizes.sum() != rows or (sizes < 1).any():
        raise ValueError(f"group has {sizes.sum()} rows in all; expected {rows}, in groups of 1 or more")
    return np.repeat(np.arange(len(sizes)), sizes), len(sizes)


# As the metric ndcg_at_k has it: gains are labels, equal scores share their ranks' discounts. None without a relevant row.
def _ndcg(labels: np.ndarray, scores: np.ndarray, top_k: int) -> Optional[float]:
    discounts = np.where(np.arange(len(labels)) < top_k, 1 / np.log2(np.arange(len(labels)) + 2), 0)
    best = float((np.sort(labels)[::-1] * discounts).sum())
    if best <= 0:
        return None
    order = np.argsort(-scores, kind="stable")
    _, ties = np.unique(-scores[order], return_inverse=True)
    shared = (np.bincount(ties, discounts) / np.bincount(ties))[ties]
    return float((labels[order] * shared).sum()) / best
