"""Metrics that functions of the user compute: at every evaluation, of rows in all forms; what fails costs no model."""
import unittest

import duckdb
import numpy as np
import pandas
import polars

import emblem
from folder import Folder
import rows

EPOCHS = {"train_config.eval_epochs": 1}


def brier(labels, predictions):
    return np.mean((labels - predictions) ** 2)


class MetricsTest(Folder):
    def expected(self, model, data):
        return np.mean((np.asarray(data["click"], np.float64) - model.predict(data)) ** 2)

    def test_they_are_computed_of_rows_in_all_forms(self):
        valid = rows.make(600, seed=2)
        frame = pandas.DataFrame(valid)
        connection = duckdb.connect()
        connection.register("frame", frame)
        for form in (valid, frame, polars.DataFrame(valid), [frame[:200], frame[200:]], connection.sql("select * from frame"),
                     lambda: iter([frame[:200], frame[200:]])):
            model = self.train(valid=form, metrics={"brier": brier})
            self.assertAlmostEqual(model.history.evaluation["brier"], self.expected(model, valid), places=6)
            self.assertAlmostEqual(model.evaluate(form, metrics={"brier": brier})["brier"], self.expected(model, valid), places=6)

    def test_arrays_text_labels_and_held_out_rows(self):
        X = np.random.default_rng(1).normal(size=(2000, 3))
        X[:, 2] = X[:, 0] > 0
        seen = []

        def keep(labels, predictions):
            seen.append((labels, predictions))
            return 0.5
        model = emblem.train(X, label="x2", metrics={"kept": keep}, epochs=1, seed=3, progress=False)
        labels, predictions = seen[-1]
        self.assertEqual((labels.ndim, labels.shape), (1, predictions.shape))
        self.assertTrue(100 < len(labels) < 300)  # a tenth
        self.assertEqual(model.history.evaluation["kept"], 0.5)
        names = np.where(X[:, 0] > 0, "yes", "no")
        emblem.train({"x": X[:, 0], "y": names}, label="y", label_positive="yes", metrics={"kept": keep}, progress=False,
                     valid={"x": X[:50, 0], "y": names[:50]})
        np.testing.assert_array_equal(seen[-1][0], names[:50] == "yes")

    def test_early_stopping_watches_them(self):
        values = iter([0.0, 0.9, 0.8, 0.8, 0.8, 0.1, 0.1])  # the first is that of the trial
        model = self.train(valid=rows.make(seed=2), epochs=50, settings=EPOCHS, metrics={"mine": lambda *_: next(values)},
                           early_stopping={"metric": "mine", "patience": 2, "min_delta": 0.05, "higher_is_better": False})
        self.assertEqual(model.history.outcome, "stopped early")
        self.assertEqual([one["metrics"]["mine"] for one in model.history.evaluations[:3]], [0.9, 0.8, 0.8])
        with self.assertRaisesRegex(emblem.Error, "metric of one's own; set higher_is_better"):
            self.train(valid=rows.make(seed=2), early_stopping={"metric": "mine"}, metrics={"mine": brier})

    def test_what_fails_fails_before_the_training(self):
        steps = []
        for function, said in ((lambda labels: 0, r"metric 'bad' failed on \d+ rows: TypeError: "),
                               (lambda *_: "many", "metric 'bad' failed on .* ValueError"), (5, "no dict of functions")):
            with self.assertRaisesRegex(emblem.Error, said) as raised:
                self.train(valid=rows.make(seed=2), metrics={"bad": function}, on_step=steps.append)
            self.assertNotIn("\n", str(raised.exception))
        with self.assertRaisesRegex(emblem.Error, "need rows to evaluate on; give valid"):
            self.train(metrics={"brier": brier}, on_step=steps.append)
        self.assertEqual(steps, [])

    def test_what_fails_later_is_logged_and_the_model_stays(self):
        calls = []

        def fail(labels, predictions):
            calls.append(len(labels))
            if len(calls) > 1:
                raise ValueError("here\nand there")
            return 1.0
        with self.assertLogs("emblem", "WARNING") as lines:
            model = self.train(valid=rows.make(seed=2), metrics={"mine": fail})
        self.assertIn("metric 'mine' failed on 2000 rows: ValueError: here and there; its value is NaN", lines.output[0])
        self.assertTrue(np.isnan(model.history.evaluation["mine"]))
        self.assertGreater(model.evaluate(rows.make())["auc"], 0.5)

    def test_models_are_the_same_with_them(self):
        alone = self.train(valid=rows.make(seed=2), settings=EPOCHS).predict(rows.make())
        measured = self.train(valid=rows.make(seed=2), settings=EPOCHS, metrics={"brier": brier}).predict(rows.make())
        np.testing.assert_array_equal(measured, alone)


if __name__ == "__main__":
    unittest.main()
