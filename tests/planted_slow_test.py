"""Ranking models on data with a planted truth: within 0.005 AUC of the best possible, and clearly better than the same model
without the history, or without the other task.

EMBLEM_PLANTED_SEEDS (3): number of seeds; the mean counts. EMBLEM_PLANTED_DEVICE (cpu): where models are trained."""

import json
import os
import statistics
import unittest

from harness import SOURCE, EmblemTest, run

SEEDS = range(1, int(os.environ.get("EMBLEM_PLANTED_SEEDS", "3")) + 1)
DEVICE = os.environ.get("EMBLEM_PLANTED_DEVICE", "cpu")
FROM_LIMIT = 0.005
CLEARLY = 0.01
DIVIDE = 100  # ids are so many times fewer than the rows of tables: each occurs often


class Planted(EmblemTest):
    def config_of(self, name):
        return SOURCE / f"configs/taobao/{name}.config"

    def synthesize(self, config, rows):
        """A folder of data for the pipeline, and the best metrics."""
        folder = self.folder / f"{config.stem}-{rows}"
        self.succeed(run("synth", "--for", config, "--rows", rows, "--test-rows", 200000, "--divide-tables", DIVIDE,
                         "--out", folder, timeout=3600))
        return folder, json.loads((folder / "metadata.json").read_text())["best"]

    def metrics(self, config, data, epochs, seed):
        model = self.folder / f"model-{config.stem}-{data.name}-{seed}"
        self.succeed(run("train", "--config", config, "--model-dir", model, "--train-input", data / "train", "--eval-input",
                         data / "test", "--set", f"train_config.num_epochs={epochs}", "--set", f"train_config.seed={seed}",
                         "--set", "data_config.shuffle=true", "--device", DEVICE, timeout=7200))
        self.succeed(run("eval", "--checkpoint", model, "--input", data / "test", "--json", model / "eval.json", "--device", DEVICE,
                         timeout=3600))
        return json.loads((model / "eval.json").read_text())

    def mean(self, metric, config, data, epochs):
        return statistics.mean(self.metrics(config, data, epochs, seed)[metric] for seed in SEEDS)

    def expect_history(self, name, name_without, metric):
        """Within reach of the limit with the history, far below without."""
        data, best = self.synthesize(self.config_of(name), 2000000)
        found = self.mean(metric, self.config_of(name), data, 2)
        without = self.mean(metric, self.config_of(name_without), data, 1)
        print(f"{name}: {metric} {found:.4f} of {best[metric]:.4f}; {name_without}: {without:.4f}", flush=True)
        self.assertGreater(found, best[metric] - FROM_LIMIT)
        self.assertGreater(found, without + CLEARLY)

    def expect_tasks(self, name):
        data, best = self.synthesize(self.config_of(name), 2000000)
        metrics = [self.metrics(self.config_of(name), data, 1, seed) for seed in SEEDS]
        for metric in ("auc_ctr", "auc_cvr"):
            found = statistics.mean(each[metric] for each in metrics)
            print(f"{name}: {metric} {found:.4f} of {best[metric]:.4f}", flush=True)
            self.assertGreater(found, best[metric] - FROM_LIMIT)

    def test_multi_tower_din(self):
        self.expect_history("multi_tower_din", "multi_tower", "auc")

    def test_mmoe_sequence(self):
        self.expect_history("mmoe_sequence", "mmoe", "auc_ctr")

    def test_ple_sequence(self):
        self.expect_history("ple_sequence", "ple", "auc_ctr")

    def test_dbmtl_sequence(self):
        self.expect_history("dbmtl_sequence", "dbmtl", "auc_ctr")

    def test_mmoe(self):
        self.expect_tasks("mmoe")

    def test_ple(self):
        self.expect_tasks("ple")

    def test_dbmtl(self):
        self.expect_tasks("dbmtl")

    def test_dbmtl_jrc(self):
        self.expect_tasks("dbmtl_jrc")

    def test_pepnet(self):
        self.expect_tasks("pepnet")

    def test_the_other_task_helps_where_labels_are_few(self):
        both = self.config_of("mmoe")
        text = both.read_text()
        first = text.index("task_towers {")
        second = text.index("task_towers {", first + 1)
        alone = self.write_config("mmoe_alone", text[:first] + text[second:])
        data, _ = self.synthesize(both, 100000)
        with_clicks, without = (self.mean("auc_cvr", config, data, 1) for config in (both, alone))
        print(f"auc_cvr of 100,000 rows: {with_clicks:.4f} with clicks, {without:.4f} without", flush=True)
        self.assertGreater(with_clicks, without + 0.003)


if __name__ == "__main__":
    unittest.main(verbosity=2)
