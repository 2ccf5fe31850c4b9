"""The Python package as it is built: its tests, and the examples in its docstrings."""
import doctest
import importlib
import os
import pathlib
import pkgutil
import sys
import unittest

from harness import SOURCE, use_test_clients

PACKAGE = pathlib.Path(os.environ["EMBLEM"]).parent / "python"
if not (PACKAGE / "emblem").is_dir():
    print("skipped: this build has no Python package (EMBLEM_PYTHON)")
    sys.exit(77)
use_test_clients("numpy", "pyarrow", "pandas", "polars", "duckdb", "sklearn", "nanobind_backend")
sys.path[:0] = [str(PACKAGE), str(SOURCE / "python/tests")]


class Docstrings(unittest.TestCase):
    def test_examples_run(self):
        import emblem
        tried = 0
        for module in [emblem] + [importlib.import_module(f"emblem.{one.name}") for one in pkgutil.iter_modules(emblem.__path__)]:
            found = doctest.testmod(module, extraglobs={"emblem": emblem})
            self.assertEqual(found.failed, 0, module.__name__)
            tried += found.attempted
        self.assertGreater(tried, 5)


if __name__ == "__main__":
    suite = unittest.TestLoader().discover(str(SOURCE / "python/tests"))
    suite.addTests(unittest.TestLoader().loadTestsFromTestCase(Docstrings))
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
