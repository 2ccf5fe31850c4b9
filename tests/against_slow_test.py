"""How often --against is right while another process keeps one core busy: no significant difference between equal programs,
and a significant one where steps take 5 % longer.

EMBLEM_TRIALS (20): number of comparisons of each kind."""

import json
import math
import os
import subprocess
import unittest

from harness import EMBLEM, EmblemTest, run

TRIALS = int(os.environ.get("EMBLEM_TRIALS", "20"))
PAIRS = os.environ.get("EMBLEM_PAIRS", "20")
METRIC = "step_seconds_p10"  # the fastest steps are the least disturbed ones


class Against(EmblemTest):
    rows = 20000

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.slow = cls.folder / "slow_emblem"
        cls.slow.write_text(f'#!/bin/sh\nEMBLEM_TEST_STEP_SLOWDOWN=5 exec "{os.path.abspath(EMBLEM)}" "$@"\n')
        cls.same = cls.folder / "same_emblem"
        cls.same.write_text(f'#!/bin/sh\nexec "{os.path.abspath(EMBLEM)}" "$@"\n')
        for script in (cls.slow, cls.same):
            script.chmod(0o755)
        cls.neighbour = subprocess.Popen(["timeout", "7200", "sh", "-c", "while :; do :; done"])

    @classmethod
    def tearDownClass(cls):
        cls.neighbour.terminate()
        cls.neighbour.wait()
        super().tearDownClass()

    def interval(self, other):
        out = self.folder / "ratio.json"
        # Steps of less than a millisecond: many of them run undisturbed.
        compared = run("bench", "train", "--config", self.config, "--set", "data_config.batch_size=64", "--threads", 1,
                       "--seconds", "0.1", "--steps", 100, "--warmup", 10, "--against", other, "--pairs", PAIRS, "--json",
                       out, timeout=1200)
        self.assertIn(compared.returncode, (0, 1), compared.stderr)  # 1: found to be worse
        low, high = json.loads(out.read_text())[2]["metrics"][METRIC]["interval"]
        print(f"{other.name}: {low:.4f} to {high:.4f}", flush=True)
        return low, high

    def test_the_same_program_is_not_significantly_different(self):
        covered = sum(low <= 1 <= high for low, high in (self.interval(self.same) for _ in range(TRIALS)))
        print(f"the interval contains 1 in {covered} of {TRIALS}")
        self.assertGreaterEqual(covered, math.floor(0.9 * TRIALS))

    def test_steps_that_take_five_percent_longer_are_detected(self):
        seen = sum(low > 1 for low, _ in (self.interval(self.slow) for _ in range(TRIALS)))
        print(f"5 % are detected in {seen} of {TRIALS}")
        self.assertGreaterEqual(seen, math.floor(0.8 * TRIALS))


if __name__ == "__main__":
    unittest.main()
