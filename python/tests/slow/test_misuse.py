"""Random calls with arguments that make no sense, and objects that are made and dropped thousands of times.

EMBLEM_RANDOM_SECONDS: how long random calls go on, 30 by default. `make sanitize-python` makes them for ten minutes under
AddressSanitizer, whose allocator keeps memory that was freed: EMBLEM_GROWTH_MB is what cycles may leave, 30 by default.
"""
import functools
import gc
import os
import pathlib
import pickle
import random
import tempfile
import threading
import time
import unittest

import numpy as np
import pyarrow

import emblem
import rows
import test_index

SECONDS = float(os.environ.get("EMBLEM_RANDOM_SECONDS", "30"))
GROWTH = float(os.environ.get("EMBLEM_GROWTH_MB", "30"))
DSSM = test_index.PIPELINE.format(model=test_index.DSSM)


def odd_values(draw):
    """Anything but what a function expects."""
    return draw.choice([
        None, 0, -1, 2 ** 70, 1.5, float("nan"), "", "x" * 1000, b"\xff", [], {}, (), set(), object(), lambda: None, True,
        {"user": []}, {"user": [None]}, {"user": [[1], [2, 3]]}, {"user": np.zeros((2, 3, 4))}, {"user": np.zeros(3, complex)},
        {"user": np.array([1, "a", None], object), "price": [1.0]}, {"user": np.zeros(0)}, {1: [2]}, np.zeros((3, 3)),
        {"user": np.arange(20)[::2], "price": np.arange(10.0), "city": ["a"] * 10, "count": [1] * 10, "click": [0, 1] * 5},
        {"user": np.arange(3, dtype=">i8"), "price": np.ones(3, ">f4"), "city": ["a"] * 3, "count": np.ones(3, bool)},
        pyarrow.table({"user": [1, 2]}), pyarrow.table({}), pyarrow.array([1, 2]), rows.make(7), emblem.Data(rows.make(3)),
        "nosuch.parquet", "s3://", "memory://x", pathlib.Path("/"), "/dev/null", rows.PIPELINE, emblem.Pipeline(rows.PIPELINE),
        "train_config { num_epochs: 0 }", "train_config.num_epochs", "feature_configs[99]", "a.b.c", "[", "]]"])


def calls_of_searches(draw, cleanup):
    """Calls of indexes, matching models, predictors, estimators, servers and clients."""
    index = emblem.Index(np.eye(6, dtype=np.float32), np.arange(6) * 7, attributes={"new": np.arange(6) % 2 == 0})
    model = emblem.train(test_index.events(300), DSSM, progress=False)
    model.index_items({"item": np.arange(60)}, np.arange(60))
    predictor = emblem.Predictor(model)
    server = emblem.serve(model)
    cleanup(server.close)
    client = server.client()
    odd = functools.partial(odd_values, draw)
    search = ["exclude", "filter", "allow", "probes"]
    estimator = ["model", "epochs", "settings", "random_state", "threads", "categories"]

    def some(names):
        return {name: odd() for name in draw.sample(names, draw.randint(0, 2))}
    kinds = [emblem.EmblemClassifier, emblem.EmblemRegressor, emblem.EmblemRanker]
    return [
        lambda: emblem.Index(odd(), odd()), lambda: emblem.Index(np.eye(3, dtype=np.float32), **{
            draw.choice(["attributes", "similarity", "value_type", "kind", "lists", "seed", "device", "threads"]): odd()}),
        lambda: emblem.Index.load(odd()), lambda: index.search(odd(), odd()),
        lambda: index.search(np.eye(6)[:2], draw.choice([1, 3, 100, odd()]), **some(search)),
        lambda: index.add(odd(), odd(), replace=draw.choice([True, False])), lambda: index.remove(odd()),
        lambda: index.add(np.ones((2, 6)), draw.sample(range(40), 2), attributes={"new": odd()}, replace=True),
        lambda: threading.Thread(target=lambda: index.search(np.ones((9, 6)), 4)).start(),
        lambda: threading.Thread(target=index.rebuild).start(), lambda: index.save(odd()), lambda: len(index),
        lambda: model.recommend(odd(), odd()), lambda: model.recommend({"user": [1, 2], "seen__item": ["", "3|4"]}, 3, **some(search[:3])),
        lambda: model.similar_items(odd(), odd()), lambda: model.vectors(odd(), odd()),
        lambda: model.index_items(odd(), odd(), attributes=odd()),
        lambda: emblem.Predictor(odd()), lambda: emblem.Predictor(model, **some(["outputs", "threads", "precision"])),
        lambda: predictor.predict(odd()), lambda: client.predict(odd(), odd()),
        lambda: client.predict("model", odd(), **some(["version", "outputs"])), lambda: emblem.Client(odd()).is_ready(odd()),
        lambda: draw.choice(kinds)(**some(estimator)).fit(odd(), odd()),
        lambda: draw.choice(kinds)(epochs=1, **some(estimator)).fit(np.ones((4, 2)), [0, 1, odd(), 1]),
        lambda: emblem.EmblemClassifier(epochs=1).fit(np.eye(8), [0, 1] * 4, **some(["sample_weight", "eval_set"])).predict(odd())]


class RandomCallsTest(unittest.TestCase):
    def test_random_calls_raise_python_exceptions_alone(self):
        draw = random.Random(int(os.environ.get("EMBLEM_RANDOM_SEED", "1")))
        folder = tempfile.TemporaryDirectory(prefix="emblem-test-")
        self.addCleanup(folder.cleanup)
        model = emblem.train(rows.make(200), rows.PIPELINE, epochs=1, progress=False)
        pipeline = emblem.Pipeline(rows.PIPELINE)
        table = emblem.Table(4, optimizer="adagrad", lr=0.1)

        def interrupted(event):
            raise draw.choice([ValueError, KeyboardInterrupt, SystemExit, MemoryError])("at random")
        options = ["valid", "label", "model_dir", "resume", "init_from", "device", "threads", "precision", "epochs", "max_steps",
                   "early_stopping", "settings", "metrics", "on_step", "on_evaluation", "on_checkpoint"]
        calls = [
            lambda: emblem.Data(odd_values(draw)), lambda: emblem.Pipeline(odd_values(draw)), lambda: emblem.load(odd_values(draw)),
            lambda: model.predict(odd_values(draw), odd_values(draw)), lambda: model.evaluate(odd_values(draw)),
            lambda: emblem.init(odd_values(draw), odd_values(draw)), lambda: emblem.init(rows.make(20), odd_values(draw)),
            lambda: emblem.train(odd_values(draw), rows.PIPELINE, progress=False, max_steps=3),
            lambda: emblem.train(rows.make(50), rows.PIPELINE, progress=False, max_steps=2, **{
                name: odd_values(draw) for name in draw.sample(options, draw.randint(1, 2)) if name != "max_steps"}),
            lambda: emblem.train(rows.make(200), rows.PIPELINE, progress=False, on_step=interrupted,
                                 settings={"train_config.log_step_count_steps": 1}),
            lambda: pipeline.copy().__setitem__(odd_values(draw), odd_values(draw)), lambda: pipeline[odd_values(draw)],
            lambda: setattr(pipeline.copy().train_config, draw.choice(["num_epochs", "seed", "x"]), odd_values(draw)),
            lambda: pipeline.copy().feature_configs.append(odd_values(draw)), lambda: pickle.loads(pickle.dumps(model)),
            lambda: emblem.cv(odd_values(draw), rows.PIPELINE, folds=2, progress=False),
            lambda: emblem._core.Data.from_stream(odd_values(draw)), lambda: emblem._core.Data.from_columns(odd_values(draw)),
            lambda: emblem._core.Data.from_columns([(odd_values(draw),) * draw.randint(1, 6)]),
            lambda: threading.Thread(target=lambda: model.predict(rows.make(30))).start(),
            lambda: emblem.Table(odd_values(draw)), lambda: emblem.Table(2, odd_values(draw), optimizer=odd_values(draw)),
            lambda: emblem.Table(2, **{draw.choice(["lr", "settings", "pooling", "seed", "capacity", "eviction", "device", "threads",
                                                    "initializer", "admission_threshold", "value_type"]): odd_values(draw)}),
            lambda: table.lookup(odd_values(draw), odd_values(draw), odd_values(draw), train=draw.choice([True, False])),
            lambda: table.lookup([draw.randint(-9, 9) for _ in range(6)], [0, draw.randint(-9, 9), 6], train=True),
            lambda: table.update(odd_values(draw), lr=odd_values(draw)), lambda: table.update(np.ones((2, 4)), scale=odd_values(draw)),
            lambda: table.write(odd_values(draw), odd_values(draw)), lambda: table.erase(odd_values(draw)),
            lambda: table.load(odd_values(draw)), lambda: odd_values(draw) in table,
            lambda: threading.Thread(target=lambda: table.lookup(range(100), train=True)).start(),
            lambda: emblem.train(lambda: iter([rows.make(50), odd_values(draw)]), rows.PIPELINE, progress=False, max_steps=3),
            lambda: model.predict(iter([rows.make(5), odd_values(draw)])),
            *calls_of_searches(draw, self.addCleanup),
        ]
        before, end, count = os.getcwd(), time.monotonic() + SECONDS, 0
        os.chdir(folder.name)
        try:
            while time.monotonic() < end:
                count += 1
                try:
                    draw.choice(calls)()
                except (Exception, KeyboardInterrupt, SystemExit) as error:
                    if isinstance(error, emblem.Error):
                        self.assertNotIn("\n", str(error).strip())
        finally:
            os.chdir(before)
        print(f"{count} calls", end=" ")
        self.assertEqual(len(model.predict(rows.make(20))), 20)  # all works as before


class CyclesTest(unittest.TestCase):
    def test_objects_that_are_made_and_dropped_leave_nothing(self):
        made = emblem.train(rows.make(), rows.PIPELINE, progress=False)
        table = pyarrow.table(rows.make(1000))
        data = rows.make(100)
        vectors = np.eye(20, dtype=np.float32)
        for name, count, make in [("data of columns", 10_000, lambda: emblem.Data(data)),
                                  ("data of Arrow", 10_000, lambda: emblem.Data(table)),
                                  ("pipelines", 10_000, lambda: emblem.Pipeline(rows.PIPELINE).copy().text),
                                  ("predictions", 2000, lambda: made.predict(data)),
                                  ("tables", 2000, lambda: emblem.Table(8, 100, threads=2).lookup(range(50), train=True)),
                                  ("models", 300, lambda: emblem.load(made.checkpoint)),
                                  ("predictors", 300, lambda: emblem.Predictor(made).predict(data)),
                                  ("indexes", 10_000, lambda: emblem.Index(vectors).search(vectors, 3)),
                                  ("servers", 3, lambda: serve_once(made, data)),
                                  ("trainings", 100, lambda: emblem.train(data, rows.PIPELINE, epochs=1, progress=False))]:
            for _ in range(count // 10 + 5):
                make()
            gc.collect()
            before, threads, files = resident_megabytes(), threading.active_count(), os.listdir("/proc/self/fd")
            for _ in range(count):
                make()
            gc.collect()
            self.assertLess(resident_megabytes() - before, GROWTH, name)
            self.assertEqual(threading.active_count(), threads, name)
            self.assertEqual(len(os.listdir("/proc/self/fd")), len(files), name)


def serve_once(model, data):
    with emblem.serve(model) as server:
        server.client().predict("model", {name: column for name, column in data.items() if name != "click"})


def resident_megabytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


if __name__ == "__main__":
    unittest.main()
