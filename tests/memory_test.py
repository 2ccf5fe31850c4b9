"""A training run needs little more memory than its tables."""

import os
import subprocess
import unittest

from harness import EMBLEM, EmblemTest

MIB = 1 << 20


class Memory(EmblemTest):
    rows = 30000

    def test_peak_is_below_the_tables_and_600_mb(self):
        rows, dim, tables = 20000, 64, 26
        process = subprocess.Popen(
            [EMBLEM, "train", "--config", self.config, "--model-dir", self.folder / "m",
             "--set", "data_config.batch_size=8192",
             "--set", "model_config.dlrm.dense_mlp.hidden_units=[512,256,64]",
             "--set", "model_config.dlrm.final.hidden_units=[512,256]",
             "--set", f"feature_configs[1].id_feature={{feature_name: 'C{{1..26}}' embedding_dim: {dim} "
                      f"hash_bucket_size: {rows}}}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        error = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        process.stderr.close()
        self.assertEqual(status, 0, error)
        table_bytes = rows * dim * tables * 4 * 2  # weights and AdaGrad's state
        self.assertLess(usage.ru_maxrss * 1024, table_bytes + 600 * MIB)
        self.assertGreater(usage.ru_maxrss * 1024, table_bytes, "the tables must have been allocated")


if __name__ == "__main__":
    unittest.main(verbosity=2)
