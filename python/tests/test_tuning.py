"""A search for settings (tune=)."""
import os
import signal
import unittest
from unittest import mock

import numpy as np

import emblem
from emblem.progress import Progress


def make(rows, seed=3):
    """A product of numbers, of which default settings learn little."""
    random = np.random.default_rng(seed)
    a, b = random.uniform(-2, 2, (2, rows))
    return {"a": a, "b": b, "y": a * b + random.normal(0, 0.1, rows)}


class Tuning(unittest.TestCase):
    def test_a_search_is_seeded_and_says_what_it_tried(self):
        made = [emblem.init(make(400), "y", tune=1500, seed=seed) for seed in (1, 1, 2)]
        self.assertEqual(made[0].text, made[1].text)
        self.assertEqual(made[0].summary, made[1].summary)
        self.assertNotEqual(made[0].summary, made[2].summary)
        self.assertRegex(made[0].summary, r"search: \d+ trials, .* steps; mean_squared_error")

    def test_training_and_estimators_search_like_init(self):
        data = make(400)
        expected = emblem.init(data, "y", tune=1500)
        model = emblem.train(data, label="y", tune=1500, epochs=2, progress=False)
        self.assertEqual(model.pipeline.train_config.dense_optimizer.to_dict(), expected.train_config.dense_optimizer.to_dict())
        self.assertEqual(model.pipeline.model_config.to_dict(), expected.model_config.to_dict())
        x = np.stack([data["a"], data["b"]], axis=1)
        for kind, y in ((emblem.EmblemRegressor, data["y"]), (emblem.EmblemClassifier, np.digitize(data["y"], [-1, 1]))):
            estimator = kind(tune=1500, epochs=2, random_state=3).fit(x, y)
            self.assertIn("tune", estimator.get_params())
            self.assertEqual(estimator.predict(x).shape, (400,))

    def test_budgets_that_allow_no_search_are_errors(self):
        for tune in (10, -1, 1 << 40):
            with self.assertRaisesRegex(emblem.Error, r"a search of -?\d+ training steps; expected 1000"):
                emblem.init(make(300), "y", tune=tune)
        with self.assertRaisesRegex(emblem.Error, "tune is given with a pipeline, but chooses what a pipeline says"):
            emblem.train(make(300), emblem.init(make(300), "y"), tune=True)

    def test_ctrl_c_ends_a_search(self):
        def interrupt(*_):
            os.kill(os.getpid(), signal.SIGINT)
        with mock.patch.object(Progress, "update_tuning", interrupt), self.assertRaises(KeyboardInterrupt):
            emblem.init(make(400), "y", tune=1_000_000, progress=True)


if __name__ == "__main__":
    unittest.main()
