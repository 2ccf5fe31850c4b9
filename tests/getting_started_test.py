"""The commands of docs/getting_started.md, as they are written there."""

import http.client
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

from harness import SOURCE, Server, run

TEXT = (SOURCE / "docs/getting_started.md").read_text()


def command(start):
    """The words of the command that begins with `start`."""
    line = next(line for line in TEXT.splitlines() if line.startswith(f"    {start}"))
    return shlex.split(line)[1:]


class GettingStarted(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def succeed(self, *words):
        done = run(*words, cwd=self.folder)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stderr}")
        return done.stdout

    def test_from_a_file_to_a_served_model(self):
        script = re.search(r"<<'END'\n(.*?)    END\n", TEXT, re.DOTALL).group(1)
        subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=self.folder, check=True)
        table = self.succeed(*command("emblem init clicks.csv"))
        shown = re.search(r"    column  .*?\n\n", TEXT, re.DOTALL).group(0)
        self.assertIn(textwrap.dedent(shown), table)
        self.assertIn("stopped early", self.succeed(*command("emblem train --config pipeline.config")))
        self.assertIn("auc", self.succeed(*command("emblem eval --checkpoint")))
        self.succeed(*command("emblem predict --checkpoint"))
        first, second = (self.folder / "predictions.csv").read_text().splitlines()[:2]
        self.assertEqual(first, "user_id,city,prediction")
        self.assertTrue(second.startswith("u668,Rome,0."), second)
        self.succeed(*command("emblem export --checkpoint"))
        request = re.search(r"infer -d '(.*?)'\n", TEXT, re.DOTALL).group(1)
        server = Server(self.folder / "models")
        try:
            connection = http.client.HTTPConnection(server.http, timeout=120)
            connection.request("POST", "/v2/models/clicks/infer", request)
            answer = json.loads(connection.getresponse().read())
            connection.close()
        finally:
            server.stop()
        self.assertIn("outputs", answer, answer)
        self.assertEqual([output["name"] for output in answer["outputs"]], ["probability"])


if __name__ == "__main__":
    unittest.main()
