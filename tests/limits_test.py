"""Under limits on processes or memory the program ends with one line that says what to do: no abort, no hang."""

import os
import subprocess
import sys
import unittest

from harness import EMBLEM, SKIPPED, EmblemTest, limited_user

MIB = 1 << 20


def run_limited(*arguments, **limits):
    return subprocess.run([EMBLEM, *map(str, arguments)], capture_output=True, text=True, timeout=300,
                          preexec_fn=limited_user(**limits))


class Limits(EmblemTest):
    rows = 3000

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.models = cls.folder / "models"
        cls.models.mkdir()
        os.chmod(cls.folder, 0o755)
        os.chmod(cls.models, 0o777)

    def train(self, name, *options, **limits):
        return run_limited("train", "--config", self.config, "--model-dir", self.models / name, *options, **limits)

    def test_it_runs_with_as_many_threads_as_it_needs(self):
        self.succeed(self.train("enough", "--threads", 8, processes=32))

    def test_compute_threads_that_cannot_be_started_are_one_line(self):
        for processes in (1, 2, 3, 5, 7):
            with self.subTest(processes=processes):
                message = self.fail_with(self.train(f"compute-{processes}", "--threads", 8, processes=processes),
                                         "cannot start 8 compute threads: Resource temporarily unavailable; "
                                         "use --threads N with a smaller N or raise ulimit -u")
                self.assertEqual(message.count("\n"), 0)

    def test_loader_threads_that_cannot_be_started_are_one_line(self):
        """How many are left to start depends on threads that libraries have started before."""
        message = self.fail_with(self.train("loader", "--threads", 2, processes=3), "cannot start")
        self.assertRegex(message, r"cannot start [12] loader threads: Resource temporarily unavailable; "
                                  "use a smaller data_config.num_workers or raise ulimit -u")

    def test_one_thread_needs_no_other_for_computing(self):
        self.assertNotIn("compute threads", self.train("one", "--threads", 1, processes=1).stderr)
        self.succeed(run_limited("--version", processes=1))

    def test_too_little_memory_for_threads_is_one_line(self):
        """64 threads reserve 512 MB for their stacks."""
        self.fail_with(self.train("memory", "--threads", 64, address_space=300 * MIB),
                       "cannot start 64 compute threads: Resource temporarily unavailable; "
                       "use --threads N with a smaller N or raise ulimit -u or -v")

    def test_tables_larger_than_the_addresses_that_are_left_are_one_line(self):
        tables = "feature_configs[1].id_feature={feature_name: 'C{1..26}' embedding_dim: 8 num_buckets: 4000000}"
        self.fail_with(self.train("tables", "--threads", 1, "--set", tables, address_space=1024 * MIB),
                       "out of memory: the static tables need", "are available (ulimit -v); the largest is")


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: needs root, to run the program as another user")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
