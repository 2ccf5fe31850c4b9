"""Compares two training runs: first losses, AUC, and the distance of the AUC from the known limit of the data.

Here both run on the CPU for seconds; quality_slow_test.py compares devices and precisions."""

import json
import pathlib
import shutil
import tempfile
import unittest

from harness import SOURCE, run

HOURS = 4 * 3600

FIRST_STEPS = 200
LOSS_TOLERANCE = 1e-4  # relative, of each of the first steps
AUC_TOLERANCE = 1e-3
LIMIT_TOLERANCE = 5e-3


class Run:
    """A finished training run."""

    def __init__(self, folder, data, device, precision, settings, more):
        self.folder = folder
        options = ["--set", f"train_input_path={data}/train", "--set", f"eval_input_path={data}/test",
                   "--set", "data_config.dataset_type=RawDataset", "--set", "train_config.log_step_count_steps=1",
                   "--set", "train_config.save_checkpoints_steps=0", "--set", "train_config.eval_steps=1000000000"]
        for setting in settings:
            options += ["--set", setting]
        done = run("train", "--config", SOURCE / "configs/criteo/dlrm.config", "--model-dir", folder, "--device", device,
                   "--precision", precision, *options, *more, timeout=HOURS)
        if done.returncode != 0:
            raise AssertionError(done.stderr[-2000:])

    def losses(self):
        with open(self.folder / "train_log.jsonl") as log:
            return [json.loads(line)["loss"] for line in log][:FIRST_STEPS]

    def auc(self, device):
        out = self.folder / f"{device}.json"
        done = run("eval", "--checkpoint", self.folder, "--device", device, "--json", out, timeout=HOURS)
        if done.returncode != 0:
            raise AssertionError(done.stderr[-2000:])
        return json.loads(out.read_text())["auc"]


class Quality(unittest.TestCase):
    """A synthetic data set with a known limit, and comparisons of runs on it."""

    @classmethod
    def make_data(cls, rows, test_rows, scale):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-quality-"))
        cls.data = cls.folder / "data"
        made = run("synth", "--rows", rows, "--test-rows", test_rows, "--scale", scale, "--format", "raw", "--out", cls.data,
                   timeout=HOURS)
        assert made.returncode == 0, made.stderr
        cls.limit = json.loads((cls.data / "metadata.json").read_text())["best_auc"]

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def train(self, name, device, precision="fp32", settings=(), options=()):
        return Run(self.folder / name, self.data, device, precision, settings, options)

    def expect_same_losses(self, one, other):
        ours, theirs = one.losses(), other.losses()
        self.assertEqual(len(ours), len(theirs))
        self.assertGreater(len(ours), 0)
        worst = max(abs(a - b) / b for a, b in zip(ours, theirs))
        print(f"worst relative difference of {len(ours)} losses: {worst:.2e}")
        self.assertLess(worst, LOSS_TOLERANCE)

    def expect_near(self, what, auc, other, tolerance):
        print(f"{what}: {auc:.6f} and {other:.6f}")
        self.assertLess(abs(auc - other), tolerance, what)


class SmallOnCpu(Quality):
    """Compares two runs on the CPU."""

    def test_runs_with_different_threads_are_equal(self):
        self.make_data(40000, 10000, "0.002")
        small = ["data_config.batch_size=512", "data_config.num_workers=2"]
        one = self.train("one", "cpu", settings=[*small, "train_config.num_threads=1"])
        two = self.train("two", "cpu", settings=[*small, "train_config.num_threads=2"])
        self.expect_same_losses(one, two)
        self.expect_near("AUC of two runs", one.auc("cpu"), two.auc("cpu"), AUC_TOLERANCE)
        self.assertLess(one.auc("cpu"), self.limit + LIMIT_TOLERANCE)
        self.assertGreater(one.auc("cpu"), 0.6)


if __name__ == "__main__":
    unittest.main(verbosity=2)
