"""`emblem bench loader` over formats and settings: its figures, its recommendation, and a report of them."""

import json
import unittest

from harness import EmblemTest, run


class LoaderBench(EmblemTest):
    rows = 20000

    def bench(self, *options):
        out = self.folder / "loader.json"
        done = self.succeed(run("bench", "loader", "--config", self.config, "--workers", "1,2", "--rounds", 2,
                                "--seconds", "0.05", "--json", out, *options))
        return json.loads(out.read_text()), done.stdout

    def test_formats_give_the_same_rows_and_one_setting_is_recommended(self):
        raw = self.folder / "raw"
        self.succeed(run("convert", "--from", self.data / "train", "--to", raw, "--format", "raw", "--missing", "zero"))
        fragment = self.folder / "advice.config"
        results, printed = self.bench("--input", f"tsv={self.data}/train", "--input", f"raw={raw}", "--batch", "256,1024",
                                      "--prefetch", "2,8", "--shuffle", "off", "--recommend", fragment)
        self.assertEqual(len(results), 16)
        sums = {(r["settings"]["check_rows"], r["settings"]["check_labels"], r["settings"]["check_keys"]) for r in results}
        self.assertEqual(len(sums), 1, sums)
        advised = [r for r in results if "advice" in r["settings"]]
        self.assertEqual(len(advised), 1)
        self.assertIn(f"recommended: {advised[0]['name']}", printed)
        text = fragment.read_text()
        self.assertIn(f"num_workers: {advised[0]['settings']['workers']}", text)

        page, markdown = self.folder / "report.html", self.folder / "report.md"
        self.succeed(run("report", self.folder / "loader.json", "--out", page, "--markdown", markdown))
        for part in ("Recommendations", "Sweeps", "cell best", advised[0]["name"]):
            self.assertIn(part, page.read_text())
        self.assertIn("## Sweeps", markdown.read_text())

    def test_cold_files_report_what_stayed_in_the_page_cache(self):
        results, _ = self.bench("--page-cache", "warm,cold")
        kept = {r["settings"]["page_cache"]: r["settings"]["cached_percent_before"] for r in results}
        self.assertEqual(kept["warm"], 100)
        self.assertLessEqual(kept["cold"], 100)

    def test_training_reports_the_cost_of_loading(self):
        results, _ = self.bench("--train-seconds", "0.5")
        trained = [r["metrics"] for r in results if "training_samples_per_second" in r["metrics"]]
        self.assertEqual(len(trained), 1)
        self.assertGreater(trained[0]["resident_samples_per_second"]["value"], 0)
        self.assertLess(trained[0]["device_idle_while_training"]["value"], 100)

    def test_bad_usage_is_one_line(self):
        self.fail_with(run("bench", "loader", "--config", self.config, "--workers", "0"), "--workers has 0")
        self.fail_with(run("bench", "loader", "--config", self.config, "--input", "x="), "LABEL=PATH")


if __name__ == "__main__":
    unittest.main(verbosity=2)
