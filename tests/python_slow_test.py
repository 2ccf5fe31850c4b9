"""Tests of the Python package that take minutes: those of python/tests/slow, or the ones that are named."""
import sys

from python_package import TESTS, run_suite, use_package

use_package()
sys.path.insert(0, str(TESTS / "slow"))
if __name__ == "__main__":
    run_suite(*(sys.argv[1:] or ("misuse", "ray")))
