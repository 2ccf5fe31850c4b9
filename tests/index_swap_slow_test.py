"""tests/index_swap_test.py for ten minutes (EMBLEM_SWAP_SECONDS), at a low rate."""

import os
import unittest

import index_swap_test


class SwapForMinutes(index_swap_test.Swap):
    seconds = float(os.environ.get("EMBLEM_SWAP_SECONDS", 600))
    pause, pause_of_swaps = 0.05, 10.0


if __name__ == "__main__":
    unittest.main()
