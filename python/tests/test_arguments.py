"""The arguments of emblem.train: in which order they come, what is passed to emblem.init, what is wrong with them."""
import os
import pathlib
import signal
import unittest
from unittest import mock

import numpy as np
import pandas
import pyarrow
import pyarrow.parquet

import emblem
from folder import Folder
import rows


class OrderTest(Folder):
    def test_the_pipeline_comes_first_or_second(self):
        data = rows.make()
        (self.folder / "p.config").write_text(rows.PIPELINE)
        pyarrow.parquet.write_table(pyarrow.table(data), self.folder / "rows.parquet")
        expected = self.train(data).predict(data)
        for first, second in [(str(self.folder / "p.config"), data), (self.folder / "p.config", pandas.DataFrame(data)),
                              (rows.PIPELINE, data), (emblem.Pipeline(rows.PIPELINE), data),
                              (data, self.folder / "p.config")]:
            np.testing.assert_array_equal(emblem.train(first, second, progress=False).predict(data), expected)
        model = emblem.train(self.folder / "p.config", str(self.folder / "rows.parquet"), progress=False)
        self.assertEqual(model.history.rows, 6000)

    def test_two_of_a_kind_are_refused(self):
        with self.assertRaisesRegex(emblem.Error, "both arguments are pipelines"):
            emblem.train("p.config", rows.PIPELINE)
        with self.assertRaisesRegex(emblem.Error, "neither a dict nor a DataFrame is a pipeline"):
            emblem.train(rows.make(), pandas.DataFrame(rows.make()))

    def test_the_training_of_a_model_continues(self):
        data, more = rows.make(), rows.make(seed=5)
        first = self.train(data, valid=rows.make(300, seed=2))
        second = emblem.train(first, more, progress=False)
        by_hand = self.train(more, init_from=first.checkpoint)
        np.testing.assert_array_equal(second.predict(data), by_hand.predict(data))
        self.assertFalse(np.array_equal(second.predict(data), self.train(more).predict(data)))
        np.testing.assert_array_equal(emblem.train(more, first, progress=False).predict(data), second.predict(data))
        np.testing.assert_array_equal(self.train(more, init_from=first).predict(data), second.predict(data))


class ChoicesTest(Folder):
    def test_what_init_chooses_is_passed_on(self):
        data = rows.make()
        data["weight"] = np.ones(len(data["click"]))
        data["answer"] = np.where(data.pop("click") > 0, "yes", "no")
        model = emblem.train(data, label="answer", label_positive="no", model="deepfm", weight="weight", categories=["count"],
                             skipped=["city"], holdout=0.25, epochs=1, progress=False)
        text = model.pipeline.text
        self.assertIn("deepfm {", text)
        self.assertIn('"weight"', text)
        self.assertNotIn('feature_name: "city"', text)
        self.assertEqual(model.pipeline.data_config.label_positive, "no")
        self.assertEqual(model.pipeline.data_config.holdout_ratio, 0.25)
        self.assertRegex(text, r'id_feature \{\s*feature_name: "count"')
        regression = emblem.train(rows.make(300), label="count", task="number", epochs=1, progress=False)
        self.assertIn("l2_loss", regression.pipeline.text)
        with self.assertRaisesRegex(emblem.Error, "weight is given with a pipeline"):
            self.train(weight="weight")

    def test_columns_are_named_by_position(self):
        codes = np.random.default_rng(1).integers(0, 3, size=(400, 3))
        model = emblem.train(codes.astype(np.float64), label="x2", task="number", categories=[0], epochs=1, progress=False)
        self.assertRegex(model.pipeline.text, r'id_feature \{\s*feature_name: "x0"')
        frame = pandas.DataFrame(codes, columns=["a", "b", "c"])
        self.assertRegex(emblem.init(frame, "c", task="number", categories=[-2]).text, r'id_feature \{\s*feature_name: "b"')
        with self.assertRaisesRegex(emblem.Error, "categories has 7; expected names of columns, or positions of 0 to 2"):
            emblem.init(frame, "c", categories=[7])
        with self.assertRaisesRegex(emblem.Error, "columns of a str are not known"):
            emblem.init("rows.parquet", "c", categories=[0])

    def test_everyday_settings(self):
        model = self.train(seed=9, batch_size=50, lr=0.03, epochs=2, settings={"train_config.seed": 8})
        train = model.pipeline.train_config
        self.assertEqual((train.seed, model.pipeline.data_config.batch_size, train.num_epochs), (8, 50, 2))
        self.assertAlmostEqual(train.sparse_optimizer.adagrad_optimizer.lr, 0.03)
        self.assertAlmostEqual(train.dense_optimizer.adam_optimizer.lr, 0.03)
        self.assertEqual(self.train(seed=9, epochs=1).pipeline.train_config.seed, 9)

    def test_warnings_of_init_are_logged_once(self):
        data = dict(rows.make(300), click=np.ones(300, np.int64))
        with self.assertLogs("emblem", "WARNING") as lines:
            emblem.train(data, label="click", epochs=1, progress=False)
        found = [line for line in lines.output if "all 300 sampled rows have the label" in line]
        self.assertEqual(len(found), 1, lines.output)


class MisuseTest(Folder):
    def test_a_pipeline_that_is_not_there(self):
        for path in ("missing.config", "configs/missing", pathlib.Path("missing.txt")):
            with self.assertRaisesRegex(emblem.Error, "there is no pipeline .*missing") as raised:
                emblem.Pipeline(path)
            self.assertEqual(raised.exception.code, "not_found")
        with self.assertRaisesRegex(TypeError, "a pipeline is a DataFrame; expected"):
            emblem.Pipeline(pandas.DataFrame())

    def test_types_are_named(self):
        for options, said in [({"threads": "two"}, "threads is 'two' .str.; expected a whole number"),
                              ({"max_steps": 1.5}, "max_steps is 1.5 .float.; expected a whole number"),
                              ({"device": 0}, "device is 0 .int.; expected text"), ({"lr": "fast"}, "lr is 'fast' .str.; expected a number"),
                              ({"early_stopping": "auc"}, "early_stopping is 'auc'"), ({"on_step": 5}, "on_step is a int"),
                              ({"settings": [1]}, "settings is a list; expected a dict"), ({"holdout": "all"}, "holdout is 'all'")]:
            with self.assertRaisesRegex(TypeError, said):
                self.train(**options)
        for call, said in [(lambda: emblem.init(rows.make(), label=5), "label is 5"),
                           (lambda: emblem.init(rows.make(), "click", tune="much"), "tune is 'much'"),
                           (lambda: emblem.load(self.folder, threads=None), "threads is None")]:
            with self.assertRaisesRegex(TypeError, said):
                call()
        with self.assertRaisesRegex(emblem.Error, "num_epochs"):
            self.train(epochs="three")

    def test_ctrl_c_keeps_what_was_learned_and_names_it(self):
        def interrupt(event):
            os.kill(os.getpid(), signal.SIGINT)
        with self.assertLogs("emblem", "WARNING") as lines, self.assertRaisesRegex(
                KeyboardInterrupt, "after 5 steps; what was learned is in") as raised:
            self.train(epochs=1000, settings={"train_config.log_step_count_steps": 5}, on_step=interrupt)
        checkpoint = str(raised.exception).rpartition(" is in ")[2]
        self.assertIn(checkpoint, lines.output[0])
        self.addCleanup(lambda: __import__("shutil").rmtree(pathlib.Path(checkpoint).parents[1]))
        self.assertEqual(emblem.load(checkpoint).step, 5)

    def test_a_folder_without_anything_learned_goes(self):
        def interrupt(*_):
            raise KeyboardInterrupt
        with mock.patch("emblem.training._to_the_end", interrupt), mock.patch(
                "emblem._folder.tempfile.mkdtemp", return_value=str(self.folder / "kept")):
            (self.folder / "kept").mkdir()
            with self.assertRaises(KeyboardInterrupt):
                self.train()
        self.assertFalse((self.folder / "kept").exists())


if __name__ == "__main__":
    unittest.main()
