"""Twenty suites of the same program against its own baseline: none may be WORSE.

EMBLEM_TRIALS (20) says how many."""

import os
import unittest

from harness import EmblemTest, run

TRIALS = int(os.environ.get("EMBLEM_TRIALS", "20"))


class RepeatedSuite(EmblemTest):
    rows = 20000

    def suite(self, out, *options):
        return run("bench", "suite", "--config", self.config, "--baseline", self.folder / "baseline.json", "--runs", 3,
                   "--out", self.folder / out, *options)

    def test_the_same_program_is_never_worse_than_itself(self):
        self.succeed(self.suite("baseline", "--update-baseline"))
        worse = []
        for trial in range(TRIALS):
            judged = self.suite(f"trial{trial}")
            print(judged.stdout.splitlines()[0], flush=True)
            if judged.returncode != 0:
                worse.append(judged.stdout)
        self.assertEqual(worse, [])


if __name__ == "__main__":
    unittest.main()
