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
        run_cases(self, lambda case: [next(numbers)], steps=50, options=ON_GPU, of_ranks=["--device-transport", "nccl"],
                  at_once=max(2, os.cpu_count() // 3))

    def test_staged_ranks_give_the_bits_of_one(self):
        with Runs(PLAIN) as runs:
            require_same(runs.train(1, *ON_GPU), runs.train(3, "--device-transport", "staged", *ON_GPU))

    def test_any_number_of_ranks_continues_a_checkpoint_of_any_other(self):
        for case in (PLAIN, STATIC):
            resume_everywhere(self, case, COVERING, options=ON_GPU)

    def test_any_number_of_ranks_continues_a_checkpoint_of_columns(self):
        resume_everywhere(self, PLAIN, [(3, 1), (1, 2), (2, 3)], ["columns", "default"], options=ON_GPU)
        resume_everywhere(self, STATIC | {"sparse": "adagrad"}, [(2, 4), (4, 3)], ["columns", "pooled"], options=ON_GPU)

    def test_staged_ranks_pool_at_owners(self):
        with Runs(PLAIN) as runs:
            one = runs.train(1, *ON_GPU)
            for kind in ("columns", "pooled"):
                require_same(one, runs.train(3, *runs.plan(kind, latest(one), 3), "--device-transport", "staged", *ON_GPU,
                                             name=kind))

    def test_ranks_on_cpus_continue_a_checkpoint_of_gpus_and_the_reverse(self):
        with Runs(STATIC, rows=640, epochs=2) as runs:
            one = runs.train(1, *DETERMINISTIC, name="whole")
            whole = losses(one)
            for name, first, then in (("to-cpu", ON_GPU, DETERMINISTIC), ("to-gpu", DETERMINISTIC, ON_GPU)):
                runs.train(4, *first, "--max-steps", 16, name=name)
                model = runs.train(2, *then, "--resume", name=name)
                self.assertEqual(latest(model).name, latest(one).name)
                self.assertEqual(losses(model).keys(), whole.keys())
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
