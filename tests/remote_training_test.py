"""Trainings whose model folder is in an object store that fails, is shared, or is read meanwhile: no checkpoint is lost."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import unittest

from harness import EMBLEM, becomes_true, run
from remote_data_test import RemoteTest

MODEL = "s3://out/runs/1"


class RemoteTraining(RemoteTest):
    def setUp(self):
        super().setUp()
        self.store.buckets["out"] = {}

    def options(self, cache=None):
        return ["--endpoint", self.store.url, "--cache-dir", cache or self.cache]

    def train_options(self, *more, cache=None, keep=2):
        return ["--config", self.config, "--model-dir", MODEL, *self.local(), *self.options(cache), "--set",
                "train_config.save_checkpoints_steps=10", "--set", f"train_config.keep_checkpoint_max={keep}", *more]

    def train_remote(self, *more, cache=None, keep=2, **environment):
        return run("train", *self.train_options(*more, cache=cache, keep=keep), env={**os.environ, **environment})

    def start(self, *more, cache=None, **environment):
        process = subprocess.Popen([EMBLEM, "train", *map(str, self.train_options(*more, cache=cache))], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **environment})
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        self.store.release()
        if process.poll() is None:
            process.kill()
        process.communicate()

    def stored_steps(self):
        return self.steps_in(self.store.keys("out", "runs/1/"))

    @staticmethod
    def steps_in(names):
        return sorted(int(found[1]) for name in names if (found := re.search(r"model\.ckpt-(\d+)/manifest\.json$", name)))

    def local_steps(self, cache=None):
        """Of the working copy of a training."""
        return self.steps_in(map(str, pathlib.Path(cache or self.cache).glob("models/*-train/model.ckpt-*/manifest.json")))

    def locks(self):
        return [key for key in self.store.keys("out", "runs/1/.lock/") if key.endswith(".json")]

    def learned(self):
        """Of the newest checkpoint in the store."""
        prefix = f"runs/1/model.ckpt-{self.stored_steps()[-1]}/"
        return {key[len(prefix):]: self.store.get("out", key) for key in self.store.keys("out", prefix)
                if "/tables/" in key or key.endswith("dense.safetensors")}

    def undisturbed(self):
        """What a run without faults learns."""
        self.succeed(self.train_remote(cache=self.folder / "undisturbed"))
        learned = self.learned()
        self.store.buckets["out"] = {}
        shutil.rmtree(self.folder / "undisturbed")
        return learned

    def fail_uploads(self, kind):
        self.store.fail(kind, times=1000000, match="PUT /out/runs/1/model.ckpt-")

    def test_checkpoints_that_the_store_lost_are_kept(self):
        self.succeed(self.train_remote("--max-steps", "35"))
        self.store.buckets["out"] = {}
        again = self.succeed(self.train_remote("--resume", "--max-steps", "10"))
        self.assertIn("s3://out/runs/1/model.ckpt-35 was uploaded and was deleted from the store", again.stderr)
        kept = self.cache.glob("models/*-train/.kept/*/model.ckpt-*/manifest.json")
        self.assertEqual(self.steps_in(map(str, kept)), [30, 35])
        self.assertEqual(self.stored_steps(), [10])
        self.assertIn("kept:", self.succeed(run("cache", "clear", "--cache-dir", self.cache)).stdout)

    def test_checkpoints_that_arrive_damaged_are_not_kept(self):
        self.succeed(self.train_remote("--max-steps", "35", cache=self.folder / "writer"))
        evaluate = ["eval", "--checkpoint", MODEL, "--input", self.split, *self.options()]
        damage = {"match": "GET /out/runs/1/model.ckpt-35/dense", "bytes": 100}
        self.store.fail("flip", times=1, **damage)
        self.succeed(run(*evaluate))
        self.succeed(run("cache", "clear", "--cache-dir", self.cache))
        for stored in self.store.buckets["out"].values():
            stored.etag = "of-2-parts"  # which is no MD5
        self.store.fail("flip", times=1000000, **damage)
        self.fail_with(run(*evaluate), "s3://out/runs/1/model.ckpt-35 is damaged, or was damaged on its way", "dense.safetensors")
        self.fail_with(self.train_remote("--resume"), "s3://out/runs/1/model.ckpt-35 is damaged, or was damaged on its way")
        self.store.heal()
        self.succeed(run(*evaluate))
        self.succeed(self.train_remote("--resume"))

    def test_a_store_that_removes_nothing_keeps_older_checkpoints(self):
        self.store.fail("403", times=1000000, match="DELETE /out/runs/1/model.ckpt-")
        trained = self.succeed(self.train_remote("--max-steps", "35"))
        self.assertIn(f"older checkpoints stay in {MODEL}: cannot remove", trained.stderr)
        self.assertNotIn("stays on this machine", trained.stderr)
        self.assertLessEqual({30, 35}, set(self.stored_steps()))

    def test_checkpoints_that_could_not_be_uploaded_are_uploaded_and_resumed_by_the_next_run(self):
        expected = self.undisturbed()
        for kind in ("403", "500"):
            with self.subTest(kind):
                self.setUp()
                self.fail_uploads(kind)
                failed = self.train_remote("--max-steps", "35")
                message = self.fail_with(failed, "cannot write s3://out/runs/1/model.ckpt-", "uploads it")
                local = re.search(r"is in (\S+),", message)[1]
                self.assertEqual(self.steps_in(map(str, pathlib.Path(local).glob("*/manifest.json"))), [30, 35])
                self.assertEqual(self.stored_steps(), [])
                self.assertIn("stays on this machine for now, in " + local, failed.stderr)

                listed = self.succeed(run("cache", "list", "--cache-dir", self.cache)).stdout
                self.assertIn(f"{MODEL}/  (not uploaded yet: {local})", listed)
                cleared = self.succeed(run("cache", "clear", "--cache-dir", self.cache)).stdout
                self.assertIn("kept:", cleared)
                self.assertEqual(self.local_steps(), [30, 35])

                # Still failing: neither run removes them.
                self.fail_with(self.train_remote(), "was not uploaded yet; continue it with --resume")
                self.assertEqual(self.local_steps(), [30, 35])
                resumed = self.train_remote("--resume", "--max-steps", "45")
                self.fail_with(resumed, "cannot write s3://out/runs/1/")
                self.assertIn(f"continuing from {local}/model.ckpt-35, which is newer than anything in {MODEL}", resumed.stderr)

                self.store.heal()
                refused = self.train_remote()
                self.fail_with(refused, "model.ckpt-45 exists already; continue it with --resume")
                self.assertIn(f"uploading to {MODEL} first", refused.stderr)
                self.assertEqual(self.stored_steps(), [40, 45])
                self.succeed(self.train_remote("--resume", cache=self.folder / f"other-{kind}"))  # on another machine
                self.assertEqual(self.learned(), expected)
                self.succeed(self.train_remote("--resume"))
                self.assertIn("removed", self.succeed(run("cache", "clear", "--cache-dir", self.cache)).stdout)
                self.assertEqual(self.local_steps(), [])

    def test_the_newest_of_this_machine_and_the_store_is_resumed(self):
        self.fail_uploads("403")
        self.fail_with(self.train_remote("--max-steps", "25"), "cannot write")
        self.store.heal()
        ahead = self.folder / "ahead"
        self.succeed(self.train_remote("--max-steps", "40", cache=ahead))  # another machine, which knows of none
        resumed = self.succeed(self.train_remote("--resume", "--max-steps", "50"))
        self.assertIn("uploading to s3://out/runs/1 first", resumed.stderr)
        self.assertIn("continuing from s3://out/runs/1/model.ckpt-40", resumed.stderr)
        self.assertEqual(self.stored_steps(), [40, 50])
        kept = pathlib.Path(self.cache).glob("models/*-train/.kept/*/train_log.jsonl")
        self.assertEqual(len(list(kept)), 1)  # lines of the shorter run are not lost, and not mixed

    def test_a_store_that_does_not_answer_does_not_stop_the_steps(self):
        self.store.fail("stall", times=1000000, match="PUT /out/runs/1/model.ckpt-")
        process = self.start()
        # All checkpoints are saved while the first upload waits.
        self.assertTrue(becomes_true(lambda: (self.local_steps() or [0])[-1] >= 70 or process.poll() is not None))
        self.assertIsNone(process.poll())
        self.assertEqual(self.stored_steps(), [])
        self.store.heal()
        self.store.release()
        self.assertEqual(process.wait(timeout=300), 0, process.stderr.read())
        self.assertEqual(self.stored_steps()[-1], self.local_steps()[-1])

    def interrupt(self, process):
        """The line of the end, though no connection is given up."""
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=300)[1]
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, said)
        self.assertIn("the store has not answered for 1 s; ", said)
        self.store.heal()
        self.store.release()
        self.store.link.rate = 0
        return said.split("the store has not answered for 1 s; ")[1]

    PATIENT = {"EMBLEM_TEST_STALL_SECONDS": "1000"}

    def test_an_interrupt_does_not_wait_for_a_model_store_that_does_not_answer(self):
        self.store.fail("stall", times=1000000, match="PUT /out/runs/1/model.ckpt-")
        process = self.start("--upload-grace", "1", "--set", "train_config.num_epochs=1000", **self.PATIENT)
        self.wait_until_training(process)
        line = self.interrupt(process)
        local = re.match(r"what was not uploaded is in (\S+), and the next run", line)[1]
        saved = self.steps_in(map(str, pathlib.Path(local).glob("*/manifest.json")))
        self.assertTrue(saved)
        self.assertEqual(self.stored_steps(), [])
        self.succeed(self.train_remote("--resume", "--max-steps", saved[-1]))
        self.assertEqual(self.stored_steps()[-1], saved[-1])

    def test_an_interrupt_does_not_wait_for_a_data_store_that_does_not_answer(self):
        for file in range(3):
            self.store.put("data", f"large/{file}.tsv", b"".join(self.lines))
        self.local = lambda: ["--train-input", "s3://data/large/", "--set", "data_config.shuffle=false", "--set",
                              "data_config.part_bytes=65536", "--set", "data_config.download_threads=2"]
        self.store.fail("stall", times=1000000, match="GET /data/large/")
        process = self.start("--upload-grace", "1", **self.PATIENT)
        self.assertTrue(becomes_true(lambda: self.store.count("GET", "/data/large/") or process.poll() is not None))
        self.assertIn("interrupted before the first step", self.interrupt(process))
        self.store.released.clear()

        self.store.link.rate = 150_000  # so that training is ahead of the last file
        process = self.start("--upload-grace", "1", **self.PATIENT)
        self.wait_until_training(process)
        self.store.fail("stall", times=1000000, match="GET /data/large/")
        self.store.forget()
        self.assertTrue(becomes_true(lambda: self.store.count("GET", "/data/large/") or process.poll() is not None))
        self.interrupt(process)
        saved = self.local_steps()[-1]
        self.succeed(self.train_remote("--resume", "--max-steps", saved))
        self.assertEqual(self.stored_steps()[-1], saved)

    def wait_until_training(self, process):
        self.assertTrue(becomes_true(lambda: self.local_steps() or process.poll() is not None))
        self.assertIsNone(process.poll())

    def test_a_second_training_is_refused_before_it_touches_anything(self):
        self.store.fail("stall", times=1000000, match="PUT /out/runs/1/model.ckpt-")
        first = self.start()
        self.wait_until_training(first)
        other = self.folder / "second"
        for cache, environment in ((self.cache, {}), (other, {}), (other, {"EMBLEM_TEST_HOST": "host-7"})):
            for resume in ([], ["--resume"]):
                refused = self.train_remote(*resume, cache=cache, **environment)
                self.fail_with(refused, f"{MODEL} is in use by another training (process {first.pid}")
        self.assertTrue(self.local_steps())
        self.store.heal()
        self.store.release()
        self.assertEqual(first.wait(timeout=300), 0, first.stderr.read())
        self.assertEqual(self.stored_steps()[-1], self.local_steps()[-1])
        self.assertEqual(self.locks(), [])
        self.succeed(self.train_remote("--resume"))

    def test_the_lock_of_a_machine_that_died_expires(self):
        self.store.fail("stall", times=1000000, match="PUT /out/runs/1/model.ckpt-")
        first = self.start(EMBLEM_TEST_HOST="host-7")
        self.wait_until_training(first)
        first.send_signal(signal.SIGKILL)
        first.wait()
        self.store.heal()
        self.store.release()
        resumed = self.train_remote("--resume", cache=self.folder / "heir", EMBLEM_TEST_LOCK_SECONDS="1")
        self.succeed(resumed)
        self.assertIn(f"was locked by process {first.pid} on host-7; waiting", resumed.stderr)
        self.assertEqual(self.locks(), [])

    def test_a_training_that_was_cut_off_does_not_write_into_that_of_its_successor(self):
        self.store.fail("stall", times=1000000, match="PUT /out/runs/1/")
        self.store.faults[0].times = 0
        first = self.start(EMBLEM_TEST_HOST="host-7", EMBLEM_TEST_LOCK_SECONDS="2", EMBLEM_TEST_STALL_SECONDS="1")
        self.wait_until_training(first)
        first.send_signal(signal.SIGSTOP)
        second = self.train_remote("--resume", cache=self.folder / "heir", EMBLEM_TEST_LOCK_SECONDS="2")
        self.succeed(second)
        steps = self.stored_steps()
        objects = {key: self.store.get("out", key) for step in steps for key in self.store.keys("out", f"runs/1/model.ckpt-{step}/")}
        first.send_signal(signal.SIGCONT)
        _, said = first.communicate(timeout=300)
        if first.returncode == 0:  # it had uploaded everything before it was stopped
            self.skipTest("the training ended before it could be stopped")
        self.assertIn("another training took over s3://out/runs/1", said)
        self.assertIn("what was not uploaded is in", said)
        # Requests that were under way when it was stopped may have arrived, but no checkpoint changed or appeared.
        self.assertEqual(self.stored_steps(), steps)
        for key, content in objects.items():
            self.assertEqual(self.store.get("out", key), content, key)

    def test_readers_hold_what_they_read(self):
        self.succeed(self.train_remote("--max-steps", "20"))
        self.store.put("data", "slow/rows.tsv", b"".join(self.lines[:1000]))
        self.store.fail("stall", times=1000000, match="GET /data/slow/rows.tsv")
        reader = subprocess.Popen([EMBLEM, "eval", "--checkpoint", MODEL, "--eval-input", "s3://data/slow/rows.tsv",
                                   *map(str, self.options())], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, reader)
        self.assertTrue(becomes_true(lambda: self.store.count("GET /data/slow/rows.tsv") or reader.poll() is not None))
        copies = [path for path in self.cache.glob("models/unit-*/model.ckpt-20")]
        self.assertEqual(len(copies), 1)
        self.succeed(self.train_remote("--resume", keep=1))  # removes it in the store
        self.assertNotIn(20, self.stored_steps())
        self.assertIn("all verified", self.succeed(run("inspect", MODEL, *self.options())).stdout)
        self.assertIn("(in use)", self.succeed(run("cache", "clear", "--cache-dir", self.cache)).stdout)
        self.assertTrue((copies[0] / "manifest.json").exists())
        self.store.heal()
        self.store.release()
        said = reader.communicate(timeout=300)
        self.assertEqual(reader.returncode, 0, said)
        self.succeed(run("cache", "clear", "--cache-dir", self.cache))
        self.assertFalse(copies[0].exists())

    def test_copies_of_models_count_for_the_size_of_the_cache(self):
        self.succeed(self.train_remote("--max-steps", "20"))
        self.succeed(run("inspect", MODEL, *self.options()))
        copy = next(self.cache.glob("models/unit-*"))
        self.assertIn("model.ckpt-20/", self.succeed(run("cache", "list", "--cache-dir", self.cache)).stdout)
        # Data that does not fit beside it takes its place.
        self.store.put("data", "big/rows.tsv", b"".join(self.lines))
        self.succeed(run("inspect", "s3://data/big/rows.tsv", *self.options(), "--cache-size",
                         str(len(b"".join(self.lines)) + 100000)))
        self.assertFalse(copy.exists())

    def test_uploads_in_parts_that_fail_leave_no_parts(self):
        rows = self.folder / "rows.tsv"
        rows.write_bytes(b"".join(self.lines) * (1 + 12_000_000 // len(b"".join(self.lines))))
        command = ["convert", "--from", rows, "--to", "s3://out/set", "--format", "tsv", *self.options()]
        self.succeed(run(*command))
        self.assertEqual(self.store.get("out", "set/part-00000.tsv"), rows.read_bytes())
        part = "/out/set/part-00000.tsv?"
        for kind, request in (("403", f"PUT {part}partNumber=1"), ("503", f"PUT {part}partNumber=2"),
                              ("403", f"POST {part}uploadId")):
            with self.subTest(kind=kind, request=request):
                self.store.buckets["out"] = {}
                self.store.fail(kind, times=8, match=request)
                failed = run(*command)
                self.fail_with(failed, "cannot write s3://out/set/part-00000.tsv")
                self.assertEqual(set(self.store.uploads), set())
                self.assertNotIn("lifecycle", failed.stderr)
                self.store.heal()
        # What a killed process leaves is removed by a later one that writes there, and nothing else is: another may be at work.
        self.store.buckets["out"] = {}
        others = {f"{number}": {1: b"x"} for number in range(6)}
        self.store.uploads.update(others)
        self.store.upload_names.update({"0": ("out", "set/part-00007.tsv"), "1": ("out", "settled/a"), "2": ("data", "set/a"),
                                        "3": ("out", "set/part-00008.tsv"), "4": ("out", "set/odd\r&lt;.tsv"), "5": ("out", "set/b")})
        self.store.upload_times["3"] = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - 3600))
        self.store.fail("403", times=1000, match="DELETE /out/set/part-00007.tsv?uploadId")
        self.succeed(run(*command))
        self.assertEqual(set(self.store.uploads), {"0", "1", "2", "3"})
        self.store.heal()
        self.store.uploads.pop("0")
        # A store that does not let them be aborted.
        self.store.buckets["out"] = {}
        self.store.fail("403", match=f"POST {part}uploadId")
        self.store.fail("403", times=1000, match="GET /out?prefix=set/part-00000.tsv")
        failed = run(*command)
        self.store.uploads.clear()
        self.fail_with(failed, "cannot write s3://out/set/part-00000.tsv")
        self.assertIn("give the bucket out a lifecycle rule that aborts incomplete multipart uploads", failed.stderr)

    def test_a_conversion_that_fails_is_not_read_as_whole(self):
        def convert(*more):
            return run("convert", "--from", "s3://data/train/", "--to", "s3://out/set", "--format", "tsv", "--bundle-gb", "0.0005",
                       *self.options(), *more)
        self.store.fail("403", times=1000000, match="PUT /out/set/part-00001")
        self.fail_with(convert(), "cannot write s3://out/set/part-00001")
        self.assertTrue(self.store.keys("out", "set/part-"))
        for address in ("s3://out/set/", "s3://out/set", "s3://out/set/part-*"):
            self.fail_with(run("inspect", address, *self.options()), "the data set s3://out/set is not whole", "--force")
        self.store.heal()
        self.succeed(convert("--force"))
        self.succeed(run("inspect", "s3://out/set/", *self.options()))
        lost = self.store.keys("out", "set/part-")[-1]
        self.store.delete("out", lost)
        self.fail_with(run("inspect", "s3://out/set/", *self.options()), f"{lost.split('/')[-1]} is missing")


if __name__ == "__main__":
    unittest.main()
