"""Runs tests of the Python package, as it is built."""
import os
import pathlib
import sys
import unittest

from harness import SKIPPED, SOURCE, use_arrow, use_test_clients

TESTS = SOURCE / "python/tests"


def use_package():
    """Makes `import emblem` find it; ends this test where the build has none, or Python not the packages that it needs."""
    package = pathlib.Path(os.environ["EMBLEM"]).parent / "python"
    if not (package / "emblem").is_dir():
        print("skipped: this build has no Python package (EMBLEM_PYTHON)")
        sys.exit(SKIPPED)
    use_arrow()
    use_test_clients("numpy", "pyarrow", "pandas", "polars", "duckdb", "sklearn", "nanobind_backend", "matplotlib", "mypy")
    sys.path[:0] = [str(package), str(TESTS)]


def run_suite(*names, more=()):
    """The tests of python/tests/test_NAME.py, and `more` classes of tests."""
    load = unittest.TestLoader()
    suite = unittest.TestSuite([*(load.loadTestsFromName(f"test_{name}") for name in names),
                                *(load.loadTestsFromTestCase(one) for one in more)])
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
