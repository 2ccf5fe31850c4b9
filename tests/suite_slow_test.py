"""Suites that compare speed: a program is never WORSE than its own baseline, and a slowed program always is.

EMBLEM_TRIALS (20): number of suites of the same program."""

import os
import unittest

from harness import EmblemTest, run

TRIALS = int(os.environ.get("EMBLEM_TRIALS", "20"))


class RepeatedSuite(EmblemTest):
    rows = 20000

    def suite(self, out, *options):
        return self.suite_with({}, out, *options)

    def suite_with(self, environment, out, *options):
        return run("bench", "suite", "--config", self.config, "--baseline", self.folder / "baseline.json", "--runs", 3,
                   "--out", self.folder / out, *options, env={**os.environ, **environment})

    def test_the_same_program_is_never_worse_than_itself(self):
        self.succeed(self.suite("baseline", "--update-baseline"))
        worse = []
        for trial in range(TRIALS):
            judged = self.suite(f"trial{trial}")
            print(judged.stdout.splitlines()[0], flush=True)
            if judged.returncode != 0:
                worse.append(judged.stdout)
        self.assertEqual(worse, [])

    def test_a_slow_step_is_worse(self):
        self.succeed(self.suite("fast", "--update-baseline"))
        slowed = self.suite_with({"EMBLEM_TEST_STEP_SLOWDOWN": "1500"}, "slowed")
        self.assertEqual(slowed.returncode, 1, slowed.stdout)
        self.assertIn("WORSE", slowed.stdout)


if __name__ == "__main__":
    unittest.main()
