import pickle
import unittest

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from emblem import EmblemClassifier, EmblemRanker, EmblemRegressor
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
        calibrated = CalibratedClassifierCV(EmblemClassifier(epochs=20, random_state=1), cv=2).fit(X, y)
        self.assertGreater(calibrated.score(X, y), 0.7)

    def test_importances_name_the_columns_that_matter(self):
        draw = np.random.default_rng(1)
        X = draw.normal(size=(1000, 3))
        model = EmblemClassifier(epochs=10, random_state=1).fit(X, (X[:, 1] > 0).astype(int))
        self.assertEqual(model.feature_importances_.shape, (3,))
        self.assertAlmostEqual(model.feature_importances_.sum(), 1)
        self.assertEqual(np.argmax(model.feature_importances_), 1)
        self.assertGreater(model.feature_importances_[1], 0.6)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.feature_importances_, model.feature_importances_)

    def test_weights_and_held_out_rows(self):
        draw = np.random.default_rng(1)
        X = draw.normal(size=(600, 2))
        right = (X[:, 0] > 0).astype(int)
        # Half of the labels are wrong, and their rows have no weight.
        wrong = np.arange(600) % 2 == 1
        model = EmblemClassifier(epochs=20, random_state=1).fit(X, np.where(wrong, 1 - right, right),
                                                                sample_weight=np.where(wrong, 0.0, 1.0))
        self.assertGreater(model.score(X, right), 0.9)
        with self.assertRaisesRegex(ValueError, "label 7"):
            EmblemClassifier(epochs=1).fit(X, right, eval_set=(X[:2], [0, 7]))
        with self.assertRaisesRegex(ValueError, "weights are zero"):
            EmblemClassifier(epochs=1).fit(X, right, sample_weight=np.zeros(600))
        held_out = EmblemRegressor(random_state=1).fit(X, X[:, 0], eval_set=[(X[:50], X[:50, 0])])
        self.assertEqual(held_out.model_.history.evaluations[0]["rows"], 50)

    def rankings(self, queries=60, each=20):
        """Rows whose relevance follows from columns 0 and 1; the level of a query, in column 2, says nothing about its order."""
        draw = np.random.default_rng(2)
        qid = np.repeat(np.arange(queries), each)
        X = draw.normal(size=(queries * each, 4))
        level = draw.normal(size=queries)[qid] * 5
        X[:, 2] = level
        relevance = np.clip(np.round(X[:, 0] + 0.5 * X[:, 1] + 0.1 * draw.normal(size=len(X)) + 1), 0, 4)
        return X, relevance, qid

    def test_a_ranker_orders_the_rows_of_queries(self):
        X, relevance, qid = self.rankings()
        test = qid >= 40
        model = EmblemRanker(random_state=1).fit(X[~test], relevance[~test], qid=qid[~test])
        self.assertGreater(model.score(X[test], relevance[test], qid=qid[test]), 0.9)
        self.assertIn("ndcg@10", model.model_.history.evaluation)
        # In any order of rows, and by the sizes of groups.
        order = np.random.default_rng(1).permutation((~test).sum())
        other = EmblemRanker(random_state=1).fit(X[~test][order], relevance[~test][order], qid=qid[~test][order])
        self.assertGreater(other.score(X[test], relevance[test], group=[20] * 20), 0.9)
        self.assertLess(other.feature_importances_[3], other.feature_importances_[0])

    def test_a_ranker_is_measured_as_scikit_learn_measures(self):
        from sklearn.metrics import ndcg_score
        X, relevance, qid = self.rankings(queries=10)
        model = EmblemRanker(epochs=2, random_state=1, top_k=5).fit(X, relevance, group=[20] * 10)
        expected = np.mean([ndcg_score([relevance[qid == at]], [model.predict(X[qid == at])], k=5) for at in range(10)])
        self.assertAlmostEqual(model.score(X, relevance, qid=qid), expected, places=6)

    def test_a_ranker_with_held_out_queries_frames_and_weights(self):
        import pandas
        X, relevance, qid = self.rankings(queries=20)
        frame = pandas.DataFrame(X, columns=list("abcd"))
        model = EmblemRanker(random_state=1).fit(frame, relevance, qid=qid, sample_weight=np.ones(len(X)),
                                                 eval_set=(frame[:40], relevance[:40]), eval_group=[20, 20])
        self.assertEqual(model.model_.history.evaluations[0]["rows"], 40)
        self.assertGreater(model.score(frame, relevance, qid=qid), 0.8)
        for message, options in [("both given", {"group": [400], "qid": qid}), ("has 399 rows", {"group": [399]}),
                                 ("qid has 3 values", {"qid": [1, 2, 3]})]:
            with self.assertRaisesRegex(ValueError, message):
                EmblemRanker().fit(X, relevance, **options)
        with self.assertRaisesRegex(ValueError, "0 or more"):
            EmblemRanker().fit(X, -relevance - 1, qid=qid)

    def test_bad_input(self):
        with self.assertRaises(ValueError):
            EmblemClassifier().fit([[1.0], [2.0]], [0])
        with self.assertRaises(ValueError):
            EmblemClassifier().fit([[1.0], [2.0]], [0, 0])
        with self.assertRaises(ValueError):
            EmblemRegressor().fit([[1.0], [2.0]], [0.0, np.nan])


if __name__ == "__main__":
    unittest.main()
