"""Trainings on several ranks: all cases on 1, 2, 3, 4 and 8 ranks with 200 steps, and checkpoints from each to each, on
GPUs, too (skipped without one; with EMBLEM_REQUIRE_CUDA it fails instead)."""

import itertools
import os
import unittest

from harness import require_gpu
from ranks_cases import PLANS, run_cases
from ranks_checkpoints_test import NUMBERS, PLAIN, STATIC, resume_everywhere
from ranks_gpu_test import ON_GPU


def resume_from_each_to_each(test, **settings):
    resume_everywhere(test, PLAIN, itertools.product(NUMBERS, NUMBERS), PLANS, **settings)
    resume_everywhere(test, STATIC, itertools.product(NUMBERS, NUMBERS), **settings)


class Ranks(unittest.TestCase):
    def test_any_number_of_ranks_gives_the_bits_of_one(self):
        run_cases(self, lambda case: NUMBERS[1:], steps=200)

    def test_any_number_of_ranks_continues_a_checkpoint_of_any_other(self):
        resume_from_each_to_each(self)


class RanksOnGpu(unittest.TestCase):
    def test_any_number_of_ranks_continues_a_checkpoint_of_any_other(self):
        require_gpu()
        resume_from_each_to_each(self, options=ON_GPU, at_once=max(1, os.cpu_count() // 4))


if __name__ == "__main__":
    unittest.main()
