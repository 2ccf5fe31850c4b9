"""Kernels of CPUs as a user sees them: which are used, what others compute, bf16 and int8."""

import http.client
import json
import os
import re
import unittest

from harness import EmblemTest, Server, learned_files, run


def values_of(path):
    return [float(line) for line in path.read_text().splitlines()[1:]]


def learned(model):
    return learned_files(max(model.glob("model.ckpt-*"), key=lambda path: int(path.name.split("-")[1])))


class CpuKernels(EmblemTest):
    rows = 12000

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.folder / "model"
        trained = run("train", "--config", cls.config, "--model-dir", cls.model)
        assert trained.returncode == 0, trained.stderr
        listed = run("inspect", "--machine").stdout
        cls.kernels = dict(re.findall(r"^kernel +(\S+) +(fp32|bf16|int8)", listed, re.MULTILINE))

    def predict(self, name, *options, kernel="", model=None):
        out = self.folder / f"{name}.csv"
        self.succeed(run("predict", "--checkpoint", model or self.model, "--input", self.data / "test", "--out", out, *options,
                         env={**os.environ, "EMBLEM_CPU_KERNEL": kernel}))
        return values_of(out)

    def assert_near(self, values, expected, most, least=0.0):
        worst = max(abs(a - b) for a, b in zip(values, expected, strict=True))
        self.assertLess(worst, most)
        self.assertGreaterEqual(worst, least)

    def test_the_machine_is_described(self):
        listed = self.succeed(run("inspect", "--machine")).stdout
        self.assertRegex(listed, r"cpu +\S.*, \d+ cores\nmemory +\d")
        used = re.findall(r"^kernel +\S+ +(fp32|bf16|int8), used$", listed, re.MULTILINE)
        self.assertEqual(sorted(used), ["bf16", "fp32", "int8"])
        self.assertLessEqual({"plain", "rounding", "rounding_int8"}, self.kernels.keys())
        self.fail_with(run("inspect"), "give a path or --machine")
        self.fail_with(run("inspect", "--machine", self.data), "give a path or --machine")

    def test_a_kernel_can_be_forced(self):
        environment = {**os.environ, "EMBLEM_CPU_KERNEL": "plain"}
        self.assertRegex(run("inspect", "--machine", env=environment).stdout, r"kernel +plain +fp32, used\n")
        environment["EMBLEM_CPU_KERNEL"] = "plain,mmx"
        self.fail_with(run("predict", "--checkpoint", self.model, "--input", self.data / "test", "--out",
                           self.folder / "none.csv", env=environment), 'no kernel "mmx" runs on this CPU', "plain")

    def test_every_kernel_predicts_the_same(self):
        expected = self.predict("usual")
        for name, kind in self.kernels.items():
            if kind == "fp32":
                self.assert_near(self.predict(name, kernel=name), expected, 1e-5)
        narrow = self.predict("narrow", "--precision", "bf16")
        self.assert_near(narrow, expected, 0.05, least=1e-5)
        for name, kind in self.kernels.items():
            if kind == "bf16":
                self.assert_near(self.predict(name, "--precision", "bf16", kernel=name), narrow, 1e-3)

    def test_training_in_bf16(self):
        results = {}
        for threads in (1, 2):
            folder = self.folder / f"bf16_{threads}"
            self.succeed(self.train(folder, "--precision", "bf16", "--threads", threads))
            results[threads] = learned(folder)
            last = json.loads((folder / "train_eval_result.jsonl").read_text().splitlines()[-1])
        self.assertEqual(results[1], results[2])
        self.assertNotEqual(results[1], learned(self.model))
        wide = json.loads((self.model / "train_eval_result.jsonl").read_text().splitlines()[-1])
        self.assertAlmostEqual(last["auc"], wide["auc"], delta=0.01)
        self.fail_with(self.train(self.folder / "fp16", "--precision", "fp16"), "--precision fp16 needs --device cuda")

    def export(self, name, *options):
        return run("export", "--checkpoint", self.model, "--out", self.folder / name / "dlrm", *options)

    def serve(self, repository, *options):
        """Asks a server for the complete rows among the first of the test set; their places and the answers."""
        fields = [line.split("\t") for line in next((self.data / "test").glob("*")).read_text().splitlines()[:50]]
        rows = [row for row in fields if all(row)]
        self.assertGreater(len(rows), 3)
        body = json.dumps({"inputs": [
            {"name": "categorical_features", "datatype": "INT64", "shape": [len(rows), 26],
             "data": [int(value, 16) for row in rows for value in row[14:40]]},
            {"name": "numerical_features", "datatype": "FP32", "shape": [len(rows), 13],
             "data": [float(value) for row in rows for value in row[1:14]]}]})
        server = Server(repository, *options)
        try:
            connection = http.client.HTTPConnection(server.http, timeout=120)
            connection.request("POST", "/v2/models/dlrm/infer", body)
            answer = json.loads(connection.getresponse().read())
            connection.close()
        finally:
            server.stop()
        return [i for i, row in enumerate(fields) if all(row)], answer["outputs"][0]["data"]

    def test_serving_in_bf16(self):
        self.succeed(self.export("models"))
        for precision, options in (("fp32", []), ("bf16", ["--precision", "bf16"])):
            places, answers = self.serve(self.folder / "models", *options)
            predicted = self.predict(f"served_{precision}", "--precision", precision)
            self.assert_near(answers, [predicted[i] for i in places], 1e-6)
        self.fail_with(run("serve", "--models", self.folder / "models", "--precision", "fp16"), "needs --device cuda")

    def test_serving_with_narrow_rows(self):
        self.succeed(self.export("rows"))
        wide = self.predict("wide_rows")
        for precision, most in (("bf16", 0.01), ("int8", 0.02)):
            places, answers = self.serve(self.folder / "rows", "--row-precision", precision)
            self.assert_near(answers, [wide[i] for i in places], most, least=1e-7)

    def test_int8(self):
        wide = self.predict("wide")
        self.succeed(self.export("int8", "--precision", "int8", "--calibrate", self.data / "train"))
        exported = self.folder / "int8" / "dlrm" / "1"
        narrow = self.predict("narrow_int8", model=exported)
        self.assert_near(narrow, wide, 0.1, least=1e-5)
        self.assert_near(self.predict("exported_wide", "--precision", "fp32", model=exported), wide, 1e-6)
        for name, kind in self.kernels.items():
            if kind == "int8":  # products are exact
                self.assert_near(self.predict(name, kernel=name, model=exported), narrow, 1e-5)
        for options, expected in (((), narrow), (("--precision", "fp32"), wide)):
            places, answers = self.serve(self.folder / "int8", *options)
            self.assert_near(answers, [expected[i] for i in places], 1e-6)
        areas = {}
        for precision in ("fp32", "int8"):
            path = self.folder / f"{precision}.json"
            self.succeed(run("eval", "--checkpoint", exported, "--input", self.data / "test", "--precision", precision,
                             "--json", path))
            areas[precision] = json.loads(path.read_text())["auc"]
        self.assertAlmostEqual(areas["int8"], areas["fp32"], delta=0.002)
        again = ["export", "--checkpoint", exported, "--out", self.folder / "int8" / "dlrm"]
        self.succeed(run(*again, "--precision", "int8", "--calibrate", self.data / "test"))
        self.succeed(run(*again))
        self.assert_near(self.predict("int8_again", model=exported.parent / "2"), wide, 0.1, least=1e-5)
        self.assert_near(self.predict("int8_undone", model=exported.parent / "3"), wide, 1e-6)

    def test_int8_that_cannot_be(self):
        self.fail_with(self.export("none", "--precision", "int8"), "--precision int8 needs --calibrate DATA")
        self.fail_with(self.export("none", "--calibrate", self.data / "train"), "--calibrate needs --precision int8")
        self.fail_with(self.export("none", "--precision", "int8", "--calibrate", self.folder / "nowhere"), "nowhere")
        empty = self.folder / "empty"
        empty.mkdir()
        (empty / "part-0.tsv").write_text("")
        self.fail_with(self.export("none", "--precision", "int8", "--calibrate", empty), "empty")
        self.assertFalse((self.folder / "none" / "dlrm" / "1").exists())
        self.fail_with(run("serve", "--models", self.folder, "--row-precision", "int8", "--table-servers", "localhost:1"),
                       "--table-servers cannot be used with --row-precision")
        self.fail_with(run("predict", "--checkpoint", self.model, "--input", self.data / "test", "--out",
                           self.folder / "none.csv", "--precision", "int8"), "emblem export --precision int8")
        self.fail_with(self.train(self.folder / "none", "--set", "train_config.mixed_precision=INT8"),
                       "INT8, which exported models have")
        self.fail_with(run("predict", "--checkpoint", self.model, "--input", self.data / "test", "--out",
                           self.folder / "none.csv", "--precision", "int8", "--device", "cuda"),
                       "--precision int8 needs --device cpu")


if __name__ == "__main__":
    unittest.main()
