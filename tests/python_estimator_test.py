"""The Python package: scikit-learn's checks of the estimators."""
import unittest

from python_package import use_package

use_package()
from test_check_estimator import CheckEstimatorTest  # noqa: E402,F401

if __name__ == "__main__":
    unittest.main(verbosity=2)
