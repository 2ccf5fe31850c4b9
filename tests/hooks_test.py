"""Hooks that only tests need are not part of a build without tests."""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from harness import SKIPPED, SOURCE

HOOK = re.compile(r'getenv\("EMBLEM_TEST_')


class TestHooks(unittest.TestCase):
    def test_variables_of_tests_are_read_only_where_hooks_are_compiled(self):
        readers = [path for path in SOURCE.glob("src/**/*.cc")
                   if not path.name.endswith("_test.cc") and HOOK.search(path.read_text())]
        self.assertGreaterEqual(len(readers), 2)
        for path in readers:
            code = path.read_text()
            guard = code.find("#if defined(EMBLEM_TEST_HOOKS)")
            self.assertTrue(0 <= guard < HOOK.search(code).start(), f"{path} reads a variable of tests outside of "
                            "#if defined(EMBLEM_TEST_HOOKS)")

    def commands(self, tests):
        with tempfile.TemporaryDirectory() as build:
            configured = subprocess.run(["cmake", "-S", SOURCE, "-B", build, f"-DEMBLEM_TESTS={tests}", "-DEMBLEM_CUDA=OFF"],
                                        capture_output=True, text=True, timeout=300)
            self.assertEqual(configured.returncode, 0, configured.stderr)
            return json.loads(pathlib.Path(build, "compile_commands.json").read_text())

    def test_hooks_are_compiled_with_tests_alone(self):
        self.assertTrue(all("EMBLEM_TEST_HOOKS" in entry["command"] for entry in self.commands("ON")))
        self.assertFalse(any("EMBLEM_TEST_HOOKS" in entry["command"] for entry in self.commands("OFF")))


if __name__ == "__main__":
    if shutil.which("cmake") is None:
        print("skipped: needs cmake")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
