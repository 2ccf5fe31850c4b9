"""Models whose ids are integers in Parquet files: served rows have the predictions of `emblem predict`."""

import csv
import json
import random
import unittest
import urllib.request

from harness import EmblemTest, run, use_arrow, use_test_clients

use_arrow()
use_test_clients("tritonclient", "pyarrow")
import pyarrow
import pyarrow.parquet
import serve_test

PIPELINE = """
train_input_path: "{data}"
model_dir: "{model}"
train_config {{
  sparse_optimizer {{ adagrad_optimizer {{ lr: 0.2 }} }}
  dense_optimizer {{ adam_optimizer {{ lr: 0.01 }} }}
  num_epochs: 3
  save_checkpoints_steps: 0
  seed: 7
}}
data_config {{ fg_mode: FG_DAG dataset_type: {type} with_header: true label_fields: "label" batch_size: 64 }}
feature_configs {{ id_feature {{ feature_name: "user" embedding_dim: 4 dynamicemb {{ max_capacity: 5000 }} }} }}
feature_configs {{
  sequence_feature {{
    sequence_name: "seen" sequence_length: 5 sequence_delim: "|"
    features {{ id_feature {{ feature_name: "item" embedding_dim: 4 dynamicemb {{ max_capacity: 5000 }} }} }}
  }}
}}
model_config {{
  feature_groups {{
    group_name: "deep" feature_names: "user"
    sequence_groups {{ group_name: "items" feature_names: "seen__item" }}
    sequence_encoders {{ pooling_encoder {{ input: "items" pooling_type: "mean" }} }}
  }}
  dnn {{ deep {{ hidden_units: [16] }} }}
  losses {{ binary_cross_entropy {{}} }}
  metrics {{ auc {{}} }}
}}
"""


def make_rows(count):
    source = random.Random(3)
    users = [source.randrange(1 << 40) for _ in range(50)]
    rows = []
    for _ in range(count):
        user = source.randrange(50)
        items = [source.randrange(20) for _ in range(source.randrange(1, 6))]
        rows.append({"label": int(user % 2 == items[0] % 2), "user": users[user], "seen__item": items})
    return rows


class ParquetServe(EmblemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rows = make_rows(1500)
        columns = {name: [row[name] for row in cls.rows] for name in cls.rows[0]}
        pyarrow.parquet.write_table(pyarrow.table(columns), cls.folder / "rows.parquet")
        with open(cls.folder / "rows.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows([row["label"], row["user"], "|".join(map(str, row["seen__item"]))] for row in cls.rows)

    def train(self, format, type):
        config = self.write_config(f"{format}.config", PIPELINE.format(
            data=self.folder / f"rows.{format}", model=self.folder / f"of-{format}", type=type))
        process = run("train", "--config", config)
        self.assertEqual(process.returncode, 0, process.stderr)

    def predictions(self, trained_on, format, *options):
        out = self.folder / f"{trained_on}-{format}.csv"
        process = run("predict", "--checkpoint", self.folder / f"of-{trained_on}", "--input",
                      self.folder / f"rows.{format}", "--out", out, *options)
        self.assertEqual(process.returncode, 0, process.stderr)
        return [float(line) for line in out.read_text().splitlines()[1:]]

    def served(self, url, count, user, items):
        request = {"inputs": [{"name": "user", "shape": [count, 1], **user}, *items]}
        answer = urllib.request.urlopen(urllib.request.Request(url + "/infer", json.dumps(request).encode()))
        return json.load(answer)["outputs"][0]["data"]

    def test_served_integers_are_the_keys_of_training(self):
        self.train("parquet", "ParquetDataset")
        expected = self.predictions("parquet", "parquet")[:200]
        self.assertGreater(len({round(value, 3) for value in expected}), 50)
        exported = run("export", "--checkpoint", self.folder / "of-parquet", "--out", self.folder / "repository/clicks")
        self.assertEqual(exported.returncode, 0, exported.stderr)
        self.assertNotIn("warning", exported.stderr)
        server = serve_test.Server(self.folder / "repository")
        self.addCleanup(server.stop)
        url = f"http://{server.http}/v2/models/clicks"
        types = {one["name"]: one["datatype"] for one in json.load(urllib.request.urlopen(url))["inputs"]}
        self.assertEqual(types, {"user": "INT64", "seen__item": "INT64"})
        rows = self.rows[:200]
        users = {"datatype": "INT64", "data": [row["user"] for row in rows]}
        offsets = [0]
        for row in rows:
            offsets.append(offsets[-1] + len(row["seen__item"]))
        items = [{"name": "seen__item", "shape": [offsets[-1]], "datatype": "INT64",
                  "data": [item for row in rows for item in row["seen__item"]]},
                 {"name": "seen__item.offsets", "shape": [len(offsets)], "datatype": "INT64", "data": offsets}]
        for value, wanted in zip(self.served(url, len(rows), users, items), expected):
            self.assertAlmostEqual(value, wanted, delta=1e-6)
        # The rows of a CSV file, read as integers.
        as_csv = self.predictions("parquet", "csv", "--set", "data_config.dataset_type=CsvDataset")
        self.assertEqual(as_csv[:200], expected)

    def test_a_model_of_csv_files_reads_integers_as_its_text(self):
        self.train("csv", "CsvDataset")
        expected = self.predictions("csv", "csv")
        self.assertGreater(len({round(value, 3) for value in expected}), 50)
        as_parquet = self.predictions("csv", "parquet", "--set", "data_config.dataset_type=ParquetDataset")
        self.assertEqual(as_parquet, expected)


if __name__ == "__main__":
    unittest.main()
