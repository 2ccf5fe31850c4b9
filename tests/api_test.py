"""The public C++ headers: an example that uses them alone trains, evaluates and predicts."""
import os
import pathlib
import subprocess
import tempfile
import unittest

from harness import SOURCE

EXAMPLE = pathlib.Path(os.environ["EMBLEM"]).parent / "example_train"


class PublicHeaders(unittest.TestCase):
    def test_the_example_runs(self):
        with tempfile.TemporaryDirectory(prefix="emblem-test-") as folder:
            made = subprocess.run([EXAMPLE, folder + "/model"], capture_output=True, text=True, timeout=300)
            self.assertEqual(made.returncode, 0, made.stderr)
            self.assertIn("auc", made.stdout)
            again = subprocess.run([EXAMPLE, folder + "/model"], capture_output=True, text=True, timeout=300)
            self.assertEqual(again.returncode, 1)
            self.assertIn("exists already", again.stderr)
            self.assertEqual(again.stderr.count("\n"), 1)

    def test_headers_include_the_standard_library_alone(self):
        for header in (SOURCE / "include/emblem").glob("*.h"):
            for line in header.read_text().splitlines():
                if line.startswith("#include") and '"' in line:
                    self.assertIn('"emblem/', line, header.name)

    def test_there_are_at_most_12_headers(self):
        self.assertLessEqual(len(list((SOURCE / "include/emblem").glob("*.h"))), 12)


if __name__ == "__main__":
    unittest.main()
