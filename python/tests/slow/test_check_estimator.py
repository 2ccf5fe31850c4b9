"""scikit-learn's own checks of estimators."""
import unittest
import warnings

from sklearn.utils.estimator_checks import check_estimator

from emblem import EmblemClassifier, EmblemRanker, EmblemRegressor

# Why a check does not hold.
EXCEPTIONS = {
    "check_sample_weight_equivalence_on_dense_data":
        "a row of weight 2 is one step of a batch, a row that is there twice stands in two places of it",
}


class CheckEstimatorTest(unittest.TestCase):
    def check(self, estimator):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = check_estimator(estimator(random_state=1), expected_failed_checks=EXCEPTIONS, on_fail=None, on_skip=None)
        failed = [f"{one['check_name']}: {one['exception']}" for one in found if one["status"] == "failed"]
        self.assertEqual(failed, [])
        self.assertGreater(sum(one["status"] == "passed" for one in found), 35)

    def test_classifier(self):
        self.check(EmblemClassifier)

    def test_regressor(self):
        self.check(EmblemRegressor)

    def test_ranker(self):
        self.check(EmblemRanker)


if __name__ == "__main__":
    unittest.main()
