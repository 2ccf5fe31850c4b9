"""`emblem bench train --until`: time to reach a metric."""

import json
import unittest

from harness import EmblemTest, run


class BenchUntil(EmblemTest):
    rows = 30000

    def until(self, goal, *options):
        out = self.folder / "until.json"
        done = self.succeed(run("bench", "train", "--config", self.config, "--until", goal, "--eval-every", 40, "--json", out,
                                *options))
        return done.stdout, json.loads(out.read_text())

    def test_it_stops_at_the_goal_and_prints_the_figures_of_soks_benchmark(self):
        text, result = self.until("auc=0.55")
        for column in ("batch", "exit criterion", "evaluation every", "training min", "evaluation min", "total min",
                       "average iteration", "throughput"):
            self.assertIn(column, text)
        self.assertIn("auc >= 0.55", text)
        self.assertIn("40 steps", text)
        settings, metrics = result["settings"], result["metrics"]
        self.assertTrue(settings["reached"])
        self.assertEqual(settings["batch"], 256)
        self.assertEqual(settings["steps"] % 40, 0)
        self.assertEqual(settings["evaluations"], settings["steps"] / 40)
        self.assertGreaterEqual(metrics["auc"]["value"], 0.55)
        minutes = [metrics[name]["value"] for name in ("training_minutes", "evaluation_minutes", "total_minutes")]
        self.assertLessEqual(sum(minutes[:2]), minutes[2] * 1.001)

    def test_a_goal_out_of_reach_ends_with_the_data(self):
        text, result = self.until("auc=0.999")
        self.assertFalse(result["settings"]["reached"])
        self.assertEqual(result["settings"]["steps"], -(-self.rows // 256))

    def test_it_leaves_no_checkpoint_and_needs_data_to_evaluate_on(self):
        self.until("auc=0.55")
        self.assertFalse((self.folder / "model").exists())
        self.fail_with(run("bench", "train", "--config", self.config, "--until", "auc=0.5", "--set", "eval_input_path="),
                       "eval_input_path")

    def test_presets_need_files(self):
        self.fail_with(run("bench", "train", "--preset", "dlrm-kaggle", "--dim", 16, "--batch", 512, "--divide-tables", 100,
                           "--until", "auc=0.5"), "--data")
        made = self.succeed(run("bench", "train", "--preset", "dlrm-kaggle", "--dim", 16, "--batch", 512, "--divide-tables",
                                1000, "--until", "auc=0.9", "--data", self.folder / "raw", "--data-rows", 4000))
        self.assertIn("dlrm-kaggle-tables/1000-d16-b512", made.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
