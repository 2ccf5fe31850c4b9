"""Training writes deltas and removes old ones; a server applies them, and says when some are missing."""

import json
import re
import time
import unittest

from harness import EmblemTest, becomes_true, run, use_test_clients

use_test_clients("tritonclient")
import numpy as np
import serve_test


class DeltasServe(EmblemTest):
    rows = 10000

    def numbers(self):
        return sorted(int(path.name.split("-")[1]) for path in self.deltas.glob("delta-*"))

    def write_delta(self, number, rows=None):
        """As programs did that wrote no checksums: under another name first."""
        rows = np.full((10, 8), number, np.float32) if rows is None else rows
        folder = self.deltas / f".writing-{number}"
        (folder / "C1_emb").mkdir(parents=True)
        (folder / "C1_emb/key").write_bytes(np.arange(10, dtype=np.int64).tobytes())
        (folder / "C1_emb/emb_vector").write_bytes(rows.tobytes())
        (folder / "manifest.json").write_text(json.dumps(
            {"sequence": number, "created_unix_ms": int(time.time() * 1000),
             "tables": [{"name": "C1_emb", "dim": 8, "rows": 10}]}))
        folder.rename(self.deltas / f"delta-{number:012d}")

    def metric(self, server, name):
        text = server.get("/metrics", server.metrics)[1].decode()
        return int(re.search(rf"{name}{{[^}}]*}} (\d+)", text).group(1))

    def test_from_training_to_a_gap(self):
        model = self.folder / "live"
        self.deltas = model / "deltas"
        settings = {"delta_steps": 2, "keep_delta_max": 3, "save_checkpoints_steps": 10, "keep_checkpoint_max": 1}
        self.succeed(self.train(model, *[word for name, value in settings.items()
                                         for word in ("--set", f"train_config.{name}={value}")]))
        left = self.numbers()
        self.assertGreater(left[-1], 15)  # about 40 steps
        self.assertEqual(left, list(range(left[-1] - 2, left[-1] + 1)))

        repository = self.folder / "live_repository"
        self.succeed(run("export", "--checkpoint", model, "--out", repository / "dlrm"))
        server = serve_test.Server(repository, "--deltas", f"dlrm={self.deltas}")
        self.addCleanup(server.stop)
        self.assertEqual(self.metric(server, "emblem_update_sequence"), left[-1])  # in the version's files
        self.write_delta(left[-1] + 1)
        self.assertTrue(becomes_true(lambda: self.metric(server, "emblem_update_sequence") == left[-1] + 1))
        self.assertEqual(self.metric(server, "emblem_updates_applied_total"), 1)
        self.assertEqual(self.metric(server, "emblem_deltas_missing_total"), 0)

        self.write_delta(left[-1] + 5)
        self.assertTrue(becomes_true(lambda: self.metric(server, "emblem_deltas_missing_total") == 3))
        self.assertTrue(becomes_true(lambda: self.metric(server, "emblem_update_sequence") == left[-1] + 5))
        wanted = f"deltas {left[-1] + 2} to {left[-1] + 4} are missing in {self.deltas}"
        self.assertTrue(becomes_true(lambda: any(wanted in line for line in server.lines)), server.lines)

    def test_a_folder_that_is_not_there_is_named(self):
        message = self.fail_with(run("serve", "--models", self.folder, "--deltas", "dlrm=s3://bucket/run/deltas"),
                                 "--deltas 'dlrm=s3://bucket/run/deltas'")
        self.assertIn("a folder of this machine", message)
        (self.folder / "empty").mkdir()
        missing = self.folder / "mistyped"
        server = serve_test.Server(self.folder / "empty", "--deltas", f"dlrm={missing}", "--strict-readiness=false")
        self.addCleanup(server.stop)
        self.assertTrue(becomes_true(lambda: any(f"--deltas dlrm={missing}: folder not found" in line
                                                 for line in server.lines)), server.lines)

    def test_damaged_deltas_and_rows_that_are_nan_are_not_applied(self):
        model = self.folder / "damaged"
        self.deltas = model / "deltas"
        settings = {"delta_steps": 2, "keep_delta_max": 1000, "save_checkpoints_steps": 10, "keep_checkpoint_max": 100}
        self.succeed(self.train(model, *[word for name, value in settings.items()
                                         for word in ("--set", f"train_config.{name}={value}")]))
        last = self.numbers()[-1]
        repository = self.folder / "damaged_repository"
        self.succeed(run("export", "--checkpoint", model / "model.ckpt-10", "--out", repository / "dlrm"))

        damaged = last - 3
        path = next((self.deltas / f"delta-{damaged:012d}").glob("*/emb_vector"))
        whole = path.read_bytes()
        path.write_bytes(whole[:1] + bytes([whole[1] ^ 0x20]) + whole[2:])
        server = serve_test.Server(repository, "--deltas", f"dlrm={self.deltas}")
        self.addCleanup(server.stop)
        self.assertTrue(becomes_true(lambda: any(f"{path} is damaged" in line for line in server.lines)), server.lines)
        self.assertEqual(self.metric(server, "emblem_update_sequence"), damaged - 1)
        self.assertGreater(self.metric(server, "emblem_update_errors_total"), 0)
        path.write_bytes(whole)  # copied again
        self.assertTrue(becomes_true(lambda: self.metric(server, "emblem_update_sequence") == last))

        rows = np.full((10, 8), 0.5, np.float32)
        rows[3, 4], rows[7, 0] = np.nan, np.inf
        self.write_delta(last + 1, rows)
        self.assertTrue(becomes_true(lambda: self.metric(server, "emblem_update_sequence") == last + 1))
        text = server.get("/metrics", server.metrics)[1].decode()
        self.assertEqual(re.search(r'emblem_rows_refused_total{[^}]*table="C1_emb"} (\d+)', text).group(1), "2")
        refused = "2 of 10 rows of an update are NaN or infinite"
        self.assertTrue(becomes_true(lambda: any(refused in line for line in server.lines)), server.lines)


if __name__ == "__main__":
    unittest.main()
