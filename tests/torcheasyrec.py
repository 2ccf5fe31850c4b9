"""One of TorchEasyRec's pipelines, unchanged, from data to served predictions."""

import csv
import http.client
import json
import pathlib

import numpy as np
from harness import Server, learned_files, run

ROWS, BATCH, STEPS = 7000, 32, 200


class Run:
    """The commands of a user who has the pipeline `config` and no data; every step asserts that it succeeded."""

    def __init__(self, config, folder, divide=1000):
        self.config, self.folder = config, pathlib.Path(folder)
        self.divide = ["--divide-tables", divide]
        self.small = ["--set", f"data_config.batch_size={BATCH}", "--set", "data_config.num_workers=1"]

    def succeed(self, *command):
        done = run(*command, timeout=1200)
        assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.stderr}{done.stdout}"
        return done.stdout

    def make_data(self, rows=ROWS, test_rows=500):
        self.succeed("synth", "--for", self.config, "--rows", rows, "--test-rows", test_rows, "--out", self.folder / "data",
                     *self.divide)
        return json.loads((self.folder / "data/metadata.json").read_text())

    def inputs(self):
        return ["--train-input", self.folder / "data/train", "--eval-input", self.folder / "data/test"]

    def train(self, model, steps, *options):
        return self.succeed("train", "--config", self.config, *self.inputs(), *self.small, *self.divide, "--model-dir",
                            self.folder / model, "--max-steps", steps, *options)

    def metrics(self, model):
        out = self.folder / f"{model}.json"
        self.succeed("eval", "--config", self.config, "--checkpoint", self.folder / model, *self.inputs(), "--json", out)
        return json.loads(out.read_text())

    def predictions(self, model):
        """Every column of `predict`, by name."""
        out = self.folder / f"{model}.csv"
        self.succeed("predict", "--checkpoint", self.folder / model, "--input", self.folder / "data/test", "--out", out)
        lines = out.read_text().splitlines()
        values = np.array([[float(value) for value in line.split(",")] for line in lines[1:]])
        return dict(zip(lines[0].split(","), values.T))

    def served(self, model, rows):
        """The answers of a server for the first rows of the test data, by column."""
        repository = self.folder / "models"
        self.succeed("export", "--checkpoint", self.folder / model, "--out", repository / "model")
        server = Server(repository)
        try:
            status, body = server.get("/v2/models/model")
            assert status == 200, body
            return columns_of(answers(server, json.loads(body), self.test_rows(rows)))
        finally:
            assert server.stop() == 0

    def test_rows(self, rows):
        file = sorted((self.folder / "data/test").iterdir())[0]
        with open(file, newline="") as opened:
            reader = csv.DictReader(opened)
            return [row for row, _ in zip(reader, range(rows))]


def columns_of(served):
    """Answers under the names of `predict`'s columns."""
    columns = {}
    for name, values in served.items():
        if values.shape[1] > 1:
            columns.update({f"{name}_{i}": values[:, i] for i in range(values.shape[1])})
        else:
            columns["prediction" if name == "probability" else name] = values[:, 0]
    return columns


def tensor_of(name, datatype, texts):
    """The fields of a CSV file as a request has them; sequences of numbers as text."""
    number = {"FP32": float, "INT64": int}.get(datatype)
    missing = {"FP32": float("nan"), "INT64": int(np.iinfo(np.int64).min)}.get(datatype)
    try:
        data = texts if number is None else [number(text) if text else missing for text in texts]
    except ValueError:
        datatype, data = "BYTES", texts
    return {"name": name, "shape": [len(texts), 1], "datatype": datatype, "data": data}


def answers(server, metadata, rows):
    """Sends every input as it stands in the file and returns the outputs as arrays."""
    inputs = [tensor_of(i["name"], i["datatype"], [row[i["name"]] for row in rows]) for i in metadata["inputs"]]
    connection = http.client.HTTPConnection(server.http, timeout=60)
    connection.request("POST", "/v2/models/model/infer", json.dumps({"inputs": inputs}))
    response = connection.getresponse()
    body = response.read()
    connection.close()
    assert response.status == 200, body
    return {o["name"]: np.array(o["data"]).reshape(o["shape"]) for o in json.loads(body)["outputs"]}


def same_model(folder, first, second):
    """Whether two runs ended with the same bytes."""
    a, b = (learned_files(pathlib.Path(folder) / model / f"model.ckpt-{STEPS}") for model in (first, second))
    return bool(a) and a == b


def dense_parameters(checkpoint):
    """How many numbers are trained besides the tables."""
    manifest = json.loads((pathlib.Path(checkpoint) / "manifest.json").read_text())
    return sum(int(np.prod(parameter["shape"])) for parameter in manifest["model"]["parameters"])
