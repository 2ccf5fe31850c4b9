"""Columns with names of any alphabet are trained, exported and served."""

import http.client
import json
import random
import unittest

from harness import EmblemTest, Server, run

PIPELINE = """
train_input_path: "{data}"
model_dir: "{model}"
train_config {{
  sparse_optimizer {{ adagrad_optimizer {{ lr: 0.1 }} }}
  dense_optimizer {{ adam_optimizer {{ lr: 0.01 }} }}
  num_epochs: 1
  save_checkpoints_steps: 0
}}
data_config {{ fg_mode: FG_DAG batch_size: 64 with_header: true label_fields: "label" }}
feature_configs {{ id_feature {{ feature_name: "Größe" embedding_dim: 4 hash_bucket_size: 50 }} }}
feature_configs {{ id_feature {{ feature_name: "a \\"b\\"" embedding_dim: 4 dynamicemb {{ max_capacity: 100 }} }} }}
feature_configs {{ raw_feature {{ feature_name: "日本" }} }}
model_config {{
  feature_groups {{ group_name: "all" feature_names: "Größe" feature_names: "a \\"b\\"" feature_names: "日本" }}
  dnn {{ deep {{ hidden_units: [8] }} }}
  metrics {{ auc {{ thresholds: 0 }} }}
}}
"""


class Names(EmblemTest):
    rows = 10

    def test_columns_of_any_alphabet_are_served(self):
        chance = random.Random(5)
        data, model, repository = self.folder / "names.csv", self.folder / "names", self.folder / "repository"
        rows = [f"{chance.randrange(2)},{chance.choice('SML')},{chance.choice('xyz')},{chance.random():.3f}"
                for _ in range(500)]
        data.write_text("\n".join(['label,Größe,"a ""b""",日本', *rows]) + "\n")
        config = self.write_config("names.config", PIPELINE.format(data=data, model=model))
        self.succeed(run("train", "--config", config))
        self.succeed(run("export", "--checkpoint", model, "--out", repository / "ctr"))
        self.succeed(run("predict", "--checkpoint", model, "--input", data, "--out", self.folder / "out.csv"))
        expected = [float(line) for line in (self.folder / "out.csv").read_text().splitlines()[1:4]]
        server = Server(repository)
        try:
            status, answer = self.infer(server, [row.split(",") for row in rows[:3]])
            self.assertEqual(status, 200, answer)
            for served, predicted in zip(answer["outputs"][0]["data"], expected):
                self.assertAlmostEqual(served, predicted, places=5)
            metrics = server.get("/metrics", server.metrics)[1].decode()
            for name in ("Größe_emb", 'a \\"b\\"_emb'):
                self.assertIn(f'emblem_missing_keys_total{{model="ctr",version="1",table="{name}"}}', metrics)
        finally:
            server.stop()

    def infer(self, server, rows):
        def tensor(name, kind, values):
            return {"name": name, "datatype": kind, "shape": [len(rows), 1], "data": values}

        body = json.dumps({"inputs": [tensor("Größe", "BYTES", [row[1] for row in rows]),
                                      tensor('a "b"', "BYTES", [row[2] for row in rows]),
                                      tensor("日本", "FP32", [float(row[3]) for row in rows])]})
        connection = http.client.HTTPConnection(server.http, timeout=60)
        connection.request("POST", "/v2/models/ctr/infer", body)
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        return response.status, answer


if __name__ == "__main__":
    unittest.main()
