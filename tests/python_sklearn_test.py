"""The Python package: estimators of scikit-learn."""
from python_package import run_suite, use_package

use_package()
if __name__ == "__main__":
    run_suite("sklearn")
