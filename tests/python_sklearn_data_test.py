"""The Python package: estimators on frames of all kinds, weights of classes, pickles of GPUs."""
from python_package import run_suite, use_package

use_package()
if __name__ == "__main__":
    run_suite("sklearn_data")
