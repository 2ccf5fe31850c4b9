"""`emblem report` finds published figures from any working directory."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from harness import EMBLEM, SOURCE

RESULT = """{"schema": 1, "benchmark": "train", "name": "dlrm", "program": "emblem",
 "settings": {"references": ["dlrm-throughput"]}, "metrics": {"samples_per_second": {"value": 1}}}"""
TITLE = "Published DLRM training throughput"


class Report(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        (self.folder / "result.json").write_text(RESULT)

    def tearDown(self):
        shutil.rmtree(self.folder)

    def report(self, *options, program=EMBLEM):
        return subprocess.run([os.path.abspath(program), "report", "result.json", "--out", "report.html", *options],
                              cwd=self.folder, capture_output=True, text=True, timeout=60)

    def test_from_another_folder(self):
        process = self.report()
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn(TITLE, (self.folder / "report.html").read_text())

    def test_a_file_that_is_no_result(self):
        (self.folder / "result.json").write_text("a,b\n1,2\n")
        process = self.report()
        self.assertEqual(process.returncode, 1)
        self.assertEqual(process.stderr, "emblem: result.json is not JSON (from byte 1 on); expected a result that emblem "
                                         "bench writes with --json\n")

    def test_markdown_on_standard_output(self):
        process = self.report("--markdown", "-")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("wrote report.html", process.stderr)
        self.assertNotIn("wrote -", process.stdout + process.stderr)

    def test_by_a_program_outside_the_source_tree(self):
        moved = shutil.copy(EMBLEM, self.folder)
        process = self.report(program=moved)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn('published figures "dlrm-throughput" are skipped', process.stderr)
        self.assertIn("--references", process.stderr)
        self.assertNotIn(TITLE, (self.folder / "report.html").read_text())
        process = self.report("--references", SOURCE / "bench" / "reference", program=moved)
        self.assertEqual(process.stderr, "")
        self.assertIn(TITLE, (self.folder / "report.html").read_text())
        process = self.report("--reference", "frappe-quality", program=moved)
        self.assertEqual(process.returncode, 1)
        self.assertIn("frappe-quality", process.stderr)
        self.assertIn("--references", process.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
