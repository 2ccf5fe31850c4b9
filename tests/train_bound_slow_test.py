"""`emblem bench train` reports what bounds a run, in four constructed cases. It compares times and needs an idle machine."""

import unittest

from train_bench_case import BRIEF, TrainBenchTest


class TrainBound(TrainBenchTest):
    def test_a_slow_disk_bounds_by_data(self):
        # One small file, repeated, and a model that is fast even on a busy machine.
        rows = next((self.data / "train").iterdir()).read_text().splitlines(keepends=True)[:1000]
        (self.folder / "small.tsv").write_text("".join(rows))
        config = self.pipeline("disk.config", 'feature_groups { group_name: "wide" feature_names: "C{1..26}" '
                               'group_type: WIDE } lr {}')
        bound, shares = self.bound_of("--config", config, "--batch", 500, "--steps", 8, "--threads", 1, "--set",
                                      f"train_input_path={self.folder}/small.tsv", "--set", "data_config.shuffle=false",
                                      "--set", "data_config.num_workers=1",
                                      environment={**BRIEF, "EMBLEM_TEST_READ_BYTES_PER_SECOND": "200000"})
        self.assertEqual(bound, "data", shares)

    def test_a_tiny_batch_bounds_by_launch(self):
        bound, shares = self.bound_of("--dim", 16, "--divide-tables", 1000, "--batch", 2)
        self.assertEqual(bound, "launch", shares)

    def test_a_huge_dense_part_bounds_by_dense(self):
        config = self.pipeline("dense.config", "dlrm { dense_mlp { hidden_units: [1024, 1024, 4] } "
                                               "final { hidden_units: [1024, 1024] } }", dim=4)
        bound, shares = self.bound_of("--config", config, "--batch", 512, "--steps", 3)
        self.assertEqual(bound, "dense", shares)

    def test_a_huge_embedding_part_bounds_by_embedding(self):
        config = self.pipeline("embedding.config", 'feature_groups { group_name: "wide" feature_names: "C{1..26}" '
                               'group_type: WIDE } feature_groups { group_name: "fm" feature_names: "C{1..26}" } fm {}',
                               dim=64)
        bound, shares = self.bound_of("--config", config, "--batch", 2048, "--steps", 5, "--threads", 1, "--set",
                                      "train_config.sparse_optimizer.adam_optimizer.lr=0.001")
        self.assertEqual(bound, "embedding", shares)


if __name__ == "__main__":
    unittest.main(verbosity=2)
