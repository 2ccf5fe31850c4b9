"""Matching pipelines, from data to served vectors."""

import json
import re
import tempfile
import unittest

from harness import SOURCE, use_test_clients

use_test_clients("numpy")
import numpy as np
from torcheasyrec import BATCH, STEPS, Run, same_model

CONFIG = SOURCE / "configs/taobao/dssm.config"
INTERESTS = SOURCE / "configs/taobao/mind.config"
AUGMENTED = SOURCE / "configs/taobao/dat.config"


class SampledRun(Run):
    def inputs(self):
        return [*super().inputs(), "--set", f"data_config.negative_sampler.input_path={self.folder / 'data/items.txt'}",
                "--set", "data_config.negative_sampler.num_sample=100"]


def vectors(predicted, tower):
    return np.stack([values for name, values in predicted.items() if name.startswith(tower)], axis=1)


class Matching(unittest.TestCase):
    def run_whole_and_in_parts(self, config, folder):
        """Trains, resumes, evaluates and serves; the run, and what it predicts."""
        one = SampledRun(config, folder, divide=100)
        one.make_data()
        one.train("whole", STEPS)
        one.train("parts", STEPS // 2)
        one.train("parts", STEPS, "--resume")
        self.assertTrue(same_model(folder, "whole", "parts"), "a resumed run ended with another model")
        metrics = one.metrics("whole")
        self.assertGreater(metrics["recall@10"], 1.5 * 10 / 101)  # more than by chance
        self.assertLess(metrics["recall@1"], metrics["recall@10"])
        predicted, served = one.predictions("whole"), one.served("whole", 20)
        self.assertEqual(served.keys(), predicted.keys())
        for column, values in served.items():
            np.testing.assert_allclose(values, predicted[column][:20], rtol=1e-5, atol=1e-6)
        return predicted

    def test_a_pipeline_with_a_sampler_trains_resumes_and_is_served(self):
        for config in (CONFIG, AUGMENTED):
            with self.subTest(config.name), tempfile.TemporaryDirectory() as folder:
                predicted = self.run_whole_and_in_parts(config, folder)
                for tower in ("user_tower_emb", "item_tower_emb"):
                    self.assertEqual(vectors(predicted, tower).shape, (500, 64))
                    np.testing.assert_allclose(np.linalg.norm(vectors(predicted, tower), axis=1), 1, rtol=1e-4)

    def test_a_pipeline_of_interests_gives_several_vectors_of_a_user(self):
        with tempfile.TemporaryDirectory() as folder:
            users = vectors(self.run_whole_and_in_parts(INTERESTS, folder), "user_tower_emb").reshape(500, 4, 64)
            lengths = np.linalg.norm(users, axis=2)
            np.testing.assert_allclose(lengths[:, 0], 1, rtol=1e-4)
            self.assertTrue(np.all((lengths == 0) | (abs(lengths - 1) < 1e-4)))
            self.assertGreater(len(np.unique((lengths > 0).sum(axis=1))), 1)  # users have more interests and fewer

    def test_metrics_within_batches_are_those_of_the_predicted_vectors(self):
        with tempfile.TemporaryDirectory() as folder:
            config = Run(CONFIG, folder).folder / "in_batch.config"
            text = re.sub(r"  negative_sampler {.*?\n  }\n", "", CONFIG.read_text(), flags=re.DOTALL)
            config.write_text(text.replace("    temperature:", "    in_batch_negative: true\n    temperature:"))
            one = Run(config, folder, divide=100)
            one.make_data()
            one.train("model", STEPS)
            predicted = one.predictions("model")
            users, items = vectors(predicted, "user_tower_emb"), vectors(predicted, "item_tower_emb")
            ranks, losses = [], []
            for begin in range(0, len(users), BATCH):
                scores = users[begin:begin + BATCH] @ items[begin:begin + BATCH].T / 0.1
                own = np.diag(scores)
                ranks += list((scores > own[:, None] + 1e-4).sum(axis=1))
                losses += list(np.log(np.exp(scores).sum(axis=1)) - own)
            out = one.folder / "model.json"
            one.succeed("eval", "--checkpoint", one.folder / "model", "--input", one.folder / "data/test", "--json", out)
            metrics = json.loads(out.read_text())
            self.assertAlmostEqual(metrics["softmax_cross_entropy"], np.mean(losses), delta=1e-3)
            for k in (1, 10):
                self.assertAlmostEqual(metrics[f"recall@{k}"], np.mean(np.array(ranks) < k), delta=0.01)


if __name__ == "__main__":
    unittest.main()
