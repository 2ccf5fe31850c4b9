"""`emblem bench train`: what bounds a run in four constructed cases, sweeps, and the largest batch that fits."""

import json
import os
import unittest

from harness import PIPELINE, EmblemTest, run

# The machine's limits are of no interest here.
BRIEF = {"EMBLEM_BRIEF_CEILINGS": "1"}


class TrainBench(EmblemTest):
    rows = 20000

    def bench(self, *options, environment=BRIEF):
        out = self.folder / "train.json"
        done = self.succeed(run("bench", "train", "--seconds", "0.1", "--warmup", 1, "--json", out, *options,
                                env={**os.environ, **environment}))
        results = json.loads(out.read_text())
        return results if isinstance(results, list) else [results], done.stdout

    def bound_of(self, *options, environment=BRIEF):
        results, printed = self.bench(*options, environment=environment)
        settings = results[0]["settings"]
        self.assertIn(f"Bound by {settings['bound']}: ", printed)
        shares = {name: settings[f"time_share_{name}"] for name in ("data", "copy", "dense", "embedding", "launch")}
        self.assertAlmostEqual(sum(shares.values()), 1)
        self.assertEqual(settings["bound"], max(shares, key=shares.get), shares)
        return settings["bound"], shares

    def pipeline(self, name, model, dim=8):
        start, end = PIPELINE.index("  dlrm {{"), PIPELINE.index("  metrics")
        text = PIPELINE[:start] + model.replace("{", "{{").replace("}", "}}") + "\n" + PIPELINE[end:]
        text = text.replace("embedding_dim: 8", f"embedding_dim: {dim}")
        return self.write_config(name, text.format(data=self.data, model=self.folder / "model"))

    def test_a_slow_disk_bounds_by_data(self):
        # One small file over and over, and a model that takes little time even on a busy machine.
        rows = next((self.data / "train").iterdir()).read_text().splitlines(keepends=True)[:1000]
        (self.folder / "small.tsv").write_text("".join(rows))
        config = self.pipeline("disk.config", 'feature_groups { group_name: "wide" feature_names: "C{1..26}" '
                               'group_type: WIDE } lr {}')
        bound, shares = self.bound_of("--config", config, "--batch", 500, "--steps", 8, "--threads", 1, "--set",
                                      f"train_input_path={self.folder}/small.tsv", "--set", "data_config.shuffle=false",
                                      "--set", "data_config.num_workers=1",
                                      environment={**BRIEF, "EMBLEM_TEST_READ_BYTES_PER_SECOND": "200000"})
        self.assertEqual(bound, "data", shares)

    def test_a_tiny_batch_bounds_by_launch(self):
        bound, shares = self.bound_of("--dim", 16, "--divide-tables", 1000, "--batch", 2)
        self.assertEqual(bound, "launch", shares)

    def test_a_huge_dense_part_bounds_by_dense(self):
        config = self.pipeline("dense.config", "dlrm { dense_mlp { hidden_units: [1024, 1024, 4] } "
                                               "final { hidden_units: [1024, 1024] } }", dim=4)
        bound, shares = self.bound_of("--config", config, "--batch", 512, "--steps", 3)
        self.assertEqual(bound, "dense", shares)

    def test_a_huge_embedding_part_bounds_by_embedding(self):
        config = self.pipeline("embedding.config", 'feature_groups { group_name: "wide" feature_names: "C{1..26}" '
                               'group_type: WIDE } feature_groups { group_name: "fm" feature_names: "C{1..26}" } fm {}',
                               dim=64)
        bound, shares = self.bound_of("--config", config, "--batch", 2048, "--steps", 5, "--threads", 1, "--set",
                                      "train_config.sparse_optimizer.adam_optimizer.lr=0.001")
        self.assertEqual(bound, "embedding", shares)

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

    def test_what_does_not_fit_is_a_line_and_not_the_end(self):
        results, printed = self.bench("--dim", 16, "--divide-tables", 1000, "--batch", "64,4000000", "--distinct", 1,
                                      "--host-memory", "200MiB")
        self.assertEqual([r["settings"]["batch"] for r in results], [64])
        self.assertIn("does not fit: batch 4000000, dim 16: out of host memory", printed)
        self.fail_with(run("bench", "train", "--dim", 16, "--batch", 4000000, "--host-memory", "200MiB"),
                       "out of host memory")

    def test_the_largest_batch_is_found_below_the_memory_given(self):
        results, printed = self.bench("--dim", 16, "--divide-tables", 1000, "--batch", "64", "--host-memory", "50MiB",
                                      "--find-largest-batch")
        largest = results[0]["settings"]["largest_batch"]
        self.assertIn(f"largest batch that fits (dim 16): {largest}", printed)
        self.assertIn("does not fit: batch ", printed)
        self.assertGreater(largest, 1000)
        self.assertLess(largest, 100000)

    def test_bad_usage_is_one_line(self):
        self.fail_with(run("bench", "train", "--precision", "bf16"), "--device cuda")
        self.fail_with(run("bench", "train", "--device-bytes", "0,1GiB"), "--device cuda")


if __name__ == "__main__":
    unittest.main(verbosity=2)
