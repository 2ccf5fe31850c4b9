"""Types of data_config.input_fields that the data contradict, in every format: never silently."""

import pathlib
import shutil
import tempfile
import unittest

from harness import run, use_arrow, use_test_clients

use_arrow()
use_test_clients("pyarrow")
import pyarrow
import pyarrow.csv
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet

READERS = {"csv": "CsvDataset", "parquet": "ParquetDataset", "orc": "OrcDataset", "arrow": "ArrowDataset"}
TYPED = ("parquet", "orc", "arrow")
PIPELINE = """
train_input_path: "{data}"
model_dir: "{model}"
train_config {{
  sparse_optimizer {{ adagrad_optimizer {{ lr: 0.1 }} }}
  dense_optimizer {{ adam_optimizer {{ lr: 0.01 }} }}
  num_epochs: 1
  save_checkpoints_steps: 0
}}
data_config {{
  fg_mode: FG_DAG dataset_type: {type} with_header: true label_fields: "label" batch_size: 20
  input_fields {{ input_name: "{column}" input_type: {declared} }}
}}
feature_configs {{ {feature} {{ feature_name: "{column}" {settings} }} }}
model_config {{
  feature_groups {{ group_name: "deep" feature_names: "{column}" }}
  dnn {{ deep {{ hidden_units: [4] }} }}
  losses {{ binary_cross_entropy {{}} }}
}}
"""
ID = ("id_feature", "embedding_dim: 4 hash_bucket_size: 100")
RAW = ("raw_feature", "")


class InputFields(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def train(self, form, values, declared, kind=ID):
        path = self.folder / f"data.{form}"
        table = pyarrow.table({"label": [0, 1] * 50, "x": (values * 100)[:100]})
        writers = {"csv": pyarrow.csv.write_csv, "parquet": pyarrow.parquet.write_table, "orc": pyarrow.orc.write_table,
                   "arrow": lambda table, path: pyarrow.feather.write_feather(table, path, compression="uncompressed")}
        writers[form](table, path)
        config = self.folder / "pipeline.config"
        model = self.folder / "model"
        shutil.rmtree(model, ignore_errors=True)
        config.write_text(PIPELINE.format(data=path, model=model, type=READERS[form], declared=declared,
                                          column="x", feature=kind[0], settings=kind[1]))
        return run("train", "--config", config)

    def assert_clean(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("input_fields", done.stderr)

    def assert_refused(self, done, *parts):
        self.assertNotEqual(done.returncode, 0)
        for part in ("input_type", *parts):
            self.assertIn(part, done.stderr)

    def assert_warned(self, done, *parts):
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line for line in done.stderr.splitlines() if "input_fields" in line]
        self.assertEqual(len(lines), 1, done.stderr)
        for part in ("warning", *parts):
            self.assertIn(part, lines[0])

    def test_types_that_fit_say_nothing(self):
        for form in READERS:
            with self.subTest(form):
                self.assert_clean(self.train(form, [1, 2, None], "INT64"))
                self.assert_clean(self.train(form, ["a", "b", None], "STRING"))
                self.assert_clean(self.train(form, [1.5, 2.0, None], "FLOAT", RAW))
                self.assert_clean(self.train(form, [1, 2, 3], "DOUBLE", RAW))
                self.assert_clean(self.train(form, ["1.0", "NA", "2"], "INT32", RAW))

    def test_text_that_is_no_number(self):
        for form in READERS:
            with self.subTest(form):
                done = self.train(form, ["1.5", "2", "old"], "FLOAT")
                self.assert_refused(done, f"data.{form}", "column x", '"old" is not a number', "input_type: FLOAT")
                done = self.train(form, ["1", "2", "old"], "INT64")
                self.assert_refused(done, f"data.{form}", "column x", '"old" is not an integer', "STRING")

    def test_fractions_that_are_declared_as_integers(self):
        for form in READERS:
            with self.subTest(form):
                done = self.train(form, ["1", "2.5"], "INT32", RAW)
                self.assert_refused(done, f"data.{form}", "column x", '"2.5" is not an integer', "INT32")
        for form in TYPED:
            with self.subTest(form):
                done = self.train(form, [1.0, 2.5], "INT32", RAW)
                self.assert_warned(done, f"data.{form}", 'column "x" is double', "INT32", "correct input_type")

    def test_numbers_that_are_declared_as_text(self):
        self.assert_clean(self.train("csv", [1, 2], "STRING"))
        for form in TYPED:
            with self.subTest(form):
                done = self.train(form, [1, 2], "STRING")
                self.assert_warned(done, f"data.{form}", 'column "x" is integer', "STRING", "correct input_type")

    def test_lists(self):
        for form in TYPED:
            with self.subTest(form):
                self.assert_clean(self.train(form, [[1, 2], [3]], "ARRAY_INT64"))
                self.assert_warned(self.train(form, [[1, 2], [3]], "INT64"), 'column "x" is list of integer')
                self.assert_warned(self.train(form, [1, 2], "ARRAY_INT64"), 'column "x" is integer')

    def test_fixed_columns(self):
        data = self.folder / "data.tsv"
        data.write_text("".join(f"{row % 2}\t{row % 5}\t{row % 7:08x}\n" for row in range(100)))
        config = self.folder / "pipeline.config"
        config.write_text(PIPELINE.format(data=data, model=self.folder / "model", type="CriteoTsvDataset num_dense: 1 "
                                          "num_sparse: 1", declared="STRING", column="C1", feature=ID[0], settings=ID[1]))
        self.assert_warned(run("train", "--config", config), "CriteoTsvDataset", "no effect")


if __name__ == "__main__":
    unittest.main()
