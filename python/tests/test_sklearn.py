import pickle
import unittest

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from emblem import EmblemClassifier, EmblemRegressor
import rows


class EstimatorsTest(unittest.TestCase):
    def test_two_classes(self):
        X, y = load_breast_cancer(return_X_y=True)
        X, X_test, y, y_test = train_test_split(X, y, random_state=0)
        names = np.array(["benign", "malign"])
        model = EmblemClassifier(random_state=1).fit(X, names[y])
        self.assertEqual(model.classes_.tolist(), ["benign", "malign"])
        self.assertGreater(model.score(X_test, names[y_test]), 0.9)
        np.testing.assert_allclose(model.predict_proba(X_test).sum(axis=1), 1, rtol=1e-6)
        copy = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(copy.predict_proba(X_test), model.predict_proba(X_test))
        again = clone(model).fit(X, names[y])
        np.testing.assert_array_equal(again.predict_proba(X_test), model.predict_proba(X_test))

    def test_several_classes(self):
        X, y = load_iris(return_X_y=True)
        model = EmblemClassifier(random_state=1).fit(X, y, eval_set=(X, y))
        self.assertEqual(model.predict_proba(X).shape, (150, 3))
        self.assertGreater(model.score(X, y), 0.9)

    def test_numbers(self):
        X, y = load_diabetes(return_X_y=True)
        model = EmblemRegressor(random_state=1).fit(X, y, sample_weight=np.ones(len(y)))
        self.assertGreater(model.score(X, y), 0.3)

    def test_frames_keep_their_categories(self):
        import pandas
        frame = pandas.DataFrame(rows.make())
        model = EmblemClassifier(random_state=1).fit(frame.drop(columns="click"), frame["click"])
        self.assertEqual(model.feature_names_in_.tolist(), ["user", "price", "city", "count"])
        self.assertGreater(model.score(frame.drop(columns="click"), frame["click"]), 0.65)
        with self.assertRaises(ValueError):
            model.predict(frame[["user", "city"]])

    def test_pipelines_searches_and_cross_validation(self):
        X, y = load_iris(return_X_y=True)
        made = make_pipeline(StandardScaler(), EmblemClassifier(epochs=20, random_state=1))
        self.assertGreater(cross_val_score(made, X, y, cv=2).mean(), 0.7)
        search = GridSearchCV(EmblemClassifier(random_state=1), {"epochs": [1, 20]}, cv=2).fit(X, y)
        self.assertEqual(search.best_params_, {"epochs": 20})

    def test_bad_input(self):
        with self.assertRaises(ValueError):
            EmblemClassifier().fit([[1.0], [2.0]], [0])
        with self.assertRaises(ValueError):
            EmblemClassifier().fit([[1.0], [2.0]], [0, 0])
        with self.assertRaises(ValueError):
            EmblemRegressor().fit([[1.0], [2.0]], [0.0, np.nan])


if __name__ == "__main__":
    unittest.main()
