"""Kernels of CPUs as a user sees them: which are used, what others compute, bf16 in training, prediction and serving."""

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
        cls.kernels = dict(re.findall(r"^kernel +(\S+) +(fp32|bf16)", listed, re.MULTILINE))

    def predict(self, name, *options, kernel=""):
        out = self.folder / f"{name}.csv"
        self.succeed(run("predict", "--checkpoint", self.model, "--input", self.data / "test", "--out", out, *options,
                         env={**os.environ, "EMBLEM_CPU_KERNEL": kernel}))
        return values_of(out)

    def assert_near(self, values, expected, most, least=0.0):
        worst = max(abs(a - b) for a, b in zip(values, expected, strict=True))
        self.assertLess(worst, most)
        self.assertGreaterEqual(worst, least)

    def test_the_machine_is_described(self):
        listed = self.succeed(run("inspect", "--machine")).stdout
        self.assertRegex(listed, r"cpu +\S.*, \d+ cores\nmemory +\d")
        used = re.findall(r"^kernel +\S+ +(fp32|bf16), used$", listed, re.MULTILINE)
        self.assertEqual(sorted(used), ["bf16", "fp32"])
        self.assertLessEqual({"plain", "rounding"}, self.kernels.keys())
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

    def test_serving_in_bf16(self):
        repository = self.folder / "models"
        self.succeed(run("export", "--checkpoint", self.model, "--out", repository / "dlrm"))
        fields = [line.split("\t") for line in next((self.data / "test").glob("*")).read_text().splitlines()[:50]]
        rows = [row for row in fields if all(row)]
        self.assertGreater(len(rows), 3)
        body = json.dumps({"inputs": [
            {"name": "categorical_features", "datatype": "INT64", "shape": [len(rows), 26],
             "data": [int(value, 16) for row in rows for value in row[14:40]]},
            {"name": "numerical_features", "datatype": "FP32", "shape": [len(rows), 13],
             "data": [float(value) for row in rows for value in row[1:14]]}]})
        at = [i for i, row in enumerate(fields) if all(row)]
        for precision, options in (("fp32", []), ("bf16", ["--precision", "bf16"])):
            server = Server(repository, *options)
            try:
                connection = http.client.HTTPConnection(server.http, timeout=120)
                connection.request("POST", "/v2/models/dlrm/infer", body)
                answer = json.loads(connection.getresponse().read())
                connection.close()
            finally:
                server.stop()
            predicted = self.predict(f"served_{precision}", "--precision", precision)
            self.assert_near(answer["outputs"][0]["data"], [predicted[i] for i in at], 1e-6)
        self.fail_with(run("serve", "--models", repository, "--precision", "fp16"), "needs --device cuda")


if __name__ == "__main__":
    unittest.main()
