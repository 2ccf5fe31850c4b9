"""Models that HugeCTR trained become checkpoints that predict, export and serve take, with the same predictions."""

import csv
import json
import pathlib
import shutil
import tempfile
import unittest

from harness import Server, run, use_test_clients

use_test_clients("numpy")
import numpy as np

from hugectr_models import SavedModel, data_layer, embedding, fc, layer, loss, relu_mlp


def dlrm(fused=False):
    bottom, last = relu_mlp("bottom", "dense", [12, 8])
    top, top_last = relu_mlp("top", "interaction1", [16, 8])
    if fused:
        bottom, last = [fc("dense", "b0", 12, True), fc("b0", "b1", 8, True)], "b1"
        top, top_last = [fc("interaction1", "t0", 16, True)], "t0"
    return [data_layer(5, [6]), embedding(1, 8), *bottom, layer("Interaction", [last, "sparse_embedding1"], "interaction1"),
            *top, fc(top_last, "logit", 1), loss("logit")]


def dlrm_of_mlp_layers():
    def mlp(bottom, top, units, activations):
        return layer("MLP", bottom, top, mlp_param={"num_output": 1, "num_outputs": units, "use_bias": True,
                                                    "activations": activations})
    return [data_layer(5, [6]), embedding(1, 8), mlp("dense", "mlp1", [16, 8], ["Relu", "Relu"]),
            layer("Interaction", ["mlp1", "sparse_embedding1"], "interaction1"),
            mlp("interaction1", "mlp2", [16, 8, 1], ["Relu", "Relu", "None"]), loss("mlp2")]


def dcn(order=("deep", "cross")):
    deep, last = relu_mlp("deep", "slice2", [16, 8], dropout=0.5)
    tops = {"deep": last, "cross": "multicross1"}
    return [data_layer(5, [6]), embedding(1, 4), layer("Reshape", "sparse_embedding1", "reshape1", leading_dim=24, time_step=0),
            layer("Concat", ["reshape1", "dense"], "concat1", axis=1),
            layer("Slice", "concat1", ["slice1", "slice2"], ranges=[[0, 29], [0, 29]]),
            layer("MultiCross", "slice1", "multicross1", mc_param={"num_layers": 3}), *deep,
            layer("Concat", [tops[name] for name in order], "concat2", axis=1), fc("concat2", "fc3", 1), loss("fc3")]


def dlrm_dcn_v2():
    bottom, last = relu_mlp("bottom", "dense", [12, 8])
    top, top_last = relu_mlp("top", "multicross1", [16])
    return [data_layer(5, [6]), embedding(1, 8), *bottom,
            layer("Reshape", "sparse_embedding1", "reshape1", leading_dim=48),
            layer("Concat", [last, "reshape1"], "concat1", axis=1),
            layer("MultiCross", "concat1", "multicross1", mc_param={"num_layers": 2}), *top, fc(top_last, "logit", 1),
            loss("logit")]


def wide_and_deep():
    deep, last = relu_mlp("deep", "concat1", [16, 8], dropout=0.5)
    return [data_layer(5, [2, 6]), embedding(1, 1), embedding(2, 4),
            layer("Reshape", "sparse_embedding1", "reshape1", leading_dim=2),
            layer("Reshape", "sparse_embedding2", "reshape2", leading_dim=24),
            layer("ReduceSum", "reshape1", "reducesum1", axis=1), layer("Concat", ["reshape2", "dense"], "concat1", axis=1),
            *deep, fc(last, "fc3", 1), layer("Add", ["fc3", "reducesum1"], "add1"), loss("add1")]


def plain(nnz=1, combiner="sum", epsilon=None):
    deep, last = relu_mlp("deep", "concat1", [16, 8], epsilon=epsilon)
    return [data_layer(5, [6], nnz), embedding(1, 4, combiner),
            layer("Reshape", "sparse_embedding1", "reshape1", leading_dim=24),
            layer("Concat", ["reshape1", "dense"], "concat1", axis=1), *deep, fc(last, "fc3", 1), loss("fc3")]


class ConvertHugectr(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-hugectr-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def convert(self, model, output="converted", **replaced):
        files = {"graph": model.graph, "dense": model.dense, "sparse": model.sparse, **replaced}
        return run("convert-hugectr", "--graph", files["graph"], "--dense", files["dense"],
                   *[word for folder in files["sparse"] for word in ("--sparse", folder)],
                   "--output", self.folder / output)

    def samples(self, model, count=200, bag=1):
        """Dense features and keys, of which some have no row."""
        random = np.random.default_rng(7)
        dense = random.normal(0, 1, (count, model.layers[0]["dense"]["dense_dim"])).astype(np.float32)
        keys = [[[int(key) * 3 for key in random.integers(0, 220, bag)] for _ in range(model.slots)] for _ in range(count)]
        return dense, keys

    def write_csv(self, dense, keys, separator="\x03"):
        path = self.folder / "input.csv"
        with open(path, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["label", *[f"I{i + 1}" for i in range(dense.shape[1])], *[f"C{i + 1}" for i in range(len(keys[0]))]])
            for numbers, row in zip(dense, keys):
                writer.writerow([0, *[repr(float(number)) for number in numbers],
                                 *[separator.join(map(str, bag)) for bag in row]])
        return path

    def check(self, layers, bag=1, projection=0):
        model = SavedModel(self.folder / "saved", layers, projection=projection)
        converted = self.convert(model)
        self.assertEqual(converted.returncode, 0, converted.stderr)
        dense, keys = self.samples(model, bag=bag)
        out = self.folder / "predictions.csv"
        predicted = run("predict", "--checkpoint", self.folder / "converted", "--input", self.write_csv(dense, keys), "--out", out)
        self.assertEqual(predicted.returncode, 0, predicted.stderr)
        found = np.array([float(line) for line in out.read_text().splitlines()[1:]])
        expected = model.run(dense, keys)
        self.assertGreater(expected.std(), 0.01)
        np.testing.assert_allclose(found, expected, atol=2e-6)
        return model, dense, keys, expected

    def test_dlrm(self):
        self.check(dlrm())

    def test_dlrm_of_fused_layers(self):
        self.check(dlrm(fused=True))

    def test_dlrm_of_mlp_layers(self):
        self.check(dlrm_of_mlp_layers())

    def test_dcn(self):
        self.check(dcn())

    def test_dcn_with_the_cross_layers_first(self):
        self.check(dcn(("cross", "deep")))

    def test_dcn_with_projections(self):
        self.check(dcn(), projection=5)

    def test_dlrm_with_cross_layers(self):
        self.check(dlrm_dcn_v2(), projection=4)

    def test_wide_and_deep(self):
        self.check(wide_and_deep())

    def test_plain_mlp(self):
        self.check(plain())

    def test_batch_norm(self):
        self.check(plain(epsilon=1e-3))

    def test_several_keys_of_a_slot(self):
        self.check(plain(nnz=3), bag=3)

    def test_the_mean_of_several_keys(self):
        self.check(plain(nnz=3, combiner="mean"), bag=3)

    def test_is_evaluated_and_trained_further(self):
        _, dense, keys, expected = self.check(dlrm())
        data, result = self.write_csv(dense, keys), self.folder / "result.json"
        evaluated = run("eval", "--checkpoint", self.folder / "converted", "--input", data, "--json", result)
        self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
        metrics = json.loads(result.read_text())
        self.assertAlmostEqual(metrics["log_loss"], -np.log(1 - expected).mean(), places=5)  # all labels are 0
        trained = run("train", "--config", self.folder / "converted/model.ckpt-0/pipeline.config", "--model-dir",
                      self.folder / "further", "--init-from", self.folder / "converted", "--set", f"train_input_path={data}",
                      "--set", f"eval_input_path={data}")
        self.assertEqual(trained.returncode, 0, trained.stderr)

    def test_is_served(self):
        model, dense, keys, expected = self.check(dlrm())
        exported = run("export", "--checkpoint", self.folder / "converted", "--out", self.folder / "models/dlrm")
        self.assertEqual(exported.returncode, 0, exported.stderr)
        use_test_clients("tritonclient")
        import tritonclient.http as client
        server = Server(self.folder / "models")
        try:
            columns = {f"I{i + 1}": dense[:, i:i + 1] for i in range(dense.shape[1])}
            columns |= {f"C{i + 1}": np.array(keys, np.int64)[:, i] for i in range(model.slots)}
            inputs = []
            for name, values in columns.items():
                inputs.append(client.InferInput(name, values.shape, "FP32" if name[0] == "I" else "INT64"))
                inputs[-1].set_data_from_numpy(np.ascontiguousarray(values))
            result = client.InferenceServerClient(server.http).infer("dlrm", inputs)
            np.testing.assert_allclose(result.as_numpy("probability")[:, 0], expected, atol=2e-6)
        finally:
            server.stop()

    def refused(self, layers, *parts, **replaced):
        model = SavedModel(self.folder / "saved", layers) if isinstance(layers, list) else layers
        process = self.convert(model, "refused", **replaced)
        self.assertEqual(process.returncode, 1, process.stdout)
        lines = [line for line in process.stderr.splitlines() if line.startswith("emblem: ")]
        self.assertEqual(len(lines), 1, process.stderr)
        for part in parts:
            self.assertIn(part, lines[0])
        self.assertFalse((self.folder / "refused").exists())

    def test_other_layers_are_refused_by_name(self):
        model = SavedModel(self.folder / "saved", dlrm())
        changed = model.graph.read_text().replace('"ReLU"', '"PReLU_Dice"', 1)
        other = self.folder / "other.json"
        other.write_text(changed)
        self.refused(model, "layer 4, PReLU_Dice 'bottom_relu0', is not supported", graph=other)

    def test_other_orders_of_layers_are_refused(self):
        layers = [data_layer(5, [6]), embedding(1, 4), layer("Reshape", "sparse_embedding1", "reshape1", leading_dim=24),
                  layer("ReLU", "reshape1", "relu1"), fc("relu1", "fc1", 1), loss("fc1")]
        self.refused(layers, "layer 3, Reshape 'reshape1'", "expected one after a linear layer")

    def test_files_that_do_not_fit_are_refused(self):
        model = SavedModel(self.folder / "saved", dlrm())
        short = self.folder / "short.model"
        short.write_bytes(model.dense.read_bytes()[:-8])
        self.refused(model, "short.model has", "is it the dense file of this graph?", dense=short)
        self.refused(model, "--sparse was given 2 times, but the graph has 1 embeddings", sparse=model.sparse * 2)
        self.refused(model, "not the JSON graph of a model", graph=model.dense)


if __name__ == "__main__":
    unittest.main()
