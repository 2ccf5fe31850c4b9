"""emblem export --format onnx: ONNX Runtime computes what emblem predict writes, for every model; what it refuses."""

import csv
import pathlib
import subprocess
import tempfile
import unittest

from harness import SOURCE, EmblemTest, files_of, run, use_test_clients

use_test_clients("numpy", "onnx", "onnxruntime")
import numpy as np
import onnx
from onnx_models import ENCODED, MODELS, inputs_of, is_encoded, key_of, make_rows, pipeline_of, write_rows

ITEMS, UNKNOWN = 80, 120  # items of training; the rows that are asked about have more
TOLERANCE = 1e-5


class Session:
    """A session, and the positions of keys, by the code of docs/onnx.md."""

    def __init__(self, folder):
        code = (SOURCE / "docs/onnx.md").read_text().split("```")[1].removeprefix("python")
        names = {}
        exec(code.replace("build/criteo/onnx", str(folder)), names)
        self.session, self.keys, self.positions = names["session"], names["keys"], names["positions"]
        self.inputs = [one.name for one in self.session.get_inputs()]
        self.outputs = [one.name for one in self.session.get_outputs()]

    def run(self, rows, are_encoded=False):
        feed, given = {}, inputs_of(rows, are_encoded)
        for name in self.inputs:
            feed[name] = given[name]
            if name in self.keys:
                feed[name] = np.where(given[name] == -1, -1, self.positions(name, given[name]))
        return dict(zip(self.outputs, self.session.run(None, feed)))


class Onnx(EmblemTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        write_rows(cls.folder / "train.csv", make_rows(400, 1, ITEMS))
        cls.trained = set()

    def model(self, name):
        """A trained model, made once."""
        model = self.folder / name
        if name not in self.trained:
            config = self.write_config(f"{name}.config", pipeline_of(name, self.folder, model))
            self.succeed(run("train", "--config", config))
            self.trained.add(name)
        return model

    def export(self, name, *options, to=None):
        out = self.folder / (to or f"{name}.onnx")
        self.succeed(run("export", "--checkpoint", self.model(name), "--format", "onnx", "--out", out, *options))
        onnx.checker.check_model(out / "model.onnx", full_check=True)
        return out

    def predicted(self, name, rows, *options):
        """What emblem predict writes, [rows, columns] of each output."""
        asked, out = self.folder / f"{name}.asked.csv", self.folder / f"{name}.csv"
        write_rows(asked, rows)
        self.succeed(run("predict", "--checkpoint", self.model(name), "--input", asked, "--out", out, *options))
        with open(out) as file:
            columns, *lines = csv.reader(file)
        values = np.array(lines, np.float64)
        return columns, values

    def check(self, name, count=200, *options):
        """The outputs of the exported model are those of emblem predict; the session."""
        rows = list(make_rows(count, 2, UNKNOWN))
        columns, expected = self.predicted(name, rows, *options)
        session = Session(self.export(name, *options, to=f"{self.id()}.onnx"))
        computed = session.run(rows, is_encoded(name))
        named = [output if values.shape[1] == 1 else f"{output}_{col}"
                 for output, values in computed.items() for col in range(values.shape[1])]
        self.assertEqual(["prediction" if output == "probability" else output for output in named], columns)
        np.testing.assert_allclose(np.concatenate(list(computed.values()), axis=1), expected, rtol=TOLERANCE,
                                   atol=TOLERANCE)
        self.assertGreater(np.ptp(expected, axis=0).max(), 1e-3)  # the rows differ
        return session

    def test_ten_thousand_rows(self):
        session = self.check("dlrm", 10_000)
        self.assertEqual(session.outputs, ["probability"])
        self.assertEqual(set(session.inputs), {"price", "place", "user", "item", "tags", "likes", "likes.weights"})
        self.assertEqual(session.keys.keys(), {"item"})
        trained = {row["item"] for row in make_rows(400, 1, ITEMS)} - {""}
        np.testing.assert_array_equal(session.keys["item"], sorted(map(key_of, trained)))

    def test_one_row_and_none(self):
        rows = list(make_rows(40, 3, UNKNOWN))
        session = Session(self.export("multi_tower_din"))
        together = session.run(rows)["probability"]
        alone = np.concatenate([session.run([row])["probability"] for row in rows])
        np.testing.assert_allclose(alone, together, rtol=TOLERANCE, atol=TOLERANCE)

    def test_padding_changes_nothing(self):
        rows = list(make_rows(40, 3, UNKNOWN))
        session = Session(self.export("self_attention"))
        feed = {name: value for name, value in inputs_of(rows).items() if name in session.inputs}
        feed["clicks__item"] = np.where(feed["clicks__item"] == -1, -1,
                                        session.positions("clicks__item", feed["clicks__item"]))
        expected, = session.session.run(None, feed)
        for name in ("clicks__item", "clicks__dwell"):
            shape = list(feed[name].shape)
            shape[1] = 3
            more = np.full(shape, -1 if name == "clicks__item" else 5, feed[name].dtype)
            feed[name] = np.concatenate([feed[name], more], axis=1)
        computed, = session.session.run(None, feed)
        np.testing.assert_allclose(computed, expected, rtol=TOLERANCE, atol=TOLERANCE)

    def test_a_tower_alone_has_its_inputs_alone(self):
        users = self.check("dssm", 200, "--outputs", "user_tower_emb")
        self.assertEqual(set(users.inputs), {"user", "tags", "price", "clicks.lengths", "clicks__item", "clicks__dwell"})
        items = Session(self.export("dssm", "--outputs", "item_tower_emb", to="items.onnx"))
        self.assertEqual(set(items.inputs), {"item", "likes", "likes.weights"})
        rows = list(make_rows(200, 2, UNKNOWN))
        both = Session(self.export("dssm")).run(rows)
        for session in (users, items):
            for output, values in session.run(rows).items():
                np.testing.assert_allclose(values, both[output], rtol=TOLERANCE, atol=TOLERANCE)

    def test_outputs_are_chosen_by_name(self):
        self.check("mmoe", 50, "--outputs", "logits_cvr,probs_ctr")

    def test_rows_beside_the_model(self):
        beside = self.export("deepfm", "--external-data", to="beside")
        self.assertEqual({path.name for path in beside.iterdir()}, {"model.onnx", "model.onnx.data", "keys"})
        rows = list(make_rows(200, 2, UNKNOWN))
        for output, values in Session(self.export("deepfm")).run(rows).items():
            np.testing.assert_array_equal(Session(beside).run(rows)[output], values)

    def test_the_export_of_a_model_is_the_same_every_time(self):
        self.assertEqual(files_of(self.export("fm", to="first")), files_of(self.export("fm", to="second")))

    def test_keys_of_static_tables_that_are_too_high_are_errors(self):
        session = Session(self.export("lr"))
        feed = inputs_of([next(make_rows(1, 3, UNKNOWN))])
        feed = {name: feed[name] for name in session.inputs}
        feed["user"] = np.array([[61]])
        with self.assertRaisesRegex(Exception, "out of (data )?bounds"):
            session.session.run(None, feed)

    # ---- refusals ----

    def refuse(self, name, *parts, options=(), out="refused"):
        model = self.model(name)
        before = sorted(path.name for path in self.folder.iterdir())
        process = run("export", "--checkpoint", model, "--format", "onnx", "--out", self.folder / out, *options)
        self.fail_with(process, *parts)
        lines = [line for line in process.stderr.splitlines() if not line.startswith("emblem: read ")]
        self.assertEqual(len(lines), 1, process.stderr)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), before)

    def test_refused_options(self):
        self.model("lr")
        self.refuse("lr", "--precision int8", options=("--precision", "int8", "--calibrate", self.folder / "train.csv"))
        self.refuse("lr", "--version", options=("--version", 3))
        self.fail_with(run("export", "--checkpoint", self.model("lr"), "--format", "onnx", "--out", "s3://bucket/model"),
                       "s3://bucket/model is an address")
        self.refuse("lr", "no output", "probability", options=("--outputs", "clicks"))
        self.fail_with(run("export", "--checkpoint", self.model("lr"), "--out", self.folder / "served", "--external-data"),
                       "--format onnx")
        self.fail_with(run("export", "--checkpoint", self.model("lr"), "--out", self.folder / "served", "--format", "onn"),
                       "emblem|onnx", status=2)

    def test_a_folder_that_exists_is_kept(self):
        out = self.export("lr", to="kept")
        before = files_of(out)
        self.refuse("lr", f"{out} exists", out="kept")
        self.assertEqual(files_of(out), before)

    def test_random_rows_of_unknown_keys_are_refused(self):
        config = self.write_config("random.config", pipeline_of("lr", self.folder, self.folder / "random").replace(
            'mode: "constant" value: 0.05', 'mode: "uniform"'))
        self.succeed(run("train", "--config", config))
        self.trained.add("random")
        self.refuse("random", "cannot be exported to ONNX", 'table "goods', "eval_initializer_args")

    def test_capsules_need_a_longest_history(self):
        text = pipeline_of("mind", self.folder, self.folder / "endless")
        text = text.replace("sequence_length: 6", "").replace("max_seq_len: 5", "")
        self.succeed(run("train", "--config", self.write_config("endless.config", text)))
        self.trained.add("endless")
        self.refuse("endless", "cannot be exported to ONNX", "max_seq_len")

    def test_a_full_disk_leaves_nothing(self):
        disk = self.folder / "disk"
        disk.mkdir()
        self.model("deepfm")
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", disk], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("needs the right to mount a small tmpfs")
        try:
            for options in ((), ("--external-data",)):
                self.refuse("deepfm", "No space left on device", str(disk), options=options, out="disk/model")
                self.assertEqual(list(disk.iterdir()), [])
        finally:
            subprocess.run(["umount", disk], check=True)

    def test_an_unwritable_place_is_one_line(self):
        (self.folder / "file").write_text("")
        self.refuse("lr", str(self.folder / "file"), "Not a directory", out="file/model")


def test_of(name):
    def test(self):
        self.check(name)
    return test


for each in (*MODELS, *(f"{name}_encoded" for name in ENCODED)):
    setattr(Onnx, f"test_{each}", test_of(each))

if __name__ == "__main__":
    unittest.main()
