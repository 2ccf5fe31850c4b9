"""TorchEasyRec's own pipelines, unchanged, in the folder that EMBLEM_TORCHEASYREC names."""

import http.client
import json
import os
import pathlib
import sys
import tempfile
import unittest

from harness import SKIPPED, Server, run, use_test_clients

use_test_clients("numpy")
import numpy as np
from index_test import ITEMS, USERS, Retrieval, expect_best, features, outputs_of, post
from torcheasyrec import STEPS, Run, dense_parameters, learned_files, same_model

FOLDER = os.environ.get("EMBLEM_TORCHEASYREC", "")
BENCHMARKS = "tzrec/benchmark/configs"
# Dense parameters, computed from the formulas of the models.
RANKING = {
    "criteo/deepfm": 393793, "criteo/dlrm": 2368897, "criteo/rocket_launching": 1090820, "taobao/dbmtl": 484930,
    "taobao/dbmtl_jrc": 485060, "taobao/dbmtl_has_sequence": 515955, "taobao/mmoe": 1926414,
    "taobao/mmoe_has_sequence": 2080895, "taobao/ple": 5251283, "taobao/ple_has_sequence": 5504020,
    "taobao_ccp/dbmtl": 561090, "taobao_ccp/mmoe": 166080, "taobao_ccp/ple": 800748}
EXAMPLES = {
    "deepfm_criteo": None, "dlrm_criteo": None, "masknet_criteo": 4416984, "rocket_launching_criteo": None,
    "multi_tower_taobao": 477057, "multi_tower_din_taobao": 373122, "mmoe_taobao": None, "ple_taobao": None,
    "dbmtl_taobao": None, "dbmtl_taobao_jrc": None, "dbmtl_taobao_seq": None, "pepnet_taobao": None}
MATCHING = {
    f"{BENCHMARKS}/taobao/dssm_taobao": 165696, "examples/dssm_taobao": 501632, "examples/dssm_v2_taobao": 501632,
    "examples/mind_taobao": 246560}
REFUSED = {
    f"{BENCHMARKS}/kuairand/dlrm_hstu": "dlrm_hstu"}


TREE = "examples/tdm_taobao"


class FromItems(Retrieval):
    """A matching pipeline whose sampler separates attributes as it says."""

    delimiter = "\x02"


class FromTree(Run):
    """A pipeline that samples nodes of a tree with 21 levels: each row becomes 511. Its ids need tables of full size."""

    steps = 4

    def __init__(self, config, folder):
        super().__init__(config, folder, divide=1)
        self.small = ["--set", "data_config.batch_size=4", "--set", "data_config.num_workers=1"]

    def inputs(self):
        tables = {"item_input_path": "node_table", "edge_input_path": "edge_table", "predict_edge_input_path": "predict_edge_table"}
        return [*super().inputs(), *(word for field, table in tables.items() for word in (
            "--set", f"data_config.tdm_sampler.{field}={self.folder / 'data' / table}.txt"))]


class Pipelines(unittest.TestCase):
    def check_training(self, one, parameters):
        """Returns the metrics."""
        one.train("whole", STEPS)
        if parameters is not None:
            self.assertEqual(dense_parameters(one.folder / f"whole/model.ckpt-{STEPS}"), parameters)
        one.train("parts", STEPS // 2)
        one.train("parts", STEPS, "--resume")
        self.assertTrue(same_model(one.folder, "whole", "parts"), "a resumed run ended with another model")
        metrics, predicted, served = one.metrics("whole"), one.predictions("whole"), one.served("whole", 20)
        self.assertEqual(served.keys(), predicted.keys())
        for column, values in served.items():
            np.testing.assert_allclose(values, predicted[column][:20], rtol=1e-5, atol=1e-6)
        return metrics

    def check(self, config, parameters):
        with tempfile.TemporaryDirectory() as folder:
            one = Run(config, folder)
            limits = one.make_data()
            metrics = self.check_training(one, parameters)
            for name in limits["best"]:
                if name.startswith("auc"):
                    self.assertIn(name, metrics)

    def check_retrieval(self, one):
        """Whether a server finds the items whose vectors have the best products with those of users."""
        one.write_users()
        items = one.write_items("items.csv", 1)
        repository = one.folder / "retrieval"
        said = one.succeed("index", "--checkpoint", one.folder / "whole", "--items", items, "--id", "sku", "--out",
                           repository / "rec")
        self.assertIn(f"{ITEMS} items of", said)
        server = Server(repository)
        try:
            metadata = json.loads(server.get("/v2/models/rec")[1])
            connection = http.client.HTTPConnection(server.http, timeout=60)
            self.addCleanup(connection.close)
            status, answer = post(connection, "/v2/models/rec/infer", {
                "inputs": features(metadata, one.test_rows(USERS)), "parameters": {"top_k": 20}})
            self.assertEqual(status, 200, answer)
            expect_best(outputs_of(answer), one.scores("whole", items), 20)
        finally:
            self.assertEqual(server.stop(), 0)

    def test_matching_pipelines_find_items(self):
        for name, parameters in MATCHING.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                one = FromItems(pathlib.Path(FOLDER) / f"{name}.config", folder)
                one.make_data()
                metrics = self.check_training(one, parameters)
                self.assertLess(metrics["recall@1"], metrics["recall@5"])
                self.check_retrieval(one)

    def test_benchmarks(self):
        for name, parameters in RANKING.items():
            with self.subTest(name):
                self.check(pathlib.Path(FOLDER) / BENCHMARKS / f"{name}.config", parameters)

    def test_examples(self):
        for name, parameters in EXAMPLES.items():
            with self.subTest(name):
                self.check(pathlib.Path(FOLDER) / "examples" / f"{name}.config", parameters)

    def test_a_tree_is_trained_with_and_searched(self):
        with tempfile.TemporaryDirectory() as folder:
            one = FromTree(pathlib.Path(FOLDER) / f"{TREE}.config", folder)
            one.make_data(rows=200, test_rows=8)
            one.train("whole", one.steps)
            one.train("parts", one.steps // 2)
            one.train("parts", one.steps, "--resume")
            whole, parts = (learned_files(one.folder / model / f"model.ckpt-{one.steps}") for model in ("whole", "parts"))
            self.assertTrue(whole)
            self.assertEqual(whole, parts, "a resumed run ended with another model")
            self.assertIn("auc", one.metrics("whole"))
            predicted, served = one.predictions("whole"), one.served("whole", 8)
            for column, values in served.items():
                np.testing.assert_allclose(values, predicted[column][:8], rtol=1e-5, atol=1e-6)
            out = one.folder / "found.json"
            one.succeed("eval", "--checkpoint", one.folder / "whole", "--input", one.folder / "data/test", "--tree",
                        one.folder / "data", "--k", "200", "--json", out)
            self.assertIn("full_recall@200", json.loads(out.read_text()))

    def test_other_models_are_refused_by_name(self):
        for name, model in REFUSED.items():
            with self.subTest(name):
                tried = run("train", "--config", pathlib.Path(FOLDER) / f"{name}.config", "--train-input", "x")
                self.assertEqual(tried.returncode, 1)
                self.assertIn(f'"{model}"', tried.stderr)
                self.assertIn("not supported", tried.stderr)

    def test_an_example_that_cannot_work_is_explained(self):
        tried = run("train", "--config", pathlib.Path(FOLDER) / "examples/wukong_criteo.config", "--train-input", "x")
        self.assertEqual(tried.returncode, 1)
        for part in ("dense_mlp", "128", "16"):
            self.assertIn(part, tried.stderr)


if __name__ == "__main__":
    if not FOLDER:
        print("skipped: EMBLEM_TORCHEASYREC is not set; it names a checkout of TorchEasyRec")
        sys.exit(SKIPPED)
    unittest.main()
