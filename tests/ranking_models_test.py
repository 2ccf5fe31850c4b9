"""Pipelines of configs/ with several labels and histories, from data to served predictions."""

import tempfile
import unittest

from harness import SOURCE, use_test_clients

use_test_clients("numpy")
import numpy as np
from torcheasyrec import STEPS, Run, same_model

PIPELINES = ["taobao/mmoe_sequence", "taobao/multi_tower_din", "taobao/dbmtl_jrc", "taobao/pepnet", "ccp/ple"]


class RankingModels(unittest.TestCase):
    def test_a_pipeline_trains_resumes_and_is_served(self):
        for name in PIPELINES:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                one = Run(SOURCE / f"configs/{name}.config", folder, divide=100)
                limits = one.make_data()
                one.train("whole", STEPS)
                one.train("parts", STEPS // 2)
                one.train("parts", STEPS, "--resume")
                self.assertTrue(same_model(folder, "whole", "parts"), "a resumed run ended with another model")
                metrics = one.metrics("whole")
                for metric in limits["best"]:
                    if metric.startswith("auc"):
                        self.assertGreater(metrics[metric], 0.5)
                        self.assertLess(metrics[metric], limits["best"][metric] + 0.02)
                predicted, served = one.predictions("whole"), one.served("whole", 20)
                self.assertEqual(served.keys(), predicted.keys())
                for column, values in served.items():
                    np.testing.assert_allclose(values, predicted[column][:20], rtol=1e-5, atol=1e-6)


if __name__ == "__main__":
    unittest.main()
