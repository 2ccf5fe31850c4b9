"""TorchEasyRec's own ranking pipelines, unchanged, in the folder that EMBLEM_TORCHEASYREC names."""

import os
import pathlib
import sys
import tempfile
import unittest

from harness import SKIPPED, run, use_test_clients

use_test_clients("numpy")
import numpy as np
from torcheasyrec import STEPS, Run, dense_parameters, same_model

FOLDER = os.environ.get("EMBLEM_TORCHEASYREC", "")
BENCHMARKS = "tzrec/benchmark/configs"
# Dense parameters, computed from the formulas of the models.
RANKING = {
    "criteo/deepfm": 393793, "criteo/dlrm": 2368897, "criteo/rocket_launching": 1090820, "taobao/dbmtl": 484930,
    "taobao/dbmtl_jrc": 485060, "taobao/dbmtl_has_sequence": 515955, "taobao/mmoe": 1926414,
    "taobao/mmoe_has_sequence": 2080895, "taobao/ple": 5251283, "taobao/ple_has_sequence": 5504020,
    "taobao_ccp/dbmtl": 561090, "taobao_ccp/mmoe": 166080, "taobao_ccp/ple": 800748}
EXAMPLES = {
    "deepfm_criteo": None, "dlrm_criteo": None, "masknet_criteo": 4416984, "rocket_launching_criteo": None,
    "multi_tower_taobao": 477057, "multi_tower_din_taobao": 373122, "mmoe_taobao": None, "ple_taobao": None,
    "dbmtl_taobao": None, "dbmtl_taobao_jrc": None, "dbmtl_taobao_seq": None, "pepnet_taobao": None}
REFUSED = {
    f"{BENCHMARKS}/kuairand/dlrm_hstu": "dlrm_hstu"}


class Pipelines(unittest.TestCase):
    def check(self, config, parameters):
        with tempfile.TemporaryDirectory() as folder:
            one = Run(config, folder)
            limits = one.make_data()
            one.train("whole", STEPS)
            if parameters is not None:
                self.assertEqual(dense_parameters(one.folder / f"whole/model.ckpt-{STEPS}"), parameters)
            one.train("parts", STEPS // 2)
            one.train("parts", STEPS, "--resume")
            self.assertTrue(same_model(folder, "whole", "parts"), "a resumed run ended with another model")
            metrics = one.metrics("whole")
            for name in limits["best"]:
                if name.startswith("auc"):
                    self.assertIn(name, metrics)
            predicted = one.predictions("whole")
            served = one.served("whole", 20)
            self.assertEqual(served.keys(), predicted.keys())
            for column, values in served.items():
                np.testing.assert_allclose(values, predicted[column][:20], rtol=1e-5, atol=1e-6)

    def test_benchmarks(self):
        for name, parameters in RANKING.items():
            with self.subTest(name):
                self.check(pathlib.Path(FOLDER) / BENCHMARKS / f"{name}.config", parameters)

    def test_examples(self):
        for name, parameters in EXAMPLES.items():
            with self.subTest(name):
                self.check(pathlib.Path(FOLDER) / "examples" / f"{name}.config", parameters)

    def test_other_models_are_refused_by_name(self):
        for name, model in REFUSED.items():
            with self.subTest(name):
                tried = run("train", "--config", pathlib.Path(FOLDER) / f"{name}.config", "--train-input", "x")
                self.assertEqual(tried.returncode, 1)
                self.assertIn(f'"{model}"', tried.stderr)
                self.assertIn("not supported", tried.stderr)

    def test_an_example_that_cannot_work_is_explained(self):
        tried = run("train", "--config", pathlib.Path(FOLDER) / "examples/wukong_criteo.config", "--train-input", "x")
        self.assertEqual(tried.returncode, 1)
        for part in ("dense_mlp", "128", "16"):
            self.assertIn(part, tried.stderr)


if __name__ == "__main__":
    if not FOLDER:
        print("skipped: EMBLEM_TORCHEASYREC is not set; it names a checkout of TorchEasyRec")
        sys.exit(SKIPPED)
    unittest.main()
