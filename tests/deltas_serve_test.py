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

    def write_delta(self, number):
        """As training does: under another name first."""
        folder = self.deltas / f".writing-{number}"
        (folder / "C1_emb").mkdir(parents=True)
        (folder / "C1_emb/key").write_bytes(np.arange(10, dtype=np.int64).tobytes())
        (folder / "C1_emb/emb_vector").write_bytes(np.full((10, 8), number, np.float32).tobytes())
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


if __name__ == "__main__":
    unittest.main()
