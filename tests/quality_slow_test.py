"""The quality of trainings on synthetic data with a known limit: of the demo, and of a GPU in fp32, bf16 and fp16, which is
that of a CPU.

EMBLEM_QUALITY_ROWS (20000000): number of rows for the GPU; without one these tests are skipped."""

import json
import os
import pathlib
import tempfile
import unittest

import quality_test
from harness import SOURCE, require_gpu, run
from quality_test import AUC_TOLERANCE, FIRST_STEPS, HOURS, LIMIT_TOLERANCE

ROWS = int(os.environ.get("EMBLEM_QUALITY_ROWS", "20000000"))


class OnGpu(quality_test.Quality):
    @classmethod
    def setUpClass(cls):
        require_gpu()
        cls.make_data(ROWS, max(ROWS // 20, 1000), "0.05")
        cls.settings = ["data_config.batch_size=8192", "data_config.num_workers=8"]

    def test_the_first_losses_are_the_same(self):
        """With SGD at small rates, where rounding differences do not grow. The first updates of AdaGrad and Adam have the size
        of the learning rate even if a gradient is almost 0; its sign then depends on rounding, and the runs diverge."""
        settings = [*self.settings, "train_config.sparse_optimizer={sgd_optimizer{lr:0.1}}",
                    "train_config.dense_optimizer={sgd_optimizer{lr:0.001}}"]
        gpu, cpu = (self.train(f"sgd-{device}", device, settings=settings, options=["--max-steps", FIRST_STEPS])
                    for device in ("cuda", "cpu"))
        self.expect_same_losses(gpu, cpu)

    def test_devices_and_precisions_reach_the_same_auc(self):
        gpu = self.train("fp32", "cuda", settings=self.settings)
        cpu = self.train("cpu", "cpu", settings=self.settings)
        fp32 = gpu.auc("cuda")
        self.expect_near("AUC on GPU and CPU", fp32, cpu.auc("cpu"), AUC_TOLERANCE)
        self.expect_near("a GPU's checkpoint evaluated on both", fp32, gpu.auc("cpu"), 1e-4)
        self.expect_near("a CPU's checkpoint evaluated on both", cpu.auc("cpu"), cpu.auc("cuda"), 1e-4)
        self.expect_near("AUC in fp32 and the limit", fp32, self.limit, LIMIT_TOLERANCE)
        for precision in ("bf16", "fp16"):
            half = self.train(precision, "cuda", precision, self.settings).auc("cuda")
            self.expect_near(f"AUC in {precision} and fp32", half, fp32, AUC_TOLERANCE)
            self.expect_near(f"AUC in {precision} and the limit", half, self.limit, LIMIT_TOLERANCE)


class Demo(unittest.TestCase):
    def test_dlrm_reaches_the_auc_of_its_initial_values(self):
        """As tools/demo.sh; seeds reach .7996 to .8001 of .8046 (docs/quality.md)."""
        with tempfile.TemporaryDirectory() as folder:
            made = run("synth", "--preset", "criteo", "--rows", "1M", "--test-rows", "200k", "--scale", "0.05", "--format", "tsv",
                       "--out", f"{folder}/data", timeout=HOURS)
            self.assertEqual(made.returncode, 0, made.stderr)
            trained = run("train", "--config", SOURCE / "configs/criteo/dlrm.config", "--model-dir", f"{folder}/model", "--set",
                          f"train_input_path={folder}/data/train", "--set", f"eval_input_path={folder}/data/test", timeout=HOURS)
            self.assertEqual(trained.returncode, 0, trained.stderr)
            last = pathlib.Path(folder, "model/train_eval_result.jsonl").read_text().splitlines()[-1]
            self.assertGreaterEqual(json.loads(last)["auc"], 0.7985)


if __name__ == "__main__":
    unittest.main(verbosity=2)
