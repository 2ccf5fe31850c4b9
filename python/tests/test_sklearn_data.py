"""Estimators on frames of all kinds, with weights of classes; what they say without scikit-learn; pickles of GPUs."""
import io
import pickle
import subprocess
import sys
import unittest
from unittest import mock

import numpy as np
import pandas
import polars
import pyarrow

import emblem
from emblem import EmblemClassifier, EmblemRanker, EmblemRegressor
from folder import Folder


def frame(count=600):
    draw = np.random.default_rng(4)
    code, gone = draw.integers(0, 6, count), draw.random(count) < 0.1
    user = [None if lost else int(one) for one, lost in zip(code, gone)]
    made = pandas.DataFrame({
        "city": [None if lost else f"c{one}" for one, lost in zip(code, gone)], "kind": pandas.Categorical(np.array(["x", "y", "z"])[
            code % 3]), "user": pandas.array(user, "Int64"), "flag": code > 2, "rate": pandas.array(draw.random(count), "Float64"),
        "known": pandas.array([None if lost else bool(one % 2) for one, lost in zip(code, gone)], "boolean"),
        "at": pandas.Timestamp("2026-01-01") + pandas.to_timedelta(code, unit="D"), "price": draw.normal(size=count)})
    return made, np.where((code % 3 == 0) ^ (draw.random(count) < 0.1), "yes", "no")


class FramesTest(unittest.TestCase):
    def test_columns_of_pandas_give_the_same_without_pyarrow(self):
        X, y = frame()
        with mock.patch.object(emblem.data, "_of_columns", side_effect=AssertionError("value by value")):
            found = EmblemClassifier(random_state=1).fit(X, y).predict_proba(X)
        with mock.patch.dict(sys.modules, {"pyarrow": None}):
            np.testing.assert_array_equal(EmblemClassifier(random_state=1).fit(X, y).predict_proba(X), found)
        self.assertGreater(np.mean((found[:, 1] > 0.5) == (y == "yes")), 0.8)

    def test_frames_with_any_index_and_columns_of_several_types(self):
        X, y = frame()
        found = EmblemClassifier(epochs=2, random_state=1).fit(X, y).predict_proba(X)
        odd = X.set_index(pandas.Index([7] * len(X)))
        np.testing.assert_array_equal(EmblemClassifier(epochs=2, random_state=1).fit(odd, y).predict_proba(odd), found)
        mixed = X[["price"]].assign(mixed=pandas.Series(["a", 5] * 300, dtype=object))
        self.assertEqual(EmblemClassifier(epochs=2).fit(mixed, y).predict(mixed).shape, (600,))

    def test_polars_frames_and_arrow_tables_with_text(self):
        X, y = frame()
        X = X[["city", "kind", "user", "price"]]
        found = EmblemClassifier(random_state=1).fit(X, y)
        table = pyarrow.Table.from_pandas(X, preserve_index=False)
        for form in (polars.from_pandas(X), table):
            model = EmblemClassifier(random_state=1).fit(form, y)
            np.testing.assert_array_equal(model.predict_proba(form), found.predict_proba(X))
            self.assertEqual(model.feature_importances_.shape, (4,))
        self.assertEqual(EmblemClassifier(random_state=1).fit(polars.from_pandas(X), y).feature_names_in_.tolist(), list(X))

    def test_numbers_are_categories_where_they_are_named(self):
        codes = np.random.default_rng(1).permutation(np.repeat(np.arange(40), 20)).astype(np.float64)
        X, y = np.stack([codes, np.zeros(800)], axis=1), (codes * 7 % 40 < 20).astype(int)  # no function of the number's size
        for estimator in (EmblemClassifier, EmblemRegressor, EmblemRanker):
            for categories in ([0], ["x0"], [-2]):
                model = estimator(epochs=5, random_state=1, categories=categories).fit(X, y)
                self.assertRegex(model.model_.pipeline.text, r'id_feature \{\s*feature_name: "x0"')
        self.assertNotRegex(EmblemClassifier(epochs=1).fit(X, y).model_.pipeline.text, r'id_feature \{\s*feature_name: "x0"')

    def test_classes_weigh_what_class_weight_says(self):
        X = np.random.default_rng(1).normal(size=(800, 1))
        y = (np.random.default_rng(2).random(800) < 0.1).astype(int)  # nothing to learn but the share

        def mean(**options):
            return EmblemClassifier(epochs=20, random_state=1, **options).fit(X, y).predict_proba(X)[:, 1].mean()
        self.assertLess(mean(), 0.25)
        self.assertTrue(0.4 < mean(class_weight="balanced") < 0.6)
        self.assertGreater(mean(class_weight={0: 0.01, 1: 1.0}), 0.8)

    def test_a_bar_is_shown_where_verbose_asks(self):
        X, y = np.random.default_rng(1).normal(size=(50, 1)), np.arange(50) % 2
        for verbose in (0, 1):
            with mock.patch.object(sys, "stderr", io.StringIO()) as stream:
                EmblemClassifier(epochs=1, verbose=verbose).fit(X, y)
            self.assertEqual("finished after" in stream.getvalue(), bool(verbose))

    def test_warnings_of_init_are_logged_once(self):
        with self.assertLogs("emblem", "WARNING") as lines:
            EmblemRegressor(epochs=1).fit(np.random.default_rng(1).normal(size=(50, 1)), np.ones(50))
        self.assertEqual(len([line for line in lines.output if "sampled rows have the label" in line]), 1, lines.output)


class InstallationTest(Folder):
    def run_python(self, text):
        made = subprocess.run([sys.executable, "-c", f"import sys\nsys.path[:0] = [{str(self.folder)!r}, *{sys.path!r}]\n" + text],
                              capture_output=True, text=True, timeout=120)
        return made.stderr.strip().splitlines()[-1]

    def test_an_old_scikit_learn_is_named(self):
        (self.folder / "sklearn/utils").mkdir(parents=True)
        (self.folder / "sklearn/__init__.py").write_text("__version__ = '1.5.2'")
        for module in ("base", "utils/__init__", "utils/class_weight", "utils/multiclass", "utils/validation"):
            (self.folder / f"sklearn/{module}.py").write_text(
                "BaseEstimator = ClassifierMixin = RegressorMixin = check_random_state = compute_sample_weight = 0\n"
                "check_classification_targets = check_array = check_is_fitted = column_or_1d = 0")
        said = self.run_python("from emblem import EmblemClassifier")
        self.assertRegex(said, "^ImportError: the estimators need scikit-learn 1.6 or newer, but 1.5.2 is installed: pip install")
        said = self.run_python("sys.modules['sklearn'] = None\nfrom emblem import EmblemClassifier")
        self.assertRegex(said, "^ImportError: .* but it is not installed: pip install")

    def test_a_pickle_of_a_gpu_computes_on_a_cpu(self):
        X, y = frame(100)
        model = EmblemClassifier(epochs=1, random_state=1).fit(X, y)
        state = model.model_.__getstate__()
        state["options"]["device"] = "cuda"
        model.model_.__getstate__ = lambda: state
        there = emblem.model._core.Model

        def without_gpu(*arguments, device, **options):
            if device != "cpu":
                raise emblem.Error("device cuda: there is no NVIDIA driver", "invalid_argument")
            return there(*arguments, device=device, **options)
        loaded = emblem.Model.__new__(emblem.Model)
        with mock.patch.object(emblem.model._core, "Model", without_gpu), self.assertWarnsRegex(
                UserWarning, "computes on CPUs here: device cuda: there is no NVIDIA driver"):
            loaded.__setstate__(state)
        np.testing.assert_array_equal(loaded.predict(X), model.model_.predict(X))
        self.assertEqual(pickle.loads(pickle.dumps(loaded))._options["device"], "cpu")


if __name__ == "__main__":
    unittest.main()
