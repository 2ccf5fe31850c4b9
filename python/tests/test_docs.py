"""Every block of docs/python.md runs, in its order, as a reader would type it."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("EMBLEM_SOURCE", pathlib.Path(__file__).resolve().parents[2]))

# Commands of a shell, which tests/wheel_slow_test.py runs.
SHELL = re.compile(r"^ *(make|pip|python3?|emblem) ")


def blocks(path):
    """The indented blocks of a document."""
    found, lines = [], []
    for line in [*path.read_text().splitlines(), "end"]:
        if line.startswith("    ") or (not line and lines):
            lines.append(line[4:])
        elif lines:
            found.append("\n".join(lines).strip() + "\n")
            lines = []
    return found


class DocumentTest(unittest.TestCase):
    def test_every_block_runs(self):
        text = [block for block in blocks(SOURCE / "docs/python.md") if not SHELL.match(block)]
        self.assertGreater(len(text), 5)
        program = "\nif True:  # a block of its own\n    pass\n".join(text)
        with tempfile.TemporaryDirectory(prefix="emblem-test-") as folder:
            made = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=300,
                                  env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        self.assertEqual(made.returncode, 0, made.stderr + "\n" + program)


if __name__ == "__main__":
    unittest.main()
