"""Ranks that exchange GPU memory, as threads and as processes that may share one GPU: NCCL and staging buffers.

Skipped without a GPU; with EMBLEM_REQUIRE_CUDA it fails instead."""

import json
import os
import pathlib
import signal
import tempfile
import time
import unittest

from harness import CLEAN, EMBLEM, becomes_true, require_gpu, run
from ranks import Rank, free_port, torchrun_variables

SHORT = ["--seconds", "0.05", "--sizes", "8,100000"]
ENDLESS = ["--seconds", "3600", "--sizes", "65536", "--collectives", "exchange"]


class CommGpuTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        require_gpu()

    def setUp(self):
        self.ranks = []

    def tearDown(self):
        for rank in self.ranks:
            rank.kill()

    def start_job(self, size, *command, **kwargs):
        port = free_port()
        self.ranks = [Rank(torchrun_variables(rank, size, port), *command, **kwargs) for rank in range(size)]
        return self.ranks

    def test_the_bodies_of_all_transports_over_nccl(self):
        program = pathlib.Path(EMBLEM).resolve().parent / "comm_test"
        if not program.exists():
            self.skipTest("comm_test was not built")
        for size in (1, 2, 3, 4):
            with self.subTest(size=size):
                ranks = self.start_job(size, "--gtest_filter=*CommunicatorTest*/nccl_cuda", "--gtest_color=no",
                                       program=[program])
                for rank in ranks:
                    self.assertEqual(rank.wait(), 0, rank.output + "\n".join(rank.errors))
                    self.assertIn("Running 16 tests", rank.output)

    def test_bench_comm_measures_all_transports(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "comm.json")
            done = run("bench", "comm", "--device", "cuda", "--ranks", "1,2", *SHORT, "--json", path, env=CLEAN)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path) as file:
                results = {result["name"]: result for result in json.load(file)}
        for transport in ("threads", "staged", "nccl"):
            for collective in ("exchange-8", "gather_all-100000", "broadcast-8", "barrier"):
                result = results[f"{transport}-cuda-2-{collective}"]
                self.assertEqual(result["settings"]["device"], "cuda")
                self.assertGreater(result["metrics"]["host_seconds"]["value"], 0)

    def test_ranks_of_emblem_launch(self):
        for transport in ("nccl", "staged"):
            with self.subTest(transport=transport):
                command = ["bench", "comm", "--device", "cuda", "--transport", transport, *SHORT]
                done = run("launch", "--ranks", "3", "--", *command, env=CLEAN)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(f"{transport}, GPU memory, 3 ranks", done.stdout)

    def test_ranks_that_share_a_gpu_use_staging_buffers(self):
        done = run("launch", "--ranks", "2", "--", "bench", "comm", "--device", "cuda", *SHORT,
                   env={**CLEAN, "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("staged, GPU memory, 2 ranks", done.stdout)
        self.assertIn("2 ranks share a GPU with another: GPU memory is exchanged through host memory", done.stderr)

    def test_a_killed_rank_ends_all(self):
        """Also those whose GPU waits for it."""
        for transport in ("nccl", "staged"):
            for pause in (0, 1, 4):
                with self.subTest(transport=transport, pause=pause):
                    ranks = self.start_job(3, "bench", "comm", "--device", "cuda", "--transport", transport, *ENDLESS)
                    # Both are loaded by ranks that have joined; libcudart belongs to the program.
                    loaded = "libnccl.so" if transport == "nccl" else "libcuda.so"
                    self.assertTrue(becomes_true(lambda: all(self.has_loaded(rank, loaded) for rank in ranks)))
                    time.sleep(pause)  # any moment is as good: none is waited for
                    ranks[1].process.send_signal(signal.SIGKILL)
                    start = time.monotonic()
                    for rank in (ranks[0], ranks[2]):
                        self.assertEqual(rank.wait(), 1, rank.errors)
                        self.assertRegex(rank.errors[-1], r"rank 1 \(host .+\): connection closed")
                        self.assertLess(rank.ended - start, 30)

    @staticmethod
    def has_loaded(rank, library):
        try:
            return library in pathlib.Path(f"/proc/{rank.process.pid}/maps").read_text()
        except OSError:
            return False

    def test_a_rank_without_nccl_is_named(self):
        """With --transport nccl; otherwise all ranks use staging buffers."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        (pathlib.Path(folder.name) / "libnccl.so.2").write_text("not a library" * 1000)
        before = os.environ.get("LD_LIBRARY_PATH")
        without = {"LD_LIBRARY_PATH": folder.name + (":" + before if before else "")}

        def job(*options):
            port = free_port()
            self.ranks = [Rank({**torchrun_variables(rank, 2, port), **(without if rank == 1 else {})},
                               "bench", "comm", "--device", "cuda", *options, *SHORT) for rank in range(2)]
            return self.ranks
        ranks = job("--transport", "nccl")
        self.assertEqual([rank.wait() for rank in ranks], [1, 1])
        self.assertIn("cannot load libnccl.so.2", ranks[0].errors[-1])
        ranks = job()
        self.assertEqual([rank.wait() for rank in ranks], [0, 0])
        self.assertIn("staged, GPU memory, 2 ranks", ranks[0].output)


class CommGpuOptionsTest(unittest.TestCase):

    def test_transports_of_another_device_are_refused(self):
        done = run("bench", "comm", "--transport", "nccl", env=CLEAN)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--transport nccl is for memory of a GPU; add --device cuda", done.stderr)
        done = run("bench", "comm", "--transport", "tcp", "--device", "cuda", env=CLEAN)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--transport tcp is for memory of the host; use --device cpu", done.stderr)


if __name__ == "__main__":
    unittest.main()
