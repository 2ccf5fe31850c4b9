"""Runs every n-th test of a script, so that ctest can run a script that takes long as several tests at the same time:
python3 part.py SCRIPT NUMBER COUNT"""

import os
import runpy
import sys
import unittest


def tests_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_of(test)
        else:
            yield test


def run_part(**_):
    """In place of unittest.main(), which the script calls."""
    tests = list(tests_of(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])))
    part = unittest.TestSuite(tests[number - 1::count])
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(part).wasSuccessful())


script, number, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
sys.argv = [script]
sys.path[0] = os.path.dirname(os.path.abspath(script))
unittest.main = run_part
runpy.run_path(script, run_name="__main__")
