"""A model of CSV columns, some with several values in a field: a served row has the prediction of `emblem predict`."""

import random
import unittest

from harness import EmblemTest, use_test_clients

use_test_clients("tritonclient")
import numpy as np
import serve_test
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

PIPELINE = """
train_input_path: "{data}/train.csv"
eval_input_path: "{data}/test.csv"
model_dir: "{model}"
train_config {{
  sparse_optimizer {{ adagrad_optimizer {{ lr: 0.1 }} }}
  dense_optimizer {{ adam_optimizer {{ lr: 0.01 }} }}
  num_epochs: 2
  save_checkpoints_steps: 0
  seed: 7
}}
data_config {{
  fg_mode: FG_DAG
  dataset_type: CsvDataset batch_size: 64 with_header: true label_fields: "label" fg_encoded_multival_sep: ";"
}}
feature_configs {{ raw_feature {{ feature_name: "age" default_value: "30" }} }}
feature_configs {{ raw_feature {{ feature_name: "place" value_dim: 2 separator: "," }} }}
feature_configs {{
  id_feature {{ feature_name: "genres" embedding_dim: 4 hash_bucket_size: 500 separator: "|" }}
}}
feature_configs {{
  id_feature {{ feature_name: "tags" embedding_dim: 4 dynamicemb {{ max_capacity: 500 }} separator: "|" weighted: true }}
}}
feature_configs {{ id_feature {{ feature_name: "shops" embedding_dim: 4 num_buckets: 20 separator: "|" default_value: "3" }} }}
model_config {{
  feature_groups {{ group_name: "dense" feature_names: "age" feature_names: "place" }}
  feature_groups {{ group_name: "sparse" feature_names: "genres" feature_names: "tags" feature_names: "shops" }}
  dlrm {{ dense_mlp {{ hidden_units: [8, 4] }} final {{ hidden_units: [16] }} }}
  losses {{ binary_cross_entropy {{}} }}
  metrics {{ auc {{ thresholds: 0 }} }}
}}
"""
GENRES = ["Action", "Comedy", "Drama", "Film-Noir", "Sci-Fi", "Musical"]
MISSING = np.iinfo(np.int64).min


def make_row(source):
    """The fields of a row as they stand in the file."""
    genres = source.sample(GENRES, source.randrange(4))
    tags = [f"{tag}:{source.randrange(1, 9) / 4}" for tag in source.sample(GENRES, source.randrange(3))]
    shops = source.sample(range(20), source.randrange(3))
    return {"label": str(int("Comedy" in genres)),
            "age": str(source.randrange(80)) if source.random() < 0.9 else "",
            "place": f"{source.random():.3f},{source.random():.3f}" if source.random() < 0.9 else "",
            "genres": source.choice("|;").join(genres) + source.choice(["", "|", ";|"]),
            "tags": "|".join(tags),
            "shops": "|".join(map(str, shops))}


def write_csv(path, rows):
    quoted = [",".join('"' + row[name].replace('"', '""') + '"' for name in rows[0]) for row in rows]
    path.write_text("\n".join([",".join(rows[0]), *quoted]) + "\n")


class CsvServe(EmblemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        source = random.Random(3)
        cls.rows = [make_row(source) for _ in range(300)]
        write_csv(cls.folder / "train.csv", [make_row(source) for _ in range(2000)])
        write_csv(cls.folder / "test.csv", cls.rows)
        cls.config = cls.write_config("csv.config", PIPELINE.format(data=cls.folder, model=cls.folder / "model"))
        cls.make_served("films")
        cls.make(["predict", "--checkpoint", cls.folder / "model", "--input", cls.folder / "test.csv", "--out",
                  cls.folder / "predictions.csv"])
        lines = (cls.folder / "predictions.csv").read_text().splitlines()[1:]
        cls.expected = np.array([float(line) for line in lines]).astype(np.float32)
        cls.server = serve_test.Server(cls.folder / "repository")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        super().tearDownClass()

    def inputs(self, client, rows, split=False):
        """Fields of text as they stand in the file, or, with `split`, one value per element."""
        def tensor(name, values, kind):
            made = client.InferInput(name, list(values.shape), kind)
            made.set_data_from_numpy(values)
            return made

        def text(name):
            fields = [row[name] for row in rows]
            if not split:
                return tensor(name, np.array([[field.encode()] for field in fields], dtype=object), "BYTES")
            bags = [field.replace(";", "|").split("|") for field in fields]
            width = max(map(len, bags))
            return tensor(name, np.array([[value.encode() for value in bag] + [b""] * (width - len(bag))
                                          for bag in bags], dtype=object), "BYTES")

        ages = np.array([[float(row["age"] or "nan")] for row in rows], np.float32)
        places = np.array([[float(x) for x in (row["place"] or "nan,nan").split(",")] for row in rows], np.float32)
        bags = [[int(shop) for shop in row["shops"].split("|") if shop] for row in rows]
        shops = np.array([bag + [MISSING] * (3 - len(bag)) for bag in bags], np.int64)
        return [tensor("age", ages, "FP32"), tensor("place", places, "FP32"), text("genres"), text("tags"),
                tensor("shops", shops, "INT64")]

    def test_fields_with_several_values_are_split_as_training_splits_them(self):
        self.assertGreater(len(set(self.expected)), 100)
        for module, address in ((triton_http, self.server.http), (triton_grpc, self.server.grpc)):
            for split in (False, True):
                with self.subTest(module=module.__name__, split=split), module.InferenceServerClient(address) as client:
                    result = client.infer("films", self.inputs(module, self.rows, split)).as_numpy("probability")
                    np.testing.assert_array_equal(result[:, 0], self.expected)

    def test_a_value_that_training_refuses_is_refused(self):
        with triton_http.InferenceServerClient(self.server.http) as client:
            row = {**self.rows[0], "tags": "Drama:1|Comedy"}
            with self.assertRaisesRegex(Exception, r'input \'tags\', row 0: "Comedy" is not a weighted value'):
                client.infer("films", self.inputs(triton_http, [row]))


if __name__ == "__main__":
    unittest.main()
