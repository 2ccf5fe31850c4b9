"""Requests with large bags and sequences: a server's memory follows --max-memory, and is given back after the last one."""

import http.client
import json
import pathlib
import random
import struct
import unittest

from harness import EmblemTest, Server, becomes_true

PIPELINE = """
train_input_path: "{folder}/train.csv" eval_input_path: "{folder}/train.csv" model_dir: "{folder}/model"
train_config {{
  sparse_optimizer {{ adagrad_optimizer {{ lr: 0.1 }} }} dense_optimizer {{ adam_optimizer {{ lr: 0.01 }} }}
  num_epochs: 1 save_checkpoints_steps: 0 }}
data_config {{ fg_mode: FG_DAG dataset_type: CsvDataset batch_size: 64 with_header: true label_fields: "label" }}
feature_configs {{ id_feature {{ feature_name: "words" embedding_dim: 16 hash_bucket_size: 500 separator: "|" }} }}
feature_configs {{ sequence_feature {{
  sequence_name: "click" sequence_length: 10000000 sequence_delim: ";"
  features {{ id_feature {{ feature_name: "item" num_buckets: 30 embedding_dim: 16 }} }} }} }}
model_config {{
  feature_groups {{ group_name: "deep" feature_names: "words"
    sequence_groups {{ group_name: "click" feature_names: "click__item" }}
    sequence_encoders {{ pooling_encoder {{ input: "click" }} }} }}
  mmoe {{ expert_mlp {{ hidden_units: 5 }} num_expert: 2
    task_towers {{ tower_name: "ctr" label_name: "label" losses {{ binary_cross_entropy {{}} }} metrics {{ auc {{}} }} }} }} }}
"""
MIB = 1 << 20
MAX_MEMORY = 128 * MIB
SLACK = 64 * MIB  # buffers of threads and connections, and what the allocator keeps


class Bags(EmblemTest):
    rows = 100

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        source = random.Random(5)
        lines = ["label,words,click__item"]
        for _ in range(300):
            words = "|".join(source.sample("abcdefgh", 3))
            lines.append(f"{int('a' in words)},{words},{source.randrange(30)};{source.randrange(30)}")
        (cls.folder / "train.csv").write_text("\n".join(lines) + "\n")
        cls.make_served("bags", config=cls.write_config("bags.config", PIPELINE.format(folder=cls.folder)))

    def start(self, *options):
        server = Server(self.folder / "repository", "--max-memory", f"{MAX_MEMORY // MIB}MiB", *options)
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        return server

    @staticmethod
    def memory(server, field):
        status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith(field))) << 10

    @staticmethod
    def post(server, path, body, headers=None):
        connection = http.client.HTTPConnection(server.http, timeout=300)
        connection.request("POST", path, body, headers or {})
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        return response.status, answer

    def ask(self, server, words, clicks):
        """The status for one row of two texts."""
        head = json.dumps({"inputs": [
            {"name": name, "datatype": "BYTES", "shape": [1, 1], "parameters": {"binary_data_size": len(text) + 4}}
            for name, text in (("words", words), ("click__item", clicks))]}).encode()
        data = b"".join(struct.pack("<I", len(text)) + text for text in (words, clicks))
        return self.post(server, "/v2/models/bags/infer", head + data, {"Inference-Header-Content-Length": str(len(head))})

    def expect_small(self, server, before):
        self.assertIsNone(server.process.poll(), "".join(server.lines))
        self.assertLess(self.memory(server, "VmHWM") - before, MAX_MEMORY + SLACK)
        self.assertEqual(self.ask(server, b"a|b", b"1;2")[0], 200)

    def test_bags_and_sequences(self):
        server = self.start()
        self.assertEqual(self.ask(server, b"a|b", b"1;2")[0], 200)
        before = self.memory(server, "VmHWM")
        for million in (0.1, 1, 4):
            many = int(million * 1e6)
            for words, clicks in ((b"a|" * many, b"1"), (b"a", b"1;" * many), (b"a", b";" * many)):
                status, answer = self.ask(server, words, clicks)
                self.assertIn(status, (200, 413, 503), answer)
                if million < 1:
                    self.assertEqual(status, 200, answer)
                if status != 200:
                    self.assertIn(b"--max-memory", answer)
            self.expect_small(server, before)
        # What engines keep is less than they could take.
        kept = lambda: self.memory(server, "VmRSS") - before
        self.assertTrue(becomes_true(lambda: kept() < MAX_MEMORY / 2 + SLACK), kept() / MIB)
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
