"""emblem.Predictor: the predictions of the model, row by row and from several threads at once."""
import threading
import unittest

import numpy as np
import pandas
import polars

import emblem
from folder import Folder
import rows


class PredictorTest(Folder):
    def setUp(self):
        super().setUp()
        self.model = self.train()
        self.predictor = emblem.Predictor(self.model)

    def test_its_predictions_are_those_of_the_model(self):
        data = rows.make(200, seed=2)
        expected = self.model.predict(data)
        self.assertEqual(self.predictor.columns, ["prediction"])
        for form in (data, pandas.DataFrame(data), polars.DataFrame(data)):
            np.testing.assert_allclose(emblem.Predictor(self.model).predict(form), expected, rtol=1e-6)
        ones = [self.predictor.predict({name: values[at:at + 1] for name, values in data.items()}) for at in range(20)]
        np.testing.assert_allclose(np.concatenate(ones), expected[:20], rtol=1e-6)
        self.assertEqual(self.predictor.predict(data).dtype, np.float32)

    def test_the_smallest_int64_is_a_missing_number(self):
        data = rows.make(2, seed=3)
        smallest = {**data, "count": np.array([np.iinfo(np.int64).min, 5])}
        missing = {**data, "count": np.array([np.nan, 5])}
        expected = emblem.Predictor(self.model).predict(missing)
        np.testing.assert_array_equal(emblem.Predictor(self.model).predict(smallest), expected)
        np.testing.assert_allclose(self.model.predict(smallest), expected, rtol=1e-6)
        with emblem.serve(self.model, name="ctr") as server:
            answer = server.client().predict("ctr", {name: one for name, one in smallest.items() if name != "click"})
        np.testing.assert_allclose(answer["probability"][:, 0], expected, rtol=1e-6)

    def test_threads_call_it_at_once(self):
        parts = [rows.make(50, seed=at) for at in range(4)]
        expected, found = [self.predictor.predict(part) for part in parts], {}

        def run(at):
            for _ in range(20):
                found[at] = self.predictor.predict(parts[at])
        threads = [threading.Thread(target=run, args=(at,)) for at in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for at in range(4):
            np.testing.assert_array_equal(found[at], expected[at])

    def test_it_outlives_the_model(self):
        data = rows.make(20)
        expected = self.predictor.predict(data)
        del self.model
        np.testing.assert_array_equal(self.predictor.predict(data), expected)

    def test_misuse(self):
        for call, said in ((lambda: self.predictor.predict("rows.parquet"), "not in memory"),
                           (lambda: self.predictor.predict(iter([rows.make(5)])), "not in memory"),
                           (lambda: self.predictor.predict({"user": [1]}), 'no column "'),
                           (lambda: emblem.Predictor("nosuch"), "nosuch"),
                           (lambda: emblem.Predictor(self.model, threads=0), "threads"),
                           (lambda: emblem.Predictor(self.model, outputs=["x"]), 'no output "x"')):
            with self.assertRaisesRegex(emblem.Error, said):
                call()
        with self.assertRaisesRegex(TypeError, "precision is 16"):
            emblem.Predictor(self.model, precision=16)


if __name__ == "__main__":
    unittest.main()
