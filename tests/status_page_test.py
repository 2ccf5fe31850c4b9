"""The script of the status page in Node.js: order and stability of its rows, folded errors, the last hour."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from harness import SKIPPED, SOURCE, Server


class StatusPage(unittest.TestCase):
    def test_rows_are_in_natural_order_and_stay(self):
        with tempfile.TemporaryDirectory() as folder:
            server = Server(folder)
            try:
                page = server.get("/")[1].decode()
                self.assertIn("samples", json.loads(server.get("/history.json")[1]))
            finally:
                server.stop()
            script = pathlib.Path(folder) / "page.js"
            script.write_text(page.split("<script>")[1].split("</script>")[0])
            ran = subprocess.run(["node", SOURCE / "tests/status_page.js", script], capture_output=True, text=True,
                                 timeout=120)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertIn("page ok", ran.stdout)


if __name__ == "__main__":
    if not shutil.which("node"):
        print("skipped: needs node")
        sys.exit(SKIPPED)
    unittest.main()
