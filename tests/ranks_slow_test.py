"""Trainings on several ranks: all cases on 1, 2, 3, 4 and 8 ranks with 200 steps, and checkpoints from each to each."""

import itertools
import unittest

from ranks_cases import run_cases
from ranks_checkpoints_test import NUMBERS, PLAIN, STATIC, resume_everywhere


class Ranks(unittest.TestCase):
    def test_any_number_of_ranks_gives_the_bits_of_one(self):
        run_cases(self, lambda case: NUMBERS[1:], steps=200)

    def test_any_number_of_ranks_continues_a_checkpoint_of_any_other(self):
        for case in (PLAIN, STATIC):
            resume_everywhere(self, case, itertools.product(NUMBERS, NUMBERS))


if __name__ == "__main__":
    unittest.main()
