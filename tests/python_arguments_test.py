"""The Python package: arguments of a training, metrics of one's own, cross-validation."""
from python_package import run_suite, use_package

use_package()
if __name__ == "__main__":
    run_suite("arguments", "metrics", "validation")
