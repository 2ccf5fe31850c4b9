"""The blocks of the documents that take minutes, in order: README.md and docs/serving.md share their model; docs/retrieval.md."""

import pathlib
import tempfile
import unittest

from docs_blocks import blocks, run, run_document
from harness import SOURCE, use_test_clients

use_test_clients("tritonclient", "numpy")


class Documents(unittest.TestCase):
    def test_readme_and_serving(self):
        selected = [block for name in ("README.md", "docs/serving.md") for block in blocks(SOURCE / name)
                    if block.status == "run: slow"]
        with tempfile.TemporaryDirectory(prefix="emblem-docs-") as folder:
            done = run(selected, pathlib.Path(folder), 1500)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("probability", done.stdout)
        self.assertIn("emblem_", done.stdout)

    def test_retrieval(self):
        self.assertIn('"ids"', run_document(self, "docs/retrieval.md", slow=True))


if __name__ == "__main__":
    unittest.main()
