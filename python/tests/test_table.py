"""Embedding tables of one's own: what they learn, how they are saved, and misuse."""
import array
import os
import pathlib
import subprocess
import sys
import threading
import unittest

import numpy as np

import emblem
from folder import Folder
import rows


def same(one, other):
    return all(np.array_equal(one[name], other[name]) for name in ("keys", "weights", "states", "scores"))


class LearningTest(Folder):
    def test_an_update_is_that_of_the_optimizer(self):
        table = emblem.Table(2, lr=0.5, initializer="constant,val=1")
        found = table.lookup([7, 8, 7, 9], [0, 2, 4], [1, 1, 2, 1], train=True)
        np.testing.assert_array_equal(found, [[2, 2], [3, 3]])
        table.update([[1, 0], [0, 4]], scale=2)
        np.testing.assert_array_equal(table.lookup([7, 8, 9, 10]), [[1 - 1, 1 - 8], [0, 1], [1, -3], [0, 0]])
        self.assertEqual((len(table), table.updates, 10 in table), (3, 1, False))
        self.assertEqual(table.take_counts(), (8, 1))
        self.assertEqual(table.erase([7, 10]), 1)
        table.clear()
        self.assertEqual((len(table), table.updates), (0, 0))

    def test_a_saved_table_continues_with_the_same_bytes(self):
        def make():
            return emblem.Table(3, optimizer="adam", lr=0.01, capacity=50, eviction="lru", pooling="mean")

        def train(table, steps):
            for step in steps:
                found = table.lookup(np.arange(step, step + 12), [0, 3, 3, 12], train=True)
                table.update(np.cos(found + step))
        straight, first, second = make(), make(), make()
        train(straight, range(40))
        train(first, range(20))
        first.save(self.folder / "t")
        second.load(self.folder / "t")
        train(second, range(20, 40))
        self.assertTrue(same(straight.export(), second.export()))
        self.assertEqual(second.updates, 40)
        third = make()
        exported = second.export()
        third.write(exported["keys"], exported["weights"], states=exported["states"], scores=exported["scores"])
        self.assertTrue(same(third.export(), exported))
        other = emblem.Table(3)
        with self.assertRaisesRegex(emblem.Error, "trained with adam"):
            other.load(self.folder / "t")
        other.load(self.folder / "t", weights_only=True)
        self.assertEqual(other.export()["states"].shape, (len(other), 0))  # of sgd
        again = emblem.Table(3)
        again.write(**other.export())
        self.assertTrue(same(again.export(), other.export()))
        np.testing.assert_array_equal(other.export()["weights"], first.export()["weights"])

    def test_tables_of_checkpoints_are_read(self):
        model = emblem.train(rows.make(), rows.PIPELINE, progress=False)
        folder = next((pathlib.Path(model.checkpoint) / "tables").glob("user*"))
        table = emblem.Table(4, 40, optimizer="adagrad", lr=0.1)
        table.load(folder)
        self.assertEqual(len(table), 40)
        self.assertEqual(table.updates, model.history.steps)
        stored = np.fromfile(folder / "emb_vector", np.float32).reshape(40, 4)
        np.testing.assert_array_equal(table.lookup(np.arange(40)), stored)

    def test_arrays_of_all_kinds_are_read(self):
        table = emblem.Table(2, 10, seed=3)
        expected = table.lookup(np.array([1, 2, 3]))
        self.assertEqual((expected.dtype, expected.shape), (np.float32, (3, 2)))
        for keys in ([1, 2, 3], (1, 2, 3), array.array("i", [1, 2, 3]), memoryview(array.array("q", [1, 2, 3])),
                     np.array([1, 2, 3], np.uint8), np.array([1, 2, 3], ">i8"), np.array([1, 0, 2, 0, 3])[::2]):
            np.testing.assert_array_equal(table.lookup(keys), expected)
        self.assertEqual(table.lookup([]).shape, (0, 2))
        frozen = np.array([1, 2, 3])
        frozen.setflags(write=False)
        np.testing.assert_array_equal(table.lookup(frozen), expected)


class MisuseTest(Folder):
    def expect(self, message, call, code="invalid_argument"):
        with self.assertRaisesRegex(emblem.Error, message) as raised:
            call()
        self.assertNotIn("\n", str(raised.exception))
        self.assertEqual(raised.exception.code, code)

    def test_what_does_not_fit_is_said(self):
        table = emblem.Table(2, 10)
        self.expect("keys are of type float64", lambda: table.lookup([1.5]))
        self.expect("keys are of type <U1", lambda: table.lookup(["a"]))
        self.expect("keys are of type bool", lambda: table.lookup([True]))
        self.expect("keys have 2 dimensions", lambda: table.lookup([[1, 2]]))
        self.expect("cannot be read as an array|type object", lambda: table.lookup([[1], [1, 2]]))
        self.expect("outside of", lambda: table.lookup([2 ** 63]))
        self.expect("key 10 is outside", lambda: table.lookup([10]))
        self.expect("do not rise", lambda: table.lookup([1, 2], [0, 3]))
        self.expect("do not rise", lambda: table.lookup([1, 2], [2, 1, 2]))
        self.expect("offsets are empty", lambda: table.lookup([], []))
        self.expect("weights for", lambda: table.lookup([1, 2], weights=[1]))
        self.expect("complex", lambda: table.lookup([1], weights=[1j]))
        self.expect("training", lambda: table.update(np.zeros((0, 2))))
        table.lookup([1, 2], train=True)
        self.expect(r"gradients are \[1, 2\].*\[2, 2\]", lambda: table.update([[1, 2]]))
        self.expect("gradients have 1 dimensions", lambda: table.update([1, 2]))
        table.update([[1, 2], [3, 4]])
        self.expect("training", lambda: table.update([[1, 2], [3, 4]]))
        self.expect("static", lambda: table.erase([1]))
        self.expect("custom", lambda: table.set_next_score(1))
        table.lookup([1, 2], train=True)
        for rate in (-0.1, -1, float("nan"), float("inf")):
            self.expect("learning rate is", lambda: table.update(np.ones((2, 2)), lr=rate))
        table.update(np.ones((2, 2)), lr=0)
        before = table.export()["weights"]
        self.expect(r"weights are \[1, 2\]; expected \[2, 2\]", lambda: table.write([1, 2], [[1.0, 2.0]]))
        self.expect(r"weights are \[2, 3\]; expected \[3, 2\]", lambda: table.write([1, 2, 3], np.ones((2, 3))))
        self.expect(r"states are \[1, 1\]; expected \[1, 0\]", lambda: table.write([1], [[1, 2]], states=[[1]]))
        self.expect("key 999 is outside", lambda: table.write([1, 2, 999], np.ones((3, 2))))
        np.testing.assert_array_equal(table.export()["weights"], before)
        self.expect("lr is 0.1, and settings have an lr of 0.2", lambda: emblem.Table(2, lr=0.1, settings={"lr": 0.2}))
        self.expect("dimension is 0", lambda: emblem.Table(0))
        self.expect("adagrad", lambda: emblem.Table(2, optimizer="adagrd"))
        self.expect("momentum|beta", lambda: emblem.Table(2, optimizer="adam", settings={"beta9": 1}))
        self.expect("sum or mean", lambda: emblem.Table(2, pooling="max"))
        self.expect("tpu", lambda: emblem.Table(2, device="tpu"))
        self.expect("exists already", lambda: table.save(self.folder))
        with self.assertRaises(emblem.Error):
            table.load("x" * 5000)
        with self.assertRaises(TypeError):
            emblem.Table("2")
        self.assertEqual(len(table), 10)  # works on

    def test_a_closed_table_is_closed(self):
        with emblem.Table(2) as table:
            table.lookup([1], train=True)
        for call in (lambda: table.lookup([1]), lambda: table.update([[1, 1]]), lambda: len(table), lambda: 1 in table,
                     lambda: table.save(self.folder / "t"), table.export, table.clear, lambda: table.updates):
            self.expect("is closed", call)
        table.close()
        self.assertIn("closed", repr(table))

    def test_arrays_may_end_or_change_before_the_gradients(self):
        table = emblem.Table(2, 10, lr=1, initializer="zeros")
        keys = np.array([1, 2])
        found = table.lookup(keys, train=True)
        keys[:] = 10 ** 12
        del keys, found
        table.update(np.ones((2, 2)))
        np.testing.assert_array_equal(table.lookup([1, 2]), -np.ones((2, 2)))
        rows_of_table = table.lookup([1])
        table.close()
        del table
        np.testing.assert_array_equal(rows_of_table, [[-1, -1]])

    def test_threads_use_one_table(self):
        table = emblem.Table(4, optimizer="adagrad", lr=0.1)
        expected = table.lookup(np.arange(100), train=True)
        wrong = []

        def read():
            for _ in range(50):
                if not np.array_equal(table.lookup(np.arange(100)), expected):
                    wrong.append(1)

        def insert(first):
            for step in range(50):
                table.lookup(np.arange(first, first + 10) + 10 * step, train=True)
        threads = [threading.Thread(target=read) for _ in range(2)]
        threads += [threading.Thread(target=insert, args=(1000 * at,)) for at in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertEqual(len(table), 100 + 2 * 500)

    def test_gradients_are_of_the_thread_that_looked_up(self):
        table = emblem.Table(2, lr=1, initializer="zeros")

        def in_thread(body):
            caught = []

            def run():
                try:
                    body()
                except emblem.Error as error:
                    caught.append(str(error))
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
            return caught
        table.lookup([1], train=True)
        self.assertEqual(in_thread(lambda: table.lookup([2], train=True)), [])
        self.expect("by another thread", lambda: table.update([[1, 1]]))
        np.testing.assert_array_equal(table.lookup([1, 2]), np.zeros((2, 2)))
        table.lookup([1], train=True)
        self.assertRegex(in_thread(lambda: table.update([[1, 1]]))[0], "by another thread")
        table.update([[1, 1]])
        np.testing.assert_array_equal(table.lookup([1, 2]), [[-1, -1], [0, 0]])

    def test_closing_while_others_read_waits_for_them(self):
        table = emblem.Table(4)
        started, ended = threading.Event(), []

        def read():
            try:
                while True:
                    table.lookup(np.arange(1000), train=True)
                    started.set()
            except emblem.Error as error:
                ended.append(str(error))
        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        started.wait(60)
        table.close()
        for thread in threads:
            thread.join()
        self.assertEqual(len(ended), 3)

    def test_a_forked_process_is_told_what_to_do(self):
        table = emblem.Table(2, threads=2)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                table.lookup([1])
            except emblem.Error as error:
                os.write(writer, str(error).encode())
            del table
            os._exit(0)
        os.waitpid(child, 0)
        os.close(writer)
        self.assertIn(b"spawn", os.read(reader, 1000))
        os.close(reader)

    def test_the_interpreter_may_end_with_open_tables(self):
        made = subprocess.run([sys.executable, "-c", f"""
import sys, threading
sys.path[:0] = {sys.path!r}
import emblem
table = emblem.Table(8, threads=2)
started = threading.Event()
def run():
    while True:
        table.lookup(range(5000), train=True)
        started.set()
threading.Thread(target=run, daemon=True).start()
started.wait(60)
"""], capture_output=True, text=True, timeout=120)
        self.assertEqual(made.returncode, 0, made.stderr)


if __name__ == "__main__":
    unittest.main()
