"""What a training reports while it runs, and how it ends."""
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

import numpy as np

import emblem
from emblem.progress import Progress
from folder import Folder
import rows

EVERY_STEP = {"train_config.log_step_count_steps": 1}


class Terminal(io.StringIO):
    def isatty(self):
        return True


class ProgressTest(Folder):
    def test_a_bar_is_shown_in_terminals_alone_and_leaves_a_line(self):
        for stream, is_shown in ((Terminal(), True), (io.StringIO(), False)):
            with mock.patch.object(sys, "stderr", stream):
                self.train(valid=rows.make(seed=2), progress=None, settings={**EVERY_STEP, "train_config.eval_epochs": 1})
            self.assertEqual("rows/s" in stream.getvalue(), is_shown)
            if is_shown:
                self.assertRegex(stream.getvalue().rpartition("\r")[2], r"^finished after 60 steps, auc 0\.\d+, \d\d:\d\d\n$")
                self.assertIn("%|", stream.getvalue())

    def test_a_bar_goes_where_the_training_fails(self):
        stream = Terminal()

        def fail(event):
            raise KeyError
        with mock.patch.object(sys, "stderr", stream), self.assertRaises(KeyError):
            self.train(progress=None, settings=EVERY_STEP, on_step=fail)
        self.assertNotIn("\n", stream.getvalue())

    def test_a_bar_fits_the_terminal(self):
        stream = io.StringIO()
        bar = Progress(True, stream, width=40, clock=iter(np.arange(0, 100, 0.2)).__next__)
        bar.note_evaluation({"metrics": {"auc": 0.75}})
        for done in range(0, 1001, 100):
            bar.update({"rows": done * 1000, "expected_rows": 1_000_000, "loss": 0.5, "samples_per_second": 1e5, "epoch": 0})
        self.assertLessEqual(max(len(line) for line in stream.getvalue().split("\r")), 40)

    def test_rows_that_are_not_known_have_no_bar(self):
        stream = io.StringIO()
        Progress(True, stream, width=80).update(
            {"rows": 5000, "expected_rows": 0, "loss": 0.5, "samples_per_second": 10.0, "epoch": 0})
        self.assertEqual(stream.getvalue(), "\r5,000 00:00, 10 rows/s, loss 0.5")


class CallbackTest(Folder):
    def test_a_callback_that_returns_false_ends_the_training_with_a_checkpoint(self):
        def stop(event):
            return event["step"] < 7
        model = self.train(model_dir=self.folder / "m", settings=EVERY_STEP, on_step=stop)
        self.assertEqual(model.history.outcome, "stopped by a callback")
        self.assertEqual(model.step, 7)
        self.assertEqual(self.train(model_dir=self.folder / "m", resume=True).history.outcome, "finished")

    def test_callbacks_are_told_of_checkpoints_and_evaluations(self):
        saved, measured = [], []
        self.train(valid=rows.make(seed=2), model_dir=self.folder / "m", on_checkpoint=saved.append, on_evaluation=measured.append,
                   settings={"train_config.save_checkpoints_steps": 20, "train_config.eval_epochs": 1})
        self.assertGreaterEqual(len(saved), 3)
        self.assertEqual([event["epoch"] for event in measured], sorted(event["epoch"] for event in measured))
        self.assertIn("auc", measured[0]["metrics"])

    def test_exceptions_of_all_callbacks_are_raised(self):
        class Mine(Exception):
            pass

        def fail(event):
            raise Mine("here")
        for name in ("on_step", "on_evaluation", "on_checkpoint"):
            with self.assertRaises(Mine):
                self.train(valid=rows.make(seed=2), settings={**EVERY_STEP, "train_config.eval_epochs": 1}, **{name: fail})

    def test_early_stopping(self):
        noise = rows.make()
        noise["click"] = np.random.default_rng(5).integers(0, 2, len(noise["click"]))
        options = {"valid": rows.make(seed=2), "epochs": 200, "settings": {"train_config.eval_epochs": 1}}
        model = self.train(noise, early_stopping=2, **options)
        self.assertEqual(model.history.outcome, "stopped early")
        self.assertLess(len(model.history.evaluations), 100)
        model = self.train(noise, early_stopping={"metric": "auc", "patience": 1, "min_delta": 0.5}, **options)
        self.assertLessEqual(len(model.history.evaluations), 3)
        with self.assertRaisesRegex(emblem.Error, "patienc"):
            self.train(noise, early_stopping={"patienc": 2})

    def test_results_are_drawn_and_shown(self):
        import matplotlib
        matplotlib.use("Agg")
        model = self.train(valid=rows.make(seed=2), settings={**EVERY_STEP, "train_config.eval_epochs": 1})
        axes = model.history.plot()
        self.assertEqual([line.get_label() for line in axes.get_lines()], ["loss", "auc"])
        with self.assertRaisesRegex(emblem.Error, "no evaluation has the metric 'nosuch'"):
            model.history.plot("nosuch")
        self.assertIn("<table>", model._repr_html_())
        self.assertIn("<pre>", model.pipeline._repr_html_())


class ProcessTest(Folder):
    def run_python(self, text, **options):
        return subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}\n" + text], capture_output=True,
                              text=True, timeout=120, cwd=self.folder, **options)

    def test_the_lock_is_released_in_every_call(self):
        """A thread counts while another one is in the engine: it could not if the engine kept the lock."""
        big = rows.make(300_000)
        data = emblem.Data(big)
        model = self.train()
        for name, call in {"train": lambda: emblem.train(data, rows.PIPELINE, epochs=1, progress=False),
                           "predict": lambda: model.predict(data), "evaluate": lambda: model.evaluate(data),
                           "init": lambda: emblem.init(data, "click", rows=0)}.items():
            most = 0
            for _ in range(20):  # on a busy machine this thread may get no CPU during a call
                ended, count = threading.Event(), 0
                thread = threading.Thread(target=lambda: (call(), ended.set()))
                thread.start()
                while not ended.is_set():
                    count += 1
                    time.sleep(0)
                thread.join()
                most = max(most, count)
                if most > 50:
                    break
            self.assertGreater(most, 50, name)

    def test_the_log_goes_to_logging(self):
        with self.assertLogs("emblem", "INFO") as lines:
            self.train(model_dir=self.folder / "m")
        self.assertTrue(lines.output)

    def test_spawned_processes_work_and_forked_ones_say_what_to_do(self):
        made = self.run_python("""
import multiprocessing, emblem, rows
def predict(folder):
    return emblem.load(folder).predict(rows.make(20)).tolist()
def use(model, results):
    try:
        model.predict(rows.make(20))
    except emblem.Error as error:
        results.put((error.code, str(error)))
    del model  # a forked process leaves the threads, which it does not have, alone
if __name__ == "__main__":
    model = emblem.train(rows.make(), rows.PIPELINE, model_dir="m", progress=False)
    results = multiprocessing.get_context("fork").SimpleQueue()
    child = multiprocessing.get_context("fork").Process(target=use, args=(model, results))
    child.start(); child.join(60)
    print(child.exitcode, results.get())
    sys.argv = ["-c"]
""")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn("0 ('invalid_argument', 'this process was forked", made.stdout)
        (self.folder / "job.py").write_text(f"""
import sys; sys.path[:0] = {sys.path!r}
import multiprocessing, emblem, rows
def predict(folder):
    return emblem.load(folder).predict(rows.make(20)).tolist()
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        first, second = pool.map(predict, ["m", "m"])
    print(first == second == predict("m"))
""")
        made = subprocess.run([sys.executable, "job.py"], capture_output=True, text=True, timeout=120, cwd=self.folder)
        self.assertEqual(made.stdout, "True\n", made.stderr)

    def test_the_process_ends_in_the_middle_of_a_training(self):
        begin = """
import os, threading, emblem, rows
started = threading.Event()
def run():
    emblem.train(rows.make(), rows.PIPELINE, epochs=100000, progress=False, settings={"train_config.log_step_count_steps": 1},
                 on_step=lambda event: started.set())
threading.Thread(target=run, daemon=True).start()
started.wait(60)
"""
        for end, status in (("", 0), ("raise SystemExit(3)", 3), ("raise ValueError", 1), ("os.kill(os.getpid(), 2)\nstarted.wait()\n"
                                                                                       "import time; time.sleep(60)", 130)):
            made = self.run_python(begin + end)
            self.assertIn(made.returncode, (status, -signal.SIGINT if status == 130 else status), (end, made.stderr))

    def test_the_process_ends_in_the_middle_of_calls(self):
        code = """
import sys, threading, time, emblem, numpy
sys.setswitchinterval(1e-5)
table = emblem.Table(4)
def call():
    while True:
        table.lookup(numpy.arange(10))
        try:
            table.lookup(["no key"])
        except Exception:
            pass
for _ in range(4):
    threading.Thread(target=call, daemon=True).start()
time.sleep(.05)
raise SystemExit(3)
"""
        for _ in range(5):
            made = self.run_python(code)
            self.assertEqual((made.returncode, made.stderr), (3, ""))

    def test_ctrl_c_in_the_main_thread_saves_a_checkpoint(self):
        process = subprocess.Popen([sys.executable, "-c", f"""
import sys; sys.path[:0] = {sys.path!r}
import emblem, rows
emblem.train(rows.make(), rows.PIPELINE, epochs=1000000, model_dir="m", progress=False,
             settings={{"train_config.log_step_count_steps": 50}}, on_step=lambda event: print(event["step"], flush=True))
"""], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder)
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
        self.assertIn("KeyboardInterrupt", errors)
        saved = emblem.load(self.folder / "m")
        self.assertGreaterEqual(saved.step, 50)


class LaunchTest(Folder):
    SCRIPT = """
import sys; sys.path[:0] = {path!r}
import emblem, rows, json
model = emblem.train(rows.make(), rows.PIPELINE, model_dir="m", progress=False, settings={{"data_config.shuffle": False,
                     "train_config.logical_shards": 2}}, epochs=int(sys.argv[1]))
history = model.history
print(json.dumps([history.rank, history.ranks, history.steps, float(model.predict(rows.make(20)).sum())]), flush=True)
"""

    def launch(self, *arguments, **options):
        (self.folder / "job.py").write_text(self.SCRIPT.format(path=sys.path))
        out, errors = io.StringIO(), io.StringIO()
        folder = os.getcwd()
        os.chdir(self.folder)
        try:
            with mock.patch.object(sys, "stdout", out), mock.patch.object(sys, "stderr", errors):
                emblem.launch("job.py", *arguments, **{"timeout": 300, **options})
        finally:
            os.chdir(folder)
        return [json.loads(line.partition(": ")[2] or line) for line in out.getvalue().splitlines() if "[" in line]

    def test_ranks_train_together_and_give_the_bytes_of_one_process(self):
        found = sorted(self.launch("1", ranks=2))
        self.assertEqual([one[:2] for one in found], [[0, 2], [1, 2]])
        self.assertEqual(found[0][2:], found[1][2:])
        two = emblem.load(self.folder / "m").predict(rows.make())
        alone = self.train(epochs=1, settings={"data_config.shuffle": False, "train_config.logical_shards": 2})
        np.testing.assert_array_equal(alone.predict(rows.make()), two)

    def test_a_rank_that_fails_ends_all_with_its_message(self):
        with self.assertRaisesRegex(emblem.Error, "^rank [01] of 2 .*num_epochs"):
            self.launch("-1", ranks=2)
        with self.assertRaisesRegex(emblem.Error, "there is no script"):
            emblem.launch("nosuch.py", ranks=2)

    def test_a_training_on_ranks_needs_a_folder(self):
        with mock.patch.dict(os.environ, {"EMBLEM_RANKS_FROM": "torchrun", "WORLD_SIZE": "2", "RANK": "0"}):
            with self.assertRaisesRegex(emblem.Error, "needs a model_dir"):
                self.train()


if __name__ == "__main__":
    unittest.main()
