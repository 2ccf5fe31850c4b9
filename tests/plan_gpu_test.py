"""emblem probe, plan and bench plan for ranks that share the GPUs of this machine: what they do, not how fast.

Skipped without a GPU; with EMBLEM_REQUIRE_CUDA it fails instead."""

import json
import pathlib
import tempfile
import unittest

import plan_test
from harness import require_gpu, run


class PlanGpuTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        require_gpu()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.here = pathlib.Path(folder.name)

    def command(self, *arguments):
        done = run(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_plans_start_from_whole_steps(self):
        config, probe = self.here / "p.config", self.here / "probe.json"
        config.write_text(plan_test.PIPELINE.format(data=self.here / "data", folder=self.here, constraints=""))
        self.command("synth", "--for", config, "--rows", 2000, "--test-rows", 10, "--format", "csv", "--out",
                     self.here / "data")
        for shards in (2, 4):
            with self.subTest(shards=shards):
                options = ["--config", config, "--set", f"train_config.logical_shards={shards}"]
                self.command("probe", *options, "--device", "cuda", "--ranks", 2, "--seconds", 0.001, "--out", probe)
                profile = json.loads(probe.read_text())
                self.assertEqual(profile["steps"]["shards"], shards // 2)
                rows = profile["steps"]["held"][0]
                self.assertEqual((rows["holding"], rows["every_second"]), ("rows", False))
                self.assertEqual([size for size, _ in rows["seconds_by_rows"]], [32, 64, 128])
                printed = self.command("plan", *options, "--probe", probe)
                self.assertRegex(printed, r"part .*update +overlap")
                # The probed plan takes what was measured, or as long as its longest part.
                plan = self.here / "plan.txt"
                plan.write_text("ranks 2\na_emb rows\nb_emb rows\nc_emb rows\n")
                printed = self.command("plan", *options, "--probe", probe, "--plan", plan)
                measured = dict(rows["seconds_by_rows"])[64]
                predicted = float(printed.split("predicted ")[1].split(" ms")[0])
                self.assertGreater(predicted + 0.0005, 0.99 * 1e3 * measured)  # printed with 3 digits

    def test_memory_of_tables_is_predicted(self):
        out = self.here / "bench.json"
        self.command("bench", "plan", "--device", "cuda", "--ranks", "1,3", "--dims", 4, "--batches", 16, "--seconds", 0.001,
                     "--probe-seconds", 0.0005, "--repeats", 0, "--json", out)
        results = json.loads(out.read_text())
        self.assertGreater(len(results), 5)
        for result in results:
            metrics = result["metrics"]
            self.assertLess(abs(metrics["predicted_table_bytes"]["value"] / metrics["table_bytes"]["value"] - 1), 0.02,
                            result["name"])


if __name__ == "__main__":
    unittest.main()
