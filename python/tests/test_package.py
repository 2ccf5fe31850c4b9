import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import unittest

import numpy as np

import emblem
from emblem import _runtime
from folder import Folder
import rows


class PackageTest(Folder):
    def run_python(self, text):
        return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120, cwd=self.folder)


class TrainingTest(PackageTest):
    def test_the_program_and_python_give_the_same_bytes(self):
        import pyarrow
        import pyarrow.parquet
        data = rows.make()
        pyarrow.parquet.write_table(pyarrow.table(data), self.folder / "rows.parquet")
        (self.folder / "p.config").write_text(rows.PIPELINE)
        # Rows in memory are shuffled in another order than row groups of files.
        for name, source, shuffle in (("memory", data, "false"), ("parquet", self.folder / "rows.parquet", "true")):
            setting = {"data_config.shuffle": shuffle}
            subprocess.run([_runtime.PROGRAM, "train", "--config", "p.config", "--train-input", "rows.parquet", "--model-dir",
                            name + ".cli", "--set", f"data_config.shuffle={shuffle}"],
                           cwd=self.folder, check=True, capture_output=True)
            model = self.train(source, model_dir=self.folder / name, settings=setting)
            theirs = next((self.folder / (name + ".cli")).glob("model.ckpt-*"))
            for path in theirs.rglob("*"):
                if path.is_file() and path.name in ("key", "emb_vector", "state", "score", "dense.safetensors"):
                    mine = pathlib.Path(model.checkpoint) / path.relative_to(theirs)
                    self.assertEqual(mine.read_bytes(), path.read_bytes(), f"{name}: {path.name}")
        subprocess.run([_runtime.PROGRAM, "predict", "--checkpoint", "parquet", "--input", "rows.parquet", "--out", "out.parquet"],
                       cwd=self.folder, check=True, capture_output=True)
        written = pyarrow.parquet.read_table(self.folder / "out.parquet")["prediction"].to_numpy()
        np.testing.assert_array_equal(model.predict(data), written.astype(np.float32))

    def test_all_forms_of_rows_give_the_same_bytes(self):
        import duckdb
        import pandas
        import polars
        import pyarrow
        data = rows.make()
        table = pyarrow.table(data)
        model = self.train(data)
        expected = model.predict(data)
        relation = duckdb.connect().from_arrow(table)
        parts = [table.slice(0, 700), table.slice(700)]
        forms = {"arrow": table, "pandas": pandas.DataFrame(data), "polars": polars.DataFrame(data), "duckdb": relation,
                 "reader": table.to_reader(max_chunksize=300), "parts": parts, "iterator": iter(parts)}
        for name, form in forms.items():
            np.testing.assert_array_equal(model.predict(form), expected, name)
        for name in ("arrow", "pandas", "polars"):
            np.testing.assert_array_equal(self.train(forms[name]).predict(data), expected, name)

    def test_a_pipeline_is_chosen_where_none_is_given(self):
        model = emblem.train(rows.make(), label="click", progress=False)
        self.assertGreater(model.evaluate(rows.make(seed=2))["auc"], 0.65)
        self.assertEqual(model.pipeline.labels, ["click"])

    def test_what_is_reported_is_kept(self):
        seen = []
        model = self.train(valid=rows.make(seed=2), on_evaluation=seen.append, settings={"train_config.eval_epochs": 1},
                           metrics={"mean": lambda labels, predictions: predictions.mean() - labels.mean()})
        self.assertEqual(len(seen), 3)
        self.assertEqual(seen, model.history.evaluations)
        self.assertEqual(model.history.outcome, "finished")
        self.assertLess(abs(model.history.evaluation["mean"]), 0.1)
        self.assertIn("auc", model.history._repr_html_())

    def test_training_continues_and_models_are_loaded(self):
        first = self.train(model_dir=self.folder / "m")
        again = self.train(model_dir=self.folder / "m", resume=True, epochs=5)
        self.assertGreater(again.step, first.step)
        np.testing.assert_array_equal(emblem.load(self.folder / "m").predict(rows.make()), again.predict(rows.make()))
        saved = again.save(self.folder / "saved")
        np.testing.assert_array_equal(emblem.load(saved).predict(rows.make()), again.predict(rows.make()))
        with self.assertRaisesRegex(emblem.Error, "exists"):
            again.save(self.folder / "saved")

    def test_cross_validation(self):
        found = emblem.cv(rows.make(600), rows.PIPELINE, folds=3, progress=False)
        self.assertEqual(found["auc"].shape, (3,))

    def test_a_model_is_exported_and_served(self):
        model = self.train()
        model.export(self.folder / "models/ctr")
        few = {name: values[:5] for name, values in rows.make().items() if name != "click"}
        with emblem.serve(self.folder / "models") as server:
            client = server.client()
            self.assertTrue(client.is_ready("ctr"))
            answer = client.predict("ctr", few)
            np.testing.assert_allclose(next(iter(answer.values())).reshape(-1), model.predict(few), rtol=1e-6)
            with self.assertRaisesRegex(emblem.Error, "nosuch"):
                client.predict("nosuch", few)

    def test_a_model_is_exported_for_onnx_runtime(self):
        model = self.train()
        folder = model.export(self.folder / "onnx", format="onnx", outputs=["logits"])
        self.assertTrue((self.folder / "onnx/model.onnx").exists())
        self.assertEqual(folder, str(self.folder / "onnx"))
        for message, options in [("exists", {"format": "onnx"}), ("'emblem' or 'onnx'", {"format": "torch"}),
                                 ("format='onnx'", {"outputs": ["logits"]})]:
            with self.assertRaisesRegex(emblem.Error, message):
                model.export(self.folder / "onnx", **options)


class MisuseTest(PackageTest):
    def expect(self, message, call, code=None):
        with self.assertRaisesRegex(emblem.Error, message) as raised:
            call()
        self.assertNotIn("\n", str(raised.exception))
        if code:
            self.assertEqual(raised.exception.code, code)

    def test_data_that_cannot_be_read(self):
        model = self.train()
        data = rows.make()
        self.expect('no column "price"', lambda: model.predict({"user": data["user"]}))
        self.expect("has 3 values", lambda: model.predict({"user": [1, 2], "price": [1.0, 2.0, 3.0]}))
        self.expect("expected a path", lambda: model.predict(7))
        self.expect("complex", lambda: model.predict(dict(data, price=data["price"].astype(complex))))
        self.expect("2 dimensions|two", lambda: model.predict(np.zeros((2, 2, 2))))
        self.expect("no columns", lambda: model.predict({}))
        self.expect("nosuch.parquet", lambda: model.predict("nosuch.parquet"), "not_found")
        self.expect('no output "x"', lambda: model.predict(data, outputs=["x"]))

    def test_settings_that_mean_nothing(self):
        self.expect("num_epochz", lambda: self.train(settings={"train_config.num_epochz": 1}))
        self.expect("label is given with a pipeline", lambda: self.train(label="click"))
        self.expect("neither data nor a pipeline", lambda: emblem.train())
        self.expect('device is "tpu"', lambda: self.train(device="tpu"))
        self.expect("click", lambda: emblem.init(rows.make(), "nosuch"))
        self.expect("is not an emblem checkpoint", lambda: emblem.load(self.folder), "invalid_argument")

    def test_an_exception_in_a_callback_ends_the_training(self):
        def fail(event):
            raise KeyError("mine")
        with self.assertRaises(KeyError):
            self.train(settings={"train_config.log_step_count_steps": 1}, on_step=fail)
        self.assertGreater(len(self.train().predict(rows.make())), 0)  # all works as before

    def test_ctrl_c_saves_what_was_learned(self):
        def interrupt(event):
            os.kill(os.getpid(), signal.SIGINT)
        with self.assertRaises(KeyboardInterrupt):
            self.train(model_dir=self.folder / "m", epochs=1000, settings={"train_config.log_step_count_steps": 5},
                       on_step=interrupt)
        self.assertTrue(list((self.folder / "m").glob("model.ckpt-*")))

    def test_rows_stay_as_long_as_they_are_used(self):
        data = emblem.Data(rows.make())
        expected = self.train(rows.make()).predict(rows.make())
        model = self.train(data)
        del data
        np.testing.assert_array_equal(model.predict(rows.make()), expected)

    def test_several_threads_use_one_model(self):
        model, found = self.train(), []
        expected = model.predict(rows.make())
        threads = [threading.Thread(target=lambda: found.append(model.predict(rows.make()))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(found), 4)
        for one in found:
            np.testing.assert_array_equal(one, expected)

    def test_models_pipelines_and_errors_are_pickled(self):
        model = self.train()
        copy = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(copy.predict(rows.make()), model.predict(rows.make()))
        pipeline = pickle.loads(pickle.dumps(emblem.Pipeline(rows.PIPELINE)))
        self.assertEqual(pipeline.labels, ["click"])
        error = pickle.loads(pickle.dumps(emblem.Error("x", "not_found")))
        self.assertEqual((str(error), error.code), ("x", "not_found"))

    def test_a_pickle_cannot_write_outside_of_its_folder(self):
        state = self.train().__getstate__()
        state["files"]["../../evil"] = b""
        with self.assertRaisesRegex(emblem.Error, "leads out"):
            emblem.Model.__new__(emblem.Model).__setstate__(state)

    def test_a_forked_process_is_told_what_to_do(self):
        self.train()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                emblem.Pipeline(rows.PIPELINE)
                emblem.Data("x.csv")
                emblem.load(self.folder)
            except emblem.Error as error:
                os.write(writer, str(error).encode())
            os._exit(0)
        os.waitpid(child, 0)
        os.close(writer)
        self.assertIn(b"spawn", os.read(reader, 1000))
        os.close(reader)

    def test_the_interpreter_ends_in_the_middle_of_a_training(self):
        made = self.run_python(f"""
import sys, threading
sys.path[:0] = {sys.path!r}
import emblem, rows
started = threading.Event()
def run():
    emblem.train(rows.make(), rows.PIPELINE, epochs=100000, progress=False, settings={{"train_config.log_step_count_steps": 1}},
                 on_step=lambda event: started.set())
threading.Thread(target=run, daemon=True).start()
started.wait(60)
""")
        self.assertGreaterEqual(made.returncode, 0, made.stderr)  # no signal

    def test_importing_is_light(self):
        made = self.run_python(f"""
import sys
sys.path[:0] = {sys.path!r}
import emblem, json
print(json.dumps([name for name in ("torch", "pandas", "pyarrow", "sklearn", "matplotlib", "polars") if name in sys.modules]))
""")
        self.assertEqual(json.loads(made.stdout), [], made.stderr)


if __name__ == "__main__":
    unittest.main()
