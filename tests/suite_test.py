"""emblem bench suite, compare and --against on small pipelines: planted regressions, failures, interruptions."""

import json
import os
import pathlib
import signal
import subprocess
import time
import unittest
import xml.etree.ElementTree as xml

from harness import EMBLEM, PIPELINE, EmblemTest, run

# TorchEasyRec's base_eval_metric.json: its config paths, labels, thresholds and numbers of runs.
TAOBAO = {"auc_ctr": 0.002, "auc_cvr": 0.005}
TORCHEASYREC = {f"tzrec/benchmark/configs/{config}.config": {"label": label, "threshold": threshold, "run_cnt": runs}
                for config, label, threshold, runs in (
    ("taobao_ccp/dbmtl", {"auc_ctr": 0.614, "auc_cvr": 0.656}, TAOBAO, 3),
    ("taobao/dbmtl_has_sequence", {"auc_ctr": 0.635, "auc_cvr": 0.709}, TAOBAO, 5),
    ("taobao/ple", {"auc_ctr": 0.634, "auc_cvr": 0.740}, {"auc_ctr": 0.002, "auc_cvr": 0.040}, 5),
    ("taobao/dssm_taobao", {"recall@1": 0.077, "recall@5": 0.172}, {"recall@1": 0.002, "recall@5": 0.005}, 5),
    ("criteo/deepfm", {"auc": 0.784}, 0.005, 1),
    ("kuairand/dlrm_hstu", {"auc_is_click": 0.718}, 0.005, 5))}


def child_of(pid, text, seconds=60):
    """Waits for a child of `pid` whose command line contains `text`; returns its process id."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == pid and text in (folder / "cmdline").read_text():
                    return int(folder.name)
            except (OSError, ValueError, IndexError):
                continue
        time.sleep(0.005)
    raise AssertionError(f"no child of {pid} with {text}")


class Suite(EmblemTest):
    rows = 20000

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.all_metrics = cls.folder / "all_metrics.json"
        made = cls.suite("made", "--update-baseline", "--runs", 2, baseline=cls.all_metrics)
        assert made.returncode == 0, made.stderr
        # Only tests about speed compare it: the machine may be busy.
        baseline = json.loads(cls.all_metrics.read_text())
        for metric in [name for name in baseline[str(cls.config)]["label"] if name not in ("auc", "log_loss")]:
            del baseline[str(cls.config)]["label"][metric]
        cls.baseline = cls.folder / "baseline.json"
        cls.baseline.write_text(json.dumps(baseline))

    @classmethod
    def suite(cls, out, *options, config=None, baseline=None, **kwargs):
        return run("bench", "suite", "--config", config or cls.config, "--baseline", baseline or cls.baseline,
                   "--out", cls.folder / "suites" / out, *options, **kwargs)

    def results(self, out):
        found = json.loads((self.folder / "suites" / out / "suite.json").read_text())
        return found if isinstance(found, list) else [found]

    def verdict(self, out):
        return self.results(out)[0]["settings"]["verdict"]

    def quality_baseline(self, name, **labels):
        path = self.folder / name
        path.write_text(json.dumps({str(self.config): {"label": labels, "threshold": 0.002, "run_cnt": 1}}))
        return path

    def found(self, metric):
        """Of the first seed alone, which quality_baseline's single run has too."""
        return self.results("made")[0]["metrics"][metric]["samples"][0]

    def test_the_same_program_is_balanced_against_its_own_baseline(self):
        history = self.folder / "history.jsonl"
        again = self.succeed(self.suite("again", "--history", history))
        self.assertIn("BALANCED", again.stdout)
        self.assertIn("95 % interval", again.stdout)
        [result] = self.results("again")
        self.assertEqual(result["settings"]["seeds"], ["1", "2"])
        self.assertEqual(result["metrics"]["auc"]["samples"], self.results("made")[0]["metrics"]["auc"]["samples"])
        for metric in ("samples_per_second", "step_seconds_p50", "step_seconds_p99", "evaluation_seconds", "peak_memory"):
            self.assertGreater(result["metrics"][metric]["value"], 0, metric)
        [line] = history.read_text().splitlines()
        line = json.loads(line)
        self.assertEqual(line["results"][0]["name"], str(self.config))
        for field in ("revision", "environment", "date"):
            self.assertTrue(line[field], field)
        for field in ("cpu", "cores", "memory", "compiler", "flags"):
            self.assertTrue(line["machine"][field], field)
        self.assertEqual(xml.parse(self.folder / "suites/again/junit.xml").getroot().get("failures"), "0")
        self.fail_with(self.suite("again"), "finished suite", "another --out")

    def test_a_planted_regression_is_worse_and_a_planted_improvement_better(self):
        auc = self.found("auc")
        spoilt = self.suite("spoilt", "--set", "train_config.sparse_optimizer.adagrad_optimizer.lr=5",
                            "--set", "train_config.dense_optimizer.adam_optimizer.lr=1",
                            baseline=self.quality_baseline("auc.json", auc=auc))
        self.assertEqual(spoilt.returncode, 1, spoilt.stdout)
        self.assertIn("WORSE", spoilt.stdout)
        case = xml.parse(self.folder / "suites/spoilt/junit.xml").getroot()
        self.assertEqual((case.get("failures"), case.get("errors")), ("1", "0"))
        improved = self.succeed(self.suite("improved", baseline=self.quality_baseline("low.json", auc=auc - 0.01)))
        self.assertIn("BETTER", improved.stdout)
        mixed = self.succeed(self.suite("mixed", baseline=self.quality_baseline(
            "mixed.json", auc=auc - 0.01, log_loss={"value": self.found("log_loss") - 0.01})))
        self.assertIn("MIXED", mixed.stdout)

    def test_two_results_are_compared_metric_by_metric(self):
        compared = run("bench", "compare", self.folder / "suites/made/suite.json", self.folder / "suites/made/suite.json")
        self.assertEqual(compared.returncode, 0, compared.stdout)
        self.assertIn("samples_per_second", compared.stdout)
        self.assertIn("Hedges", compared.stdout)

    def test_crashes_and_timeouts_are_failed_runs_and_the_suite_continues(self):
        configs = self.folder / "two"
        configs.mkdir()
        for name in ("a_crashing", "b_sound"):
            (configs / f"{name}.config").write_text(self.config.read_text())
        with subprocess.Popen([EMBLEM, "bench", "suite", "--config", configs, "--runs", "2", "--out",
                               self.folder / "suites/crash"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as suite:
            os.kill(child_of(suite.pid, "a_crashing-seed2"), signal.SIGSEGV)
            output, _ = suite.communicate(timeout=300)
        self.assertEqual(suite.returncode, 1, output)
        crashing, sound = self.results("crash")
        self.assertEqual(crashing["settings"]["verdict"], "UNRELIABLE")
        self.assertEqual(sound["settings"]["verdict"], "NO BASELINE")
        self.assertEqual(len(sound["metrics"]["auc"]["samples"]), 2)
        self.assertIn("killed by signal 11", output)
        self.assertIn("a_crashing-seed2.log", output)
        root = xml.parse(self.folder / "suites/crash/junit.xml").getroot()
        self.assertEqual((root.get("tests"), root.get("errors")), ("2", "1"))

        late = self.suite("late", "--timeout", "0.05", "--runs", 1)
        self.assertEqual(late.returncode, 1, late.stdout)
        self.assertIn("UNRELIABLE", late.stdout)
        self.assertIn("timed out after", late.stdout)

    def test_killed_and_resumed_gives_the_same_result(self):
        command = [EMBLEM, "bench", "suite", "--config", self.config, "--baseline", self.baseline, "--runs", "2",
                   "--out", self.folder / "suites/killed"]
        for how, status in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 143)):
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as suite:
                child = child_of(suite.pid, "seed2" if how == signal.SIGKILL else "train")
                suite.send_signal(how)
                suite.communicate(timeout=60)
            self.assertEqual(suite.returncode, status)
            end = time.monotonic() + 10  # the child ends with the suite
            while pathlib.Path(f"/proc/{child}/stat").exists() and time.monotonic() < end:
                time.sleep(0.01)
            self.assertFalse(pathlib.Path(f"/proc/{child}").exists())
        other = self.suite("killed", "--runs", 3)
        self.fail_with(other, "unfinished suite", "another --out")
        resumed = run(*command[1:])
        self.assertIn("seed 1: already finished", resumed.stderr)
        for metric in ("auc", "log_loss"):
            self.assertEqual(self.results("killed")[0]["metrics"][metric]["samples"],
                             self.results("made")[0]["metrics"][metric]["samples"])
        self.assertEqual(self.verdict("killed"), "BALANCED")

    def test_a_suite_reads_the_baselines_of_torcheasyrec(self):
        config = self.folder / "tzrec/benchmark/configs/criteo/deepfm.config"
        config.parent.mkdir(parents=True)
        config.write_text(PIPELINE.format(data=self.data, model=self.folder / "model"))
        baseline = self.folder / "tzrec/benchmark/configs/base_eval_metric.json"
        baseline.write_text(json.dumps(TORCHEASYREC, indent=2))
        auc = self.found("auc")
        judged = self.suite("tzrec", baseline=baseline.relative_to(self.folder), config="tzrec/benchmark/configs",
                            cwd=self.folder)
        [result] = self.results("tzrec")
        self.assertEqual(result["name"], "tzrec/benchmark/configs/criteo/deepfm.config")
        self.assertEqual(result["settings"]["baseline_auc"], 0.784)
        self.assertEqual(result["settings"]["runs"], 1)
        expected = "WORSE" if auc <= 0.779 else "BETTER" if auc >= 0.789 else "BALANCED"
        self.assertEqual(result["settings"]["verdict"], expected)
        self.assertEqual(judged.returncode, expected == "WORSE")

    def test_missing_optional_data_are_skipped(self):
        baseline = self.folder / "optional.json"
        baseline.write_text(json.dumps({str(self.config): {
            "label": {"auc": 0.7}, "threshold": 1, "optional_data": True, "set": ["train_input_path=nowhere"]}}))
        skipped = self.succeed(self.suite("skipped", baseline=baseline))
        self.assertIn("SKIPPED", skipped.stdout)

    def test_against_gives_a_ratio_with_its_interval(self):
        out = self.folder / "against.json"
        slow = self.folder / "slow_emblem"
        slow.write_text(f'#!/bin/sh\nEMBLEM_TEST_STEP_SLOWDOWN=200 exec "{os.path.abspath(EMBLEM)}" "$@"\n')
        slow.chmod(0o755)
        bench = ["bench", "train", "--config", self.config, "--seconds", "0.05", "--steps", "10", "--warmup", "2"]
        ratio = run(*bench, "--against", slow, "--pairs", 6, "--json", out)
        # Which of them is faster, tests/against_slow_test.py asks: a busy machine may slow either down.
        self.assertIn(ratio.returncode, (0, 1), ratio.stderr)
        self.assertIn("6 pairs", ratio.stdout)
        ours, theirs, against = json.loads(out.read_text())
        self.assertEqual(against["benchmark"], "against")
        rate = against["metrics"]["samples_per_second"]
        pairs = zip(ours["metrics"]["samples_per_second"]["samples"], theirs["metrics"]["samples_per_second"]["samples"])
        expected = [our / their for our, their in pairs]
        self.assertEqual(len(expected), 6)
        for found, quotient in zip(rate["samples"], expected, strict=True):
            self.assertAlmostEqual(found, quotient, delta=1e-6 * quotient)
        self.assertLess(rate["interval"][0], rate["interval"][1])
        self.assertTrue(rate["interval"][0] <= rate["value"] <= rate["interval"][1])
        self.assertIn("slow_emblem", theirs["program"])
        self.fail_with(run(*bench, "--against", "nowhere/emblem"), "nowhere/emblem is not a file")
        self.fail_with(run(*bench, "--against", "/bin/false"), "/bin/false failed with exit status 1")


if __name__ == "__main__":
    unittest.main()
