"""The Python package: the search for settings."""
from python_package import run_suite, use_package

use_package()
if __name__ == "__main__":
    run_suite("tuning")
