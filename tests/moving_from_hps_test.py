"""Runs the commands of docs/moving_from_hps.md, in order, as a user would."""

import csv
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

from harness import EMBLEM, SOURCE, Server, use_test_clients

use_test_clients("tritonclient")
import sys

import numpy as np
import tritonclient.http as triton

import hps_samples as samples
from hugectr_models import SavedModel, data_layer, embedding, fc, layer, loss, relu_mlp

GUIDE = SOURCE / "docs/moving_from_hps.md"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [made.getsockname()[1] for made in sockets]
    for made in sockets:
        made.close()
    return ports


class MovingFromHps(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-guide-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        binaries = self.folder / "bin"
        binaries.mkdir()
        (binaries / "emblem").symlink_to(pathlib.Path(EMBLEM).resolve())
        (binaries / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (binaries / "python3").chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}"}

        version = samples.write_model(self.folder / "hps/models", "wdl", max_batch_size=1024, config="wdl.json")
        self.tables = [samples.Table(version / "wdl0_sparse_20000.model", range(5000), 1, 0.5),
                       samples.Table(version / "wdl1_sparse_20000.model", range(5000), 16)]
        samples.write_ps(self.folder / "hps/ps.json", [samples.model_entry("wdl", self.tables, [2, 26])])

        bottom, last = relu_mlp("bottom", "dense", [16, 8])
        top, top_last = relu_mlp("top", "interaction1", [16])
        self.model = SavedModel(self.folder / "hugectr", [
            data_layer(13, [26]), embedding(1, 8), *bottom, layer("Interaction", [last, "sparse_embedding1"], "interaction1"),
            *top, fc(top_last, "logit", 1), loss("logit")])
        random = np.random.default_rng(2)
        self.dense = random.normal(0, 1, (50, 13)).astype(np.float32)
        self.keys = random.integers(0, 200, (50, 26)) * 3
        with open(self.folder / "hugectr/input.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["label", *[f"I{i}" for i in range(1, 14)], *[f"C{i}" for i in range(1, 27)]])
            writer.writerows([0, *map(repr, numbers.tolist()), *keys] for numbers, keys in zip(self.dense, self.keys))

        (self.folder / "sok_dump").mkdir()
        self.sok = samples.Table(self.folder / "rows", random.permutation(1000), 16)
        for name, values in {"key": self.sok.keys, "weight": self.sok.rows}.items():
            (self.folder / f"sok_dump/user_0-{name}").write_bytes(b"\1" * 296 + values.tobytes())

    def test_the_commands_work_in_order(self):
        ports = dict(zip(("8000", "8001", "8002"), map(str, free_ports(3))))

        def with_ports(text):
            return re.sub(r"\b800[012]\b", lambda found: ports[found[0]], text)

        for code in blocks("python"):
            (self.folder / re.match(r"# (\S+)", code)[1]).write_text(with_ports(code))
        script = "set -euo pipefail\ntrap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n" + with_ports("".join(blocks("sh")))
        done = subprocess.run(["bash", "-c", script], cwd=self.folder, env=self.environment, capture_output=True, text=True,
                              timeout=600)
        log = self.folder / "serve.log"
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + (log.read_text() if log.exists() else ""))

        self.assertIn("(19,) {'NumSample': 0, 'DeviceID': 0}", done.stdout)
        self.assertRegex(done.stdout, r'emblem_missing_keys_total\{model="wdl",version="1",table="sparse_embedding2"\} 1')
        self.assertIn("num_of_worker_buffer_in_pool", done.stdout)

        found = [float(line) for line in (self.folder / "predictions.csv").read_text().splitlines()[1:]]
        expected = self.model.run(self.dense, self.keys[:, :, None].tolist())
        np.testing.assert_allclose(found, expected, atol=2e-6)
        self.assertTrue((self.folder / "models/dlrm/1/dense.safetensors").exists())

        [described] = blocks("json")
        self.serve_sok(json.loads(described))

    def serve_sok(self, ps):
        ps["models"][0]["sparse_files"] = [str(self.folder / path) for path in ps["models"][0]["sparse_files"]]
        (self.folder / "sok.json").write_text(json.dumps(ps))
        samples.write_model(self.folder / "sok_models", "user")
        server = Server(self.folder / "sok_models", "--ps", self.folder / "sok.json")
        try:
            keys = np.arange(50, dtype=np.int64)
            inputs = [triton.InferInput("KEYS", [50], "INT64"), triton.InferInput("NUMKEYS", [1], "INT32")]
            inputs[0].set_data_from_numpy(keys)
            inputs[1].set_data_from_numpy(np.array([50], np.int32))
            rows = triton.InferenceServerClient(server.http).infer("user", inputs).as_numpy("OUTPUT0")
            np.testing.assert_array_equal(rows, self.sok.look_up(keys))
        finally:
            server.stop()

    def test_all_links_and_settings_exist(self):
        text = GUIDE.read_text()
        for path in re.findall(r"\]\(([\w.]+\.md)", text):
            self.assertTrue((GUIDE.parent / path).exists(), path)
        anchors = {re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
                   for line in text.splitlines() if line.startswith("#")}
        for anchor in re.findall(r"\]\(#([\w-]+)\)", text):
            self.assertIn(anchor, anchors)


if __name__ == "__main__":
    unittest.main()
