"""A server of a model with sequences runs out of memory and gets it back: requests fail meanwhile, and no later ones.

On the CPU, and on a GPU where there is one."""

import http.client
import json
import os
import pathlib
import random
import re
import tempfile
import unittest

from harness import EmblemTest, Server, gpu_is_missing, run

PIPELINE = """
train_input_path: "{data}/train.csv"
train_config {{
  sparse_optimizer {{ adagrad_optimizer {{ lr: 0.1 }} }}
  dense_optimizer {{ adam_optimizer {{ lr: 0.01 }} }}
  num_epochs: 2
  save_checkpoints_steps: 0
}}
data_config {{ dataset_type: CsvDataset fg_mode: FG_DAG with_header: true batch_size: 32 label_fields: "clk" }}
feature_configs {{ id_feature {{ feature_name: "user" num_buckets: 50 embedding_dim: 8 }} }}
feature_configs {{ id_feature {{ feature_name: "item" num_buckets: 40 embedding_dim: 8 embedding_name: "items" }} }}
feature_configs {{
  sequence_feature {{
    sequence_name: "seen" sequence_length: 2000 sequence_delim: "|"
    features {{ id_feature {{ feature_name: "item" num_buckets: 40 embedding_dim: 8 embedding_name: "items" }} }}
  }}
}}
model_config {{
  feature_groups {{ group_name: "deep" feature_names: ["user", "item"] }}
  feature_groups {{ group_name: "seq" group_type: SEQUENCE feature_names: ["item", "seen__item"] }}
  multi_tower_din {{
    towers {{ input: "deep" mlp {{ hidden_units: 8 }} }}
    din_towers {{ input: "seq" attn_mlp {{ hidden_units: 8 }} }} final {{ hidden_units: 8 }}
  }}
  losses {{ binary_cross_entropy {{}} }} metrics {{ auc {{}} }}
}}
"""


class ServeMemory(EmblemTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        config = cls.write_config("pipeline.config", PIPELINE.format(data=cls.folder))
        chance = random.Random(1)
        rows = [(chance.randrange(50), chance.randrange(40), [chance.randrange(40) for _ in range(chance.randrange(6))])
                for _ in range(400)]
        lines = [f"{int(item in seen)},{user},{item},{'|'.join(map(str, seen))}" for user, item, seen in rows]
        (cls.folder / "train.csv").write_text("clk,user,item,seen__item\n" + "\n".join(lines) + "\n")
        for done in (run("train", "--config", config, "--model-dir", cls.folder / "model"),
                     run("export", "--checkpoint", cls.folder / "model", "--out", cls.folder / "repository/din")):
            assert done.returncode == 0, done.stderr
        # One engine, so that all requests use the same memory.
        config = cls.folder / "repository/din/config.pbtxt"
        kept = re.sub(r"instance_group\s*\[.*?\]|instance_group\s*\{.*?\}", "", config.read_text(), flags=re.DOTALL)
        config.write_text(kept + "\ninstance_group [{ count: 1 }]\n")

    def request(self, rows, length):
        """Of `rows` rows whose sequences have `length` elements."""
        def tensor(name, values, shape=(rows, 1)):
            return {"name": name, "datatype": "INT64", "shape": list(shape), "data": values}
        elements = [(row + element) % 40 for row in range(rows) for element in range(length)]
        return json.dumps({"inputs": [
            tensor("user", [row % 50 for row in range(rows)]), tensor("item", [row % 40 for row in range(rows)]),
            tensor("seen__item", elements, (len(elements),)),
            tensor("seen__item.offsets", [row * length for row in range(rows + 1)], (rows + 1,))]})

    def infer(self, server, body):
        connection = http.client.HTTPConnection(server.http, timeout=300)
        connection.request("POST", "/v2/models/din/infer", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        return response.status, answer["outputs"][0]["data"] if response.status == 200 else answer["error"]

    def check_server(self, device):
        faults = self.folder / f"faults-{device}"
        server = Server(self.folder / "repository", "--device", device,
                        env={**os.environ, "EMBLEM_TEST_ALLOCATION_FAULTS": str(faults)})
        try:
            small = self.request(3, 2)
            status, of_small = self.infer(server, small)
            self.assertEqual(status, 200, of_small)
            expected = {}
            for length in (100, 400, 1600):
                large = self.request(20, length)
                # No memory at all.
                faults.write_text("all")
                for _ in range(3):
                    status, message = self.infer(server, large)
                    self.assertEqual(status, 503, message)
                    self.assertIn("memory", message)
                    self.assertEqual(self.infer(server, small), (200, of_small))
                # Each allocation of the request fails once, with the memory of the ones before.
                for number in range(200):
                    faults.write_text(str(number))
                    status, answer = self.infer(server, large)
                    reached = faults.read_text() == "failed"
                    self.assertIn(status, (200, 503), answer)
                    if not reached:
                        break
                faults.unlink()
                self.assertFalse(reached)
                expected[length] = self.infer(server, large)
                self.assertEqual(expected[length][0], 200, expected[length])
                self.assertEqual(self.infer(server, small), (200, of_small))
        finally:
            server.stop()
        fresh = Server(self.folder / "repository", "--device", device)
        try:
            for length, answer in expected.items():
                self.assertEqual(self.infer(fresh, self.request(20, length)), answer)
        finally:
            fresh.stop()

    def test_requests_on_a_cpu(self):
        self.check_server("cpu")

    def test_requests_on_a_gpu(self):
        missing = gpu_is_missing()
        if missing:
            self.skipTest(missing)
        self.check_server("cuda")


if __name__ == "__main__":
    unittest.main(verbosity=2)
