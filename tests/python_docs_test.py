"""The Python package: the examples in its docstrings and in docs/python.md, and its types."""
import doctest
import importlib
import pkgutil
import unittest

from python_package import run_suite, use_package

use_package()


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
    run_suite("docs", "types", more=[Docstrings])
