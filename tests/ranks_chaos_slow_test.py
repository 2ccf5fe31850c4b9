"""Trainings on a random number of ranks with a random fault at a random moment: none hangs. Each ends with the bits of an
undisturbed run, or all ranks end with a line in time, and --resume reaches these bits."""

import os
import signal
import sys
import time
import unittest
from random import Random

from ranks import RankTraining

RUNS = int(os.environ.get("EMBLEM_CHAOS_RUNS", "200"))
SEED = int(os.environ.get("EMBLEM_CHAOS_SEED", "1"))
WITHIN = float(os.environ.get("EMBLEM_CHAOS_SECONDS", "1"))  # of a start comes the fault
OPTIONS = os.environ.get("EMBLEM_CHAOS_OPTIONS", "").split()  # of emblem train: --device cuda
END_SECONDS = 20  # from a fault to the end of all; 5 without others on the machine
SILENT_SECONDS = 40  # the same of a process that stands still
FAULTS = ("none", "kill", "kill", "interrupt", "terminate", "stop", "kill-two")


class Chaos(RankTraining):

    rows = 2000

    def test_random_faults(self):
        counts, longest = {}, 0.0
        for number in range(RUNS):
            chance = Random(SEED * 1000003 + number)
            ranks, fault = chance.randint(1, 5), chance.choice(FAULTS)
            if fault == "stop" and chance.random() < 0.7:
                fault = "kill"  # silence takes long
            delay = WITHIN * chance.choice((0, 0.1, 0.3, 0.6, 1)) * chance.random()
            victims = chance.sample(range(ranks), min(ranks, 2 if fault == "kill-two" else 1))
            with self.subTest(run=number, ranks=ranks, fault=fault, victims=victims, delay=delay):
                result, seconds = self.run_once(number, ranks, fault, victims, delay)
                counts[fault, result] = counts.get((fault, result), 0) + 1
                if fault != "stop":
                    longest = max(longest, seconds)
        print(f"{RUNS} runs: {counts}; most seconds from a fault to the end of all: {longest:.1f}", file=sys.stderr)

    def run_once(self, number, count, fault, victims, delay):
        """What happened, and the seconds from the fault to the end of all ranks."""
        model = self.folder / f"run-{number}"
        ranks = self.start(count, model, "--join-seconds", "4", *OPTIONS)
        time.sleep(delay)  # any moment is as good
        since = time.monotonic()
        for victim in victims:
            process = ranks[victim].process
            if fault != "none" and process.poll() is None:
                process.send_signal({"interrupt": signal.SIGINT, "terminate": signal.SIGTERM,
                                     "stop": signal.SIGSTOP}.get(fault, signal.SIGKILL))
        others = [rank for index, rank in enumerate(ranks) if index not in victims or fault == "none"]
        statuses = [rank.wait() for rank in others]
        if fault == "stop":
            ranks[victims[0]].process.send_signal(signal.SIGCONT)
        for victim in victims:
            ranks[victim].wait()
        took = max([rank.ended for rank in ranks]) - since
        if fault != "none":
            self.assertLess(took, SILENT_SECONDS if fault == "stop" else END_SECONDS + 4)
        for rank, status in zip(others, statuses):
            self.assertIn(status, (0, 1, 130, 143), rank.errors)
            if status == 1:
                self.assertRegex(rank.errors[-1], r"^emblem: .*rank \d")
        finished = all(rank.process.returncode == 0 for rank in ranks)
        if fault == "none":
            self.assertTrue(finished, [rank.errors for rank in ranks])
        if not finished:
            self.expect_whole(model)
            if number % 5 == 0:
                self.go_on(model, count)
                return "ended, resumed", took
            return "ended", took
        self.assertEqual(self.learned(model), self.undisturbed(*OPTIONS))
        return "finished", took

    def go_on(self, model, count):
        for rank in self.start(count, model, "--resume", *OPTIONS):
            self.assertEqual(rank.wait(), 0, rank.errors)
        self.assertEqual(self.learned(model), self.undisturbed(*OPTIONS))


if __name__ == "__main__":
    unittest.main()
