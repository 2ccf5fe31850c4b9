"""Multi-task models on census-income reach published results: the mean test AUC of three seeds, income and never married.

EMBLEM_REAL_DATA: the folder with census-income.tar.xz. Skipped where it is not set.
EMBLEM_CENSUS_DEVICE (cpu): where models are trained."""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import unittest

from harness import SKIPPED, SOURCE, EmblemTest, run

PUBLISHED = {"mmoe": (0.9463, 0.9937), "ple": (0.9480, 0.9947)}
SEEDS = (1, 2, 3)
DEVICE = os.environ.get("EMBLEM_CENSUS_DEVICE", "cpu")


class Census(EmblemTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        shutil.unpack_archive(pathlib.Path(os.environ["EMBLEM_REAL_DATA"]) / "census-income.tar.xz", cls.folder)
        subprocess.run([sys.executable, SOURCE / "configs/census/prepare.py", cls.folder / "census-income", cls.folder / "csv"],
                       check=True)

    def aucs_of(self, model, seed):
        folder, data = self.folder / f"{model}-{seed}", self.folder / "csv"
        self.succeed(run("train", "--config", SOURCE / f"configs/census/{model}.config", "--model-dir", folder,
                         "--train-input", data / "train.csv", "--eval-input", data / "validation.csv",
                         "--set", f"train_config.seed={seed}", "--device", DEVICE, timeout=7200))
        evaluated = run("eval", "--checkpoint", folder, "--input", data / "test.csv", "--json", folder / "test.json", timeout=600)
        self.succeed(evaluated)
        metrics = json.loads((folder / "test.json").read_text())
        return metrics["auc_income"], metrics["auc_married"]

    def expect_published(self, model):
        found = [self.aucs_of(model, seed) for seed in SEEDS]
        for task, name in enumerate(("income", "never married")):
            mean = statistics.mean(aucs[task] for aucs in found)
            print(f"{model}: AUC of {name} {mean:.4f}, published {PUBLISHED[model][task]:.4f}", flush=True)
            self.assertGreaterEqual(round(mean, 4), PUBLISHED[model][task], f"{name}: {[aucs[task] for aucs in found]}")

    def test_mmoe(self):
        self.expect_published("mmoe")

    def test_ple(self):
        self.expect_published("ple")


if __name__ == "__main__":
    if not os.environ.get("EMBLEM_REAL_DATA"):
        print("skipped: EMBLEM_REAL_DATA is not set")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
