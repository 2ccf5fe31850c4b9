"""scikit-learn's own checks of estimators, a test for each of them and of our estimators."""
import unittest
import warnings

from sklearn.utils.estimator_checks import estimator_checks_generator

from emblem import EmblemClassifier, EmblemRanker, EmblemRegressor

# Why a check does not hold; docs/python.md lists them.
EXCEPTIONS = {
    "check_sample_weight_equivalence_on_dense_data":
        "a row of weight 2 is one step of a batch, a row that is there twice stands in two places of it",
}


class CheckEstimatorTest(unittest.TestCase):
    def run_check(self, estimator, check):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                check(estimator)
            except AssertionError:
                reason = EXCEPTIONS.get(check.func.__name__)
                if reason is None:
                    raise
                self.skipTest(reason)


def add_tests(kind):
    for number, (estimator, check) in enumerate(estimator_checks_generator(kind(random_state=1))):
        name = f"test_{kind.__name__}_{number:02d}_{check.func.__name__}"
        setattr(CheckEstimatorTest, name, lambda self, estimator=estimator, check=check: self.run_check(estimator, check))


for one in (EmblemClassifier, EmblemRegressor, EmblemRanker):
    add_tests(one)

if __name__ == "__main__":
    unittest.main()
