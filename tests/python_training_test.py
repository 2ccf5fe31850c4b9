"""The Python package: what a training reports, how it ends, several ranks."""
from python_package import run_suite, use_package

use_package()
if __name__ == "__main__":
    run_suite("training")
