"""Estimators of scikit-learn: on DataFrames and arrays, in pipelines, searches and cross-validation."""
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from emblem.data import Data
from emblem.pipeline import init
from emblem.training import train

_LABEL, _WEIGHT = "emblem_label", "emblem_weight"


class _Estimator(BaseEstimator):
    """model: one of `emblem init --model`; "" chooses. settings: {field: value} of the pipeline. epochs: passes over the rows;
    None: until a held-out tenth of the rows (or `eval_set`) shows no gain."""

    def __init__(self, model="", epochs=None, settings=None, random_state=None, device="cpu", threads=0):
        self.model = model
        self.epochs = epochs
        self.settings = settings
        self.random_state = random_state
        self.device = device
        self.threads = threads

    def _fit(self, columns, label, sample_weight, task, classes, eval_columns):
        rows = dict(columns, **{_LABEL: label})
        if sample_weight is not None:
            rows[_WEIGHT] = np.asarray(sample_weight, np.float64)
        data, valid = Data(rows), None if eval_columns is None else Data(eval_columns)
        pipeline = init(data, _LABEL, task=task, model=self.model, weight="" if sample_weight is None else _WEIGHT,
                        numbers=self._numbers, valid=valid)
        if classes is not None and classes > 2:
            pipeline["data_config.label_classes"] = "[" + ", ".join(f'"{at}"' for at in range(classes)) + "]"
        if self.random_state is not None:
            seed = self.random_state
            pipeline["train_config.seed"] = int(seed if isinstance(seed, (int, np.integer)) else seed.randint(1 << 31))
        self.model_ = train(data, pipeline, valid=valid, epochs=self.epochs, settings=self.settings, device=self.device,
                            threads=self.threads, progress=False)
        self.n_iter_ = self.model_.history.steps
        return self

    # DataFrames keep the types of their columns; all else is an array of numbers.
    def _columns(self, X, reset):
        if hasattr(X, "columns") and hasattr(X, "iloc"):
            validate_data(self, X, reset=reset, skip_check_array=True)
            self._numbers = []
            if reset:
                self.columns_ = [str(name) for name in X.columns]
            return {str(name): X[name] for name in X.columns}
        X = validate_data(self, X, reset=reset, dtype="numeric", ensure_all_finite="allow-nan")
        if reset:
            self.columns_ = [f"x{at}" for at in range(X.shape[1])]
            self._numbers = self.columns_  # whatever their values look like
        return {name: np.ascontiguousarray(X[:, at], np.float64) for at, name in enumerate(self.columns_)}

    def _predicted(self, X):
        check_is_fitted(self, "model_")
        return self.model_.predict(Data(self._columns(X, reset=False)))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags


def _weights(sample_weight, rows):
    if sample_weight is None:
        return None
    weights = check_array(sample_weight, ensure_2d=False, dtype=np.float64)
    if weights.shape != (rows,):
        raise ValueError(f"sample_weight has the shape {weights.shape}; expected ({rows},)")
    return weights


class EmblemClassifier(ClassifierMixin, _Estimator):
    """Two classes or more.

    >>> import numpy as np
    >>> X = np.random.default_rng(1).normal(size=(200, 2))
    >>> emblem.EmblemClassifier(epochs=5).fit(X, np.where(X[:, 0] > 0, "yes", "no")).classes_.tolist()
    ['no', 'yes']
    """

    def fit(self, X, y, sample_weight=None, eval_set=None):
        columns = self._columns(X, reset=True)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        _check_rows(columns, codes)
        if len(self.classes_) < 2:
            raise ValueError(f"the labels have one class, {self.classes_[0]!r}; expected at least two")
        held_out = None
        if eval_set is not None:
            held_out = self._columns(eval_set[0], reset=False)
            held_out[_LABEL] = np.searchsorted(self.classes_, column_or_1d(eval_set[1])).astype(np.int64)
            if sample_weight is not None:
                held_out[_WEIGHT] = np.ones(len(held_out[_LABEL]))
        return self._fit(columns, codes.astype(np.int64), _weights(sample_weight, len(codes)),
                         "binary" if len(self.classes_) == 2 else "classes", len(self.classes_), held_out)

    def predict_proba(self, X):
        predicted = self._predicted(X).astype(np.float64)
        return np.stack([1 - predicted, predicted], axis=1) if predicted.ndim == 1 else predicted

    def predict(self, X):
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]


class EmblemRegressor(RegressorMixin, _Estimator):
    """Numbers."""

    def fit(self, X, y, sample_weight=None, eval_set=None):
        columns = self._columns(X, reset=True)
        y = column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64), warn=True)
        _check_rows(columns, y)
        held_out = None
        if eval_set is not None:
            held_out = self._columns(eval_set[0], reset=False)
            held_out[_LABEL] = np.asarray(eval_set[1], np.float64)
            if sample_weight is not None:
                held_out[_WEIGHT] = np.ones(len(held_out[_LABEL]))
        return self._fit(columns, y, _weights(sample_weight, len(y)), "number", None, held_out)

    def predict(self, X):
        return self._predicted(X).astype(np.float64)


def _check_rows(columns, y):
    rows = len(next(iter(columns.values())))
    if rows != len(y):
        raise ValueError(f"Found input variables with inconsistent numbers of samples: [{rows}, {len(y)}]")
