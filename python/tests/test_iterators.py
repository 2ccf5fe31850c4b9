"""Rows that an iterator gives while they are used: a few tables are in memory at a time."""
import gc
import pathlib
import tempfile
import threading
import unittest

import numpy as np
import pyarrow

import emblem
import rows

TABLES, ROWS = 30, 500
SETTINGS = {"data_config.shuffle": False, "data_config.num_workers": 1}


class Batch:
    """Counts how many of it are alive."""
    alive = most = 0
    lock = threading.Lock()

    def __init__(self):
        with Batch.lock:
            Batch.alive += 1
            Batch.most = max(Batch.most, Batch.alive)

    def __del__(self):
        with Batch.lock:
            Batch.alive -= 1


class Owner:
    """An array that keeps its batch, for as long as the engine keeps the array."""

    def __init__(self, batch, values):
        self.batch, self.values = batch, values
        self.__array_interface__ = values.__array_interface__


def held(number):
    """Columns whose numbers are in memory of a Batch."""
    batch = Batch()
    return {name: np.asarray(Owner(batch, values)) if values.dtype.kind in "if" else values
            for name, values in rows.make(ROWS, seed=number).items()}


def every():
    return {name: np.concatenate([rows.make(ROWS, seed=at)[name] for at in range(TABLES)]) for name in rows.make(1)}


class Repeated:
    def __init__(self):
        self.passes = 0

    def __iter__(self):
        self.passes += 1
        return (held(at) for at in range(TABLES))


class IteratorsTest(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory(prefix="emblem-test-")
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)
        gc.collect()
        Batch.most = Batch.alive

    def train(self, data, **options):
        return emblem.train(data, rows.PIPELINE, progress=False,
                            **{"settings": SETTINGS, "threads": 1, **options})

    def test_training_holds_few_tables_and_learns_the_same(self):
        few = rows.make(50, seed=77)
        expected = self.train(every()).predict(few)
        again = Repeated()
        for source in (again, lambda: iter(again), lambda: (held(at) for at in range(TABLES))):
            Batch.most = Batch.alive
            np.testing.assert_array_equal(self.train(source).predict(few), expected)
            self.assertLessEqual(Batch.most, 8, f"of {TABLES}")
        self.assertEqual(again.passes, 6)  # three epochs, twice
        gc.collect()
        self.assertEqual(Batch.alive, 0)

    def test_a_generator_is_read_once(self):
        few = rows.make(50, seed=77)
        expected = self.train(every(), epochs=1).predict(few)
        found = self.train((held(at) for at in range(TABLES)), epochs=1)
        np.testing.assert_array_equal(found.predict(few), expected)
        self.assertLessEqual(Batch.most, 8)
        np.testing.assert_array_equal(found.predict(held(at) for at in range(3)),
                                      np.concatenate([found.predict(rows.make(ROWS, seed=at)) for at in range(3)]))
        self.assertEqual(found.evaluate(Repeated())["auc"], found.evaluate(every())["auc"])
        reader = pyarrow.table(every()).to_reader(max_chunksize=ROWS)
        np.testing.assert_array_equal(self.train(reader, epochs=1).predict(few), expected)

    def test_what_needs_the_rows_again_says_so_first(self):
        def generator():
            return (held(at) for at in range(TABLES))
        for call in (lambda: self.train(generator()), lambda: emblem.train(generator(), label="click", progress=False),
                     lambda: self.train(generator(), epochs=1, settings={"data_config.holdout_ratio": 0.1}),
                     lambda: self.train(rows.make(), valid=generator(), settings={"train_config.eval_epochs": 1}),
                     lambda: emblem.init(generator(), "click"), lambda: emblem.init(emblem.Data(generator()), "click"),
                     lambda: emblem.init(rows.make(), "click", valid=generator())):
            with self.assertRaisesRegex(emblem.Error, "can be read once.*function that returns") as raised:
                call()
            self.assertEqual(raised.exception.code, "invalid_argument")
        self.assertEqual(Batch.most, Batch.alive)  # none was asked for
        data = emblem.Data(generator())
        model = self.train(rows.make(), epochs=1)
        model.predict(data)
        with self.assertRaisesRegex(emblem.Error, "were read before"):
            model.predict(data)

    def test_a_pipeline_is_chosen_by_the_first_rows(self):
        model = emblem.train(Repeated(), label="click", epochs=2, progress=False)
        self.assertGreater(model.history.evaluation["auc"], 0.6)
        self.assertLessEqual(Batch.most, TABLES + 2)  # init looks at up to 200,000 rows at once
        self.assertIsNone(emblem.Data(Repeated()).rows)
        self.assertEqual(repr(emblem.Data(Repeated())), "emblem.Data(iterator)")

    def test_a_pipeline_for_no_rows_is_refused(self):
        with self.assertRaisesRegex(emblem.Error, "gives no tables"):
            emblem.init(lambda: iter([]), "click")
        with self.assertRaisesRegex(emblem.Error, "rows to read is -1"):
            emblem.init(Repeated(), "click", rows=-1)

    def test_what_an_iterator_raises_ends_the_training(self):
        def failing():
            yield held(1)
            yield held(2)
            raise KeyError("mine")
        with self.assertRaisesRegex(KeyError, "mine"):
            self.train(failing)
        for odd, message in (([rows.make(3), 7], "expected a path"), ([rows.make(3), "x.csv"], "expected tables in memory"),
                             ([], "no rows"), ([rows.make(3), {"user": [1]}], "column")):
            with self.assertRaisesRegex(emblem.Error, message) as raised:
                self.train(lambda: iter(odd))
            self.assertNotIn("\n", str(raised.exception))
        with self.assertRaises(TypeError):
            self.train(lambda: 7)
        with self.assertRaises(ZeroDivisionError):
            self.train(lambda: 1 / 0)
        self.assertEqual(len(self.train(Repeated(), epochs=1).predict(rows.make(5))), 5)  # all works as before

    def test_a_training_that_is_stopped_leaves_no_table(self):
        model = self.train(Repeated(), max_steps=5)
        self.assertEqual(model.history.steps, 5)
        gc.collect()
        self.assertEqual(Batch.alive, 0)


if __name__ == "__main__":
    unittest.main()
