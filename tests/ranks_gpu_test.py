"""Trainings on several ranks that share the GPUs of this machine: all cases give the bits of one rank.

Skipped without a GPU; with EMBLEM_REQUIRE_CUDA it fails instead."""

import itertools
import os
import unittest

from harness import require_gpu
from ranks_cases import SHARDS, Runs, latest, losses, require_same, run_cases
from ranks_checkpoints_test import COVERING, PLAIN, STATIC, resume_everywhere

DETERMINISTIC = ["--set", "train_config.deterministic=true"]
ON_GPU = ["--device", "cuda", *DETERMINISTIC]


class RanksGpu(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        require_gpu()

    def test_any_number_of_ranks_gives_the_bits_of_one(self):
        numbers = itertools.cycle((2, 3, 4, SHARDS))
        run_cases(self, lambda case: [next(numbers)], steps=50, options=ON_GPU, at_once=max(2, os.cpu_count() // 3),
                  replaced={"columns": "mixed", "pooled": "one rank"})

    def test_staged_ranks_give_the_bits_of_one(self):
        with Runs(PLAIN) as runs:
            require_same(runs.train(1, *ON_GPU), runs.train(3, "--device-transport", "staged", *ON_GPU))

    def test_any_number_of_ranks_continues_a_checkpoint_of_any_other(self):
        for case in (PLAIN, STATIC):
            resume_everywhere(self, case, COVERING, options=ON_GPU)

    def test_ranks_on_cpus_continue_a_checkpoint_of_gpus_and_the_reverse(self):
        with Runs(STATIC, rows=640, epochs=2) as runs:
            whole = losses(runs.train(1, *DETERMINISTIC, name="whole"))
            for name, first, then in (("to-cpu", ON_GPU, DETERMINISTIC), ("to-gpu", DETERMINISTIC, ON_GPU)):
                runs.train(4, *first, "--max-steps", 12, name=name)
                model = runs.train(2, *then, "--resume", name=name)
                self.assertTrue(latest(model).name.endswith("-20"))
                for step, loss in losses(model).items():
                    self.assertAlmostEqual(loss, whole[step], delta=1e-4, msg=f"{name}, step {step}")

    def test_fast_mode_agrees(self):
        with Runs(PLAIN) as runs:
            one = losses(runs.train(1, *ON_GPU))
            several = losses(runs.train(4, "--device", "cuda"))
            self.assertEqual(one.keys(), several.keys())
            for step, loss in several.items():
                self.assertAlmostEqual(loss, one[step], delta=1e-4, msg=f"step {step}")


if __name__ == "__main__":
    unittest.main()
