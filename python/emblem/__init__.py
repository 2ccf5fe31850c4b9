"""Emblem trains and serves recommenders whose embedding tables grow.

>>> import emblem
>>> rows = {"user": ["a", "b", "c", "d"] * 100, "price": [1.0, 2.0, 3.0, 4.0] * 100, "click": [0, 1, 0, 1] * 100}
>>> model = emblem.train(rows, label="click", progress=False)
>>> float(model.predict({"user": ["b"], "price": [2.0]})[0]) > 0.5
True
"""

from typing import TYPE_CHECKING, Any

from emblem._runtime import Error, __version__, set_log_level
from emblem.data import Data
from emblem.index import Index
from emblem.launching import launch
from emblem.model import Evaluation, Model, load
from emblem.pipeline import Pipeline, init
from emblem.predictor import Predictor
from emblem.serving import Client, serve
from emblem.table import Table
from emblem.training import TrainingResult, train
from emblem.validation import cv
from emblem.versions import show_versions

__all__ = ["Client", "Data", "Error", "Evaluation", "Index", "Model", "Pipeline", "Predictor", "Table", "TrainingResult", "cv", "init",
           "launch", "load", "serve", "set_log_level", "show_versions", "train"]


if TYPE_CHECKING:
    from emblem.sklearn import EmblemClassifier as EmblemClassifier
    from emblem.sklearn import EmblemRanker as EmblemRanker
    from emblem.sklearn import EmblemRegressor as EmblemRegressor


def __getattr__(name: str) -> Any:
    # scikit-learn is imported only where its estimators are asked for.
    if name in ("EmblemClassifier", "EmblemRanker", "EmblemRegressor"):
        from emblem import sklearn
        return getattr(sklearn, name)
    raise AttributeError(f"module 'emblem' has no attribute '{name}'")
