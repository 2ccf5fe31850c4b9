"""Sequences of one group whose lengths differ: a server cuts and pads them as files are read, over every protocol."""

import random
import unittest

from harness import EmblemTest, Server, run, use_test_clients

use_test_clients("tritonclient")
import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

PIPELINE = """
train_input_path: "{folder}/train.csv" eval_input_path: "{folder}/train.csv" model_dir: "{folder}/model"
train_config {{
  sparse_optimizer {{ adagrad_optimizer {{ lr: 0.1 }} }} dense_optimizer {{ adam_optimizer {{ lr: 0.01 }} }}
  num_epochs: 1 save_checkpoints_steps: 0 }}
data_config {{ fg_mode: FG_DAG dataset_type: CsvDataset batch_size: 64 with_header: true label_fields: "label" }}
feature_configs {{ id_feature {{ feature_name: "item" num_buckets: 30 embedding_dim: 8 }} }}
feature_configs {{ id_feature {{ feature_name: "brand" num_buckets: 10 embedding_dim: 8 }} }}
feature_configs {{ sequence_feature {{
  sequence_name: "click" sequence_length: 20 sequence_delim: ";"
  features {{ id_feature {{ feature_name: "item" num_buckets: 30 embedding_dim: 8 }} }}
  features {{ id_feature {{ feature_name: "brand" num_buckets: 10 embedding_dim: 8 }} }} }} }}
model_config {{
  feature_groups {{ group_name: "all" feature_names: ["item", "brand"] }}
  feature_groups {{ group_name: "click" group_type: SEQUENCE
    feature_names: ["item", "brand", "click__item", "click__brand"] }}
  multi_tower_din {{
    towers {{ input: "all" mlp {{ hidden_units: [16] }} }}
    din_towers {{ input: "click" attn_mlp {{ hidden_units: [8] }} }}
    final {{ hidden_units: [8] }} }}
  losses {{ binary_cross_entropy {{}} }} metrics {{ auc {{}} }} }}
"""
# item, brand, and the clicks, of which brands are fewer, more, none, or alone.
UNEVEN = [(3, 3, [1, 2, 3], [1, 2]), (4, 4, [1, 2], [1, 2, 3]), (5, 5, [1], []), (6, 6, [], [1, 2])]


def write_csv(path, rows):
    fields = [[0, item, brand, *(";".join(map(str, clicks)) for clicks in sequences)] for item, brand, *sequences in rows]
    path.write_text("\n".join(["label,item,brand,click__item,click__brand", *(",".join(map(str, row)) for row in fields)]))


class UnevenSequences(EmblemTest):
    rows = 100

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        source = random.Random(5)
        clicks = [[(source.randrange(30), source.randrange(10)) for _ in range(source.randrange(1, 5))]
                  for _ in range(300)]
        write_csv(cls.folder / "train.csv", [(source.randrange(30), source.randrange(10), [item for item, _ in row],
                                              [brand for _, brand in row]) for row in clicks])
        write_csv(cls.folder / "uneven.csv", UNEVEN)
        cls.make_served("din", config=cls.write_config("din.config", PIPELINE.format(folder=cls.folder)))

    @staticmethod
    def tensor(triton, name, values, **options):
        tensor = triton.InferInput(name, list(values.shape), "BYTES" if values.dtype == object else "INT64")
        tensor.set_data_from_numpy(values, **options)
        return tensor

    @staticmethod
    def tensors_of(name, clicks, form):
        """A sequence in one of the forms that servers take."""
        if form == "text":
            return {name: np.array([[";".join(map(str, row)).encode()] for row in clicks], dtype=object)}
        if form == "offsets":
            return {name: np.array([click for row in clicks for click in row], dtype=np.int64),
                    name + ".offsets": np.cumsum([0, *map(len, clicks)]).astype(np.int64)}
        longest = max(map(len, clicks))
        return {name: np.array([row + [0] * (longest - len(row)) for row in clicks], dtype=np.int64),
                name + ".lengths": np.array([len(row) for row in clicks], dtype=np.int64)}

    def test_answers_are_the_predictions_of_the_file(self):
        out = self.folder / "predictions.csv"
        predicted = self.succeed(run("predict", "--checkpoint", self.folder / "model", "--input",
                                     self.folder / "uneven.csv", "--out", out))
        self.assertIn("3 sequences had another length than the first feature of their group and were cut or padded",
                      predicted.stderr)
        expected = np.array([float(line) for line in out.read_text().split()[1:]], dtype=np.float32)
        server = Server(self.folder / "repository")
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        http, grpc = triton_http.InferenceServerClient(server.http), triton_grpc.InferenceServerClient(server.grpc)
        items, brands, *clicks = zip(*UNEVEN)
        for client, triton, options in ((http, triton_http, {}), (http, triton_http, {"binary_data": False}),
                                        (grpc, triton_grpc, {})):
            for form in ("text", "offsets", "padded"):
                with self.subTest(protocol=triton.__name__, form=form, **options):
                    tensors = {"item": np.array(items).reshape(-1, 1), "brand": np.array(brands).reshape(-1, 1),
                               **self.tensors_of("click__item", clicks[0], form),
                               **self.tensors_of("click__brand", clicks[1], form)}
                    answer = client.infer("din", [self.tensor(triton, name, values, **options)
                                                  for name, values in tensors.items()])
                    np.testing.assert_array_equal(answer.as_numpy("probability").ravel(), expected)
        http.close()
        grpc.close()
        server.stop()
        warnings = [line for line in server.lines if "3 sequences had another length" in line]
        self.assertEqual(len(warnings), 1, server.lines)
        self.assertIn("repository/din/1: in a batch of requests, 3 sequences", warnings[0])


if __name__ == "__main__":
    unittest.main()
