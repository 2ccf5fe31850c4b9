"""`emblem bench train`: what bounds a run, sweeps, and the largest batch that fits."""

import unittest

from harness import run
from train_bench_case import TrainBenchTest


class TrainBench(TrainBenchTest):
    def test_the_bound_is_the_largest_share_of_the_time(self):
        self.bound_of("--dim", 16, "--divide-tables", 1000, "--batch", 64)

    def test_a_sweep_has_every_combination_and_a_recommendation(self):
        fragment = self.folder / "advice.config"
        results, printed = self.bench("--config", self.config, "--batch", "32,128,512", "--threads", "1,2", "--steps", 5,
                                      "--recommend", fragment)
        found = {(r["settings"]["batch"], r["settings"]["threads"]) for r in results}
        self.assertEqual(found, {(b, t) for b in (32, 128, 512) for t in (1, 2)})
        self.assertEqual(len({r["name"] for r in results}), 6)
        for result in results:
            self.assertGreater(result["settings"]["gradient_norm"], 0)
            self.assertGreater(result["metrics"]["peak_memory"]["value"], 0)
            # The peak of the setting, without the buffers that measure the machine: several caches' sizes each.
            self.assertLess(result["metrics"]["peak_memory"]["value"], 2**30)
            for stage in ("load", "transfer", "lookup", "dense forward", "loss", "dense backward", "update", "dense update"):
                self.assertIn(stage, result["stages"])
        advised = [r for r in results if "advice" in r["settings"]]
        self.assertEqual(len(advised), 1)
        self.assertIn(f"recommended: {advised[0]['name']}", printed)
        text = fragment.read_text()
        self.assertIn(f"batch_size: {advised[0]['settings']['batch']}", text)
        self.assertIn(f"num_threads: {advised[0]['settings']['threads']}", text)

        page, markdown = self.folder / "report.html", self.folder / "report.md"
        self.succeed(run("report", self.folder / "train.json", "--out", page, "--markdown", markdown))
        for part in ("Recommendations", "cell best", "batch (samples)", "train, step seconds"):
            self.assertIn(part, page.read_text())

    def test_batches_of_a_pipeline_in_memory_are_not_waited_for(self):
        for where in ("device", "memory"):
            results, _ = self.bench("--config", self.config, "--batch", 64, "--input", where, "--steps", 5, "--distinct", 3)
            self.assertEqual(results[0]["stages"]["load"], 0)
            self.assertNotIn("workers", results[0]["settings"])

    def test_a_setting_that_does_not_fit_is_reported_and_skipped(self):
        results, printed = self.bench("--dim", 16, "--divide-tables", 1000, "--batch", "64,4000000", "--distinct", 1,
                                      "--host-memory", "200MiB")
        self.assertEqual([r["settings"]["batch"] for r in results], [64])
        self.assertIn("does not fit: batch 4000000, dim 16: out of host memory", printed)
        self.fail_with(run("bench", "train", "--dim", 16, "--batch", 4000000, "--host-memory", "200MiB"),
                       "out of host memory")

    def test_the_largest_batch_fits_into_the_memory_given(self):
        results, printed = self.bench("--dim", 16, "--divide-tables", 1000, "--batch", "64", "--host-memory", "50MiB",
                                      "--find-largest-batch")
        largest = results[0]["settings"]["largest_batch"]
        self.assertIn(f"largest batch that fits (dim 16): {largest}", printed)
        self.assertIn("does not fit: batch ", printed)
        self.assertGreater(largest, 1000)
        self.assertLess(largest, 100000)

    def test_bad_usage_is_one_line(self):
        self.fail_with(run("bench", "train", "--precision", "fp16"), "--device cuda")
        self.fail_with(run("bench", "train", "--device-bytes", "0,1GiB"), "--device cuda")


if __name__ == "__main__":
    unittest.main(verbosity=2)
