"""Training on data of object stores (S3 and GCS by object_server.py, files by HTTP) through the cache folder, with faults."""

import gzip
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile
import unittest

from harness import EMBLEM, EmblemTest, becomes_true, learned_files, require_arrow, run
from object_server import ObjectServer

ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test-secret", "AWS_EC2_METADATA_DISABLED": "true",
               "AWS_REGION": "us-east-1", "EMBLEM_TEST_RETRY_MS": "5"}
os.environ.update(ENVIRONMENT)
os.environ.pop("EMBLEM_CACHE", None)


def require_curl():
    """Skips a test of a program that does not read files of web servers."""
    tried = run("inspect", "http://127.0.0.1:1/none")
    found = [line for line in tried.stderr.splitlines() if "built without" in line]
    if found:
        raise unittest.SkipTest(found[0])


class RemoteTest(EmblemTest):
    """A store that has the data set of EmblemTest as small files: s3://data/train/..., gs://data/train/..."""

    rows = 20000

    @classmethod
    def setUpClass(cls):
        require_arrow()
        super().setUpClass()
        cls.store = ObjectServer().__enter__()
        cls.lines = []
        for path in sorted((cls.data / "train").glob("*")):
            cls.lines += path.read_bytes().splitlines(keepends=True)
        cls.parts = 8
        cls.split = cls.folder / "split" / "train"
        cls.split.mkdir(parents=True)
        count = -(-len(cls.lines) // cls.parts)
        for i in range(cls.parts):
            (cls.split / f"part-{i}.tsv").write_bytes(b"".join(cls.lines[i * count:(i + 1) * count]))
        shutil.copytree(cls.data / "test", cls.folder / "split" / "test")

    @classmethod
    def tearDownClass(cls):
        cls.store.__exit__()
        super().tearDownClass()

    def setUp(self):
        self.store.heal()
        self.store.released.clear()
        self.store.buckets.clear()
        self.store.put_folder("data", "", self.folder / "split")
        self.store.forget()
        self.cache = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        self.models = pathlib.Path(tempfile.mkdtemp(dir=self.folder))

    def remote(self, *more, scheme="s3"):
        """Options that read the data from the store."""
        return ["--train-input", f"{scheme}://data/train/", "--eval-input", f"{scheme}://data/test/", "--endpoint",
                self.store.url, "--cache-dir", self.cache, *more]

    def local(self):
        return ["--train-input", self.folder / "split/train", "--eval-input", self.folder / "split/test"]

    def last_checkpoint(self, model):
        return max(pathlib.Path(model).glob("model.ckpt-*"), key=lambda path: int(path.name.split("-")[1]))

    def assert_same_model(self, one, other):
        self.assertEqual(learned_files(self.last_checkpoint(one)), learned_files(self.last_checkpoint(other)))


class Sources(RemoteTest):
    def test_remote_and_local_data_give_the_same_model(self):
        local = self.models / "local"
        self.succeed(self.train(local, *self.local()))
        for scheme in ("s3", "gs"):
            for state in ("cold", "warm"):
                self.store.forget()
                self.succeed(self.train(self.models / scheme / state, *self.remote(scheme=scheme)))
                self.assert_same_model(local, self.models / scheme / state)
                objects = self.parts + 1
                if state == "warm":
                    self.assertEqual(self.store.count("GET", ".tsv?") + self.store.count("GET", "alt=media"), 0, self.store.log)
                elif scheme == "s3":  # every object once
                    gets = [line for line in self.store.log if line.startswith("GET /data/train/part")]
                    self.assertEqual(len(gets), len(set(gets)), gets)
                    self.assertEqual(len(gets), objects - 1)

    def test_patterns_prefixes_and_single_objects(self):
        for uri, files in (("s3://data/train/part-[01].tsv", 2), ("s3://data/t*/part-*.tsv", 9), ("s3://data/train", 8),
                           ("s3://data/train/part-3.tsv", 1), ("gs://data/t*/part-?.tsv", 8), ("gs://data/train/", 8),
                           ("s3://data/train/part-0.tsv,s3://data/train/part-1.tsv", 2)):
            with self.subTest(uri):
                shown = self.succeed(run("inspect", uri, "--endpoint", self.store.url, "--cache-dir", self.cache)).stdout
                self.assertIn("Criteo", shown)
                self.assertEqual(shown.count(".tsv"), files, shown)

    def test_a_listing_of_many_pages(self):
        for i in range(2500):
            self.store.put("many", f"rows/{i:05d}.csv", f"a,b\n{i},1\n".encode())
        out = self.models / "all"
        for scheme in ("s3", "gs"):
            self.succeed(run("convert", "--from", f"{scheme}://many/rows/*.csv", "--to", out, "--format", "csv", "--force",
                             "--endpoint", self.store.url, "--cache-dir", self.cache))
            rows = "".join(path.read_text() for path in out.glob("*.csv")).splitlines()[1:]
            self.assertEqual(rows, [f"{i},1" for i in range(2500)])

    def test_every_format_is_read_from_a_store(self):
        for name in ("tsv", "csv", "raw", "split"):
            with self.subTest(name):
                made = self.models / name
                bundles = [] if name == "split" else ["--bundle-gb", "0.001"]
                self.succeed(run("convert", "--from", self.split, "--to", made, "--format", name, "--missing", "zero", *bundles))
                self.store.put_folder("formats", name + "/", made)
                shown = self.succeed(run("inspect", f"s3://formats/{name}/", "--endpoint", self.store.url, "--cache-dir",
                                         self.cache)).stdout
                local = self.succeed(run("inspect", made)).stdout
                self.assertEqual([line for line in shown.splitlines() if "://" not in line and "files" not in line][2:],
                                 [line for line in local.splitlines() if str(made) not in line and "files" not in line][2:])

    def test_compressed_text_is_read_from_a_store(self):
        self.store.put("packed", "train.tsv.gz", gzip.compress(b"".join(self.lines)))
        shown = self.succeed(run("inspect", "s3://packed/train.tsv.gz", "--endpoint", self.store.url, "--cache-dir", self.cache))
        self.assertIn(f"{len(self.lines)}", shown.stdout.replace(",", ""))

    def test_files_of_a_web_server(self):
        require_curl()
        shown = self.succeed(run("inspect", f"{self.store.url}/data/train/part-0.tsv", "--cache-dir", self.cache)).stdout
        self.assertIn("Criteo", shown)
        self.fail_with(run("inspect", f"{self.store.url}/data/none.tsv", "--cache-dir", self.cache), "no such object")

    def test_web_servers_that_send_other_bytes_are_refused(self):
        require_curl()
        self.store.put("web", "rows.csv", b"a,b\n" + b"1,2\n" * 2_300_000)  # two parts
        self.addCleanup(self.store.heal)
        self.addCleanup(self.store.delete, "web", "rows.csv")
        convert = ["convert", "--from", f"{self.store.url}/web/rows.csv", "--format", "parquet", "--cache-dir", self.cache]
        self.store.fail("less", times=1000, match="HEAD /web/rows.csv", bytes=400)
        self.fail_with(run(*convert, "--to", self.models / "less"), "has 9200004 bytes, but 9199604 when the data set was opened")
        self.store.heal()
        self.store.fail("begin", times=1000, match="GET /web/rows.csv")
        self.fail_with(run(*convert, "--to", self.models / "begin", env={**os.environ, "EMBLEM_TEST_RETRY_MS": "0"}),
                       "the server sent what is at byte 0, asked for was byte 8388608")

    def test_secrets_are_neither_accepted_in_addresses_nor_shown(self):
        message = self.fail_with(run("inspect", "s3://key:hidden-word@data/train/"), "AWS_ACCESS_KEY_ID")
        self.assertNotIn("hidden-word", message)
        self.succeed(run("inspect", "s3://data/train/", "--endpoint", self.store.url, "--cache-dir", self.cache))
        for path in self.cache.rglob("*.json"):
            self.assertNotIn("test-secret", path.read_text())

    def test_addresses_that_name_nothing(self):
        options = ["--endpoint", self.store.url, "--cache-dir", self.cache]
        self.fail_with(run("inspect", "s3://data/none/", *options), "s3://data/none/", "no such object")
        self.fail_with(run("inspect", "gs://data/none*", *options), "no object matches gs://data/none*")
        self.fail_with(run("inspect", "s3:///none", *options), "names no bucket")
        self.fail_with(run("inspect", "s3://data/train/", "--endpoint", "127.0.0.1:9000"), "expected http://HOST:PORT")
        message = self.fail_with(run("inspect", "s3://data/train/", "--endpoint", "http://127.0.0.1:1", "--cache-dir", self.cache),
                                 "s3://data/train/", "attempts")
        self.assertNotIn("\n", message)


class Faults(RemoteTest):
    def check_same_as_local(self, *options, scheme="s3"):
        local, remote = self.models / "local", self.models / "remote"
        if not local.exists():
            self.succeed(self.train(local, *self.local()))
        trained = self.succeed(self.train(remote, *self.remote(*options, scheme=scheme)))
        self.assert_same_model(local, remote)
        shutil.rmtree(remote)
        return trained

    def test_busy_servers_and_cut_connections_are_tried_again(self):
        for scheme in ("s3", "gs"):
            for kind, count in (("503", 12), ("cut", 6), ("short", 3)):
                with self.subTest(kind, scheme=scheme):
                    shutil.rmtree(self.cache)
                    self.store.heal()
                    self.store.fail(kind, times=count, match="part-", bytes=20000)
                    self.check_same_as_local(scheme=scheme)
                    self.assertEqual(self.store.faults[0].times, 0)

    def test_a_storm_of_refusals_is_survived(self):
        """Every other or fourth request is refused, of all kinds, as by a store that limits its clients."""
        for scheme, every in (("s3", 2), ("gs", 4)):  # the client of GCS waits for seconds before it tries again
            shutil.rmtree(self.cache)
            self.store.heal()
            self.store.fail("503", times=1000000, every=every)
            self.check_same_as_local(scheme=scheme)

    def test_a_server_that_stays_busy_is_an_error_that_says_so(self):
        self.store.fail("503", times=1000000, match="part-3")
        self.fail_with(self.train(self.models / "m", *self.remote()), "s3://data/train/part-3.tsv", "SlowDown", "8 attempts")

    def test_wrong_credentials_are_not_tried_again(self):
        self.store.fail("403", times=1000000)
        self.fail_with(self.train(self.models / "m", *self.remote()), "s3://data/", "AWS_ACCESS_KEY_ID")
        self.assertLess(self.store.count(), 5)
        self.store.heal()
        self.store.fail("403", times=1000000)
        self.fail_with(self.train(self.models / "g", *self.remote(scheme="gs")), "gs://data/", "GOOGLE_APPLICATION_CREDENTIALS")

    def test_errors_of_settings_name_the_remedy_and_are_not_tried_again(self):
        for kind, remedy in (("skew", "the clocks of this machine and of the store differ: set this one"),
                             ("301", "the bucket is in another region, or at another endpoint: set AWS_REGION")):
            self.store.fail(kind, times=1000)
            self.store.forget()
            self.fail_with(self.train(self.models / "m", *self.remote()), remedy)
            self.store.heal()
            self.assertLess(self.store.count(), 5, self.store.log)

    def test_objects_that_change_or_vanish_while_they_are_read_are_errors(self):
        """Part 5 changes when it is asked for."""
        changed = b"".join(self.lines[:50])
        cases = (("change", {"content": changed}, "has changed since"), ("404", {}, "no longer exists"))
        for scheme in ("s3", "gs"):
            for kind, how, message in cases:
                with self.subTest(kind, scheme=scheme):
                    shutil.rmtree(self.cache)
                    self.store.heal()
                    self.store.put_folder("data", "", self.folder / "split")
                    self.store.fail(kind, times=1000000, match="part-5.tsv", **how)
                    self.fail_with(self.train(self.models / scheme / kind, *self.remote(scheme=scheme)),
                                   f"{scheme}://data/train/part-5.tsv", message)

    def test_objects_that_change_in_the_middle_of_training(self):
        """Rows of objects 0 and 1 are trained on when object 2, of which the beginning was read, becomes another."""
        third = len(self.lines) // 3
        parts = [b"".join(self.lines[i * third:(i + 1) * third]) for i in range(3)]
        other = b"".join(reversed(self.lines[2 * third:3 * third]))
        self.assertGreater(min(map(len, parts)), 1 << 20)
        for scheme in ("s3", "gs"):
            for gone in (False, True):
                with self.subTest(scheme, gone=gone):
                    self.setUp()
                    for i, part in enumerate(parts):
                        self.store.put("large", f"{i}.tsv", part)
                    stall = self.store.fail("stall", times=0, match="2.tsv")
                    self.store.link.latency = 0.02  # object 2 is not whole before the stall begins
                    self.addCleanup(setattr, self.store.link, "latency", 0)
                    model = self.models / "model"
                    options = self.remote("--set", "data_config.download_threads=1", "--set", "data_config.shuffle=false",
                                          "--set", "data_config.part_bytes=65536", "--set",
                                          "train_config.save_checkpoints_steps=25", scheme=scheme)
                    options[1] = f"{scheme}://large/"
                    process = subprocess.Popen([EMBLEM, "train", "--config", self.config, "--model-dir", model,
                                                *map(str, options)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
                    media = lambda line: scheme == "s3" or "alt=media" in line
                    opened = lambda: sum("1.tsv" in line and media(line) for line in list(self.store.log)) > 12
                    self.assertTrue(becomes_true(lambda: opened() or process.poll() is not None))
                    stall.times = 1000000
                    self.store.link.latency = 0
                    self.assertTrue(becomes_true(lambda: list(model.glob("model.ckpt-*")) or process.poll() is not None))
                    if gone:
                        self.store.delete("large", "2.tsv")
                    else:
                        self.store.put("large", "2.tsv", other)
                    self.store.heal()
                    self.store.release()
                    errors = process.communicate(timeout=300)[1]
                    self.assertEqual(process.returncode, 1, errors)
                    self.assertIn(f"{scheme}://large/2.tsv " + ("no longer exists" if gone else "has changed since"),
                                  errors.splitlines()[-1])

    def test_new_content_is_fetched_even_with_the_same_size(self):
        options = ["--endpoint", self.store.url, "--cache-dir", self.cache, "--to", self.models / "out", "--format", "csv", "--force"]
        for content in (b"a,b\n1,2\n", b"a,b\n3,4\n", b"a,b\n5,66\n"):
            self.store.put("news", "x.csv", content)
            self.succeed(run("convert", "--from", "s3://news/x.csv", *options))
            self.assertEqual(b"".join(path.read_bytes() for path in (self.models / "out").glob("*.csv")), content)

    def test_a_slow_server_is_waited_for(self):
        for scheme in ("s3", "gs"):
            self.store.link.latency, self.store.link.rate = 0.1, 2e6
            try:
                shutil.rmtree(self.cache)
                self.check_same_as_local(scheme=scheme)
            finally:
                self.store.link.latency = self.store.link.rate = 0

    def test_connections_on_which_nothing_arrives_are_given_up(self):
        self.store.fail("stall", times=2, match="GET /data/train/part-")
        os.environ["EMBLEM_TEST_STALL_SECONDS"] = "1"
        try:
            self.check_same_as_local()
        finally:
            del os.environ["EMBLEM_TEST_STALL_SECONDS"]
        self.assertEqual(self.store.faults[0].times, 0)


class Cache(RemoteTest):
    def names(self, folder="objects"):
        return sorted((self.cache / folder).glob("*.data"))

    def test_the_cache_is_shown_checked_and_emptied(self):
        self.succeed(self.train(self.models / "m", *self.remote()))
        options = ["--cache-dir", self.cache]
        self.fail_with(run("cache", "list", "--cache-dir", self.folder / "mistyped"), "there is no cache folder")
        self.assertFalse((self.folder / "mistyped").exists())
        listed = self.succeed(run("cache", "list", *options)).stdout
        self.assertIn("s3://data/train/part-7.tsv", listed)
        self.assertIn(f"{self.parts + 1} objects", listed)
        self.assertIn("9 of 9 objects are intact", self.succeed(run("cache", "verify", *options)).stdout)
        damaged = self.names()[0]
        content = bytearray(damaged.read_bytes())
        content[100] ^= 1
        damaged.write_bytes(content)
        checked = run("cache", "verify", *options)
        self.assertEqual(checked.returncode, 1)
        self.assertIn("damaged and removed: s3://data/", checked.stdout)
        self.assertEqual(len(self.names()), self.parts)
        self.succeed(run("cache", "clear", *options))
        self.assertEqual(self.names(), [])

    def test_damaged_copies_are_fetched_again(self):
        local = self.models / "local"
        self.succeed(self.train(local, *self.local()))
        self.succeed(self.train(self.models / "first", *self.remote()))
        for i, path in enumerate(self.names()):
            kinds = [lambda: path.write_bytes(b""), lambda: path.write_bytes(path.read_bytes()[::-1]),
                     lambda: path.unlink(), lambda: path.with_suffix(".json").write_text("{"),
                     lambda: path.with_suffix(".json").write_text(path.with_suffix(".json").read_text().replace("1", "2"))]
            kinds[i % len(kinds)]()
        self.succeed(self.train(self.models / "second", *self.remote()))
        self.assert_same_model(local, self.models / "second")

    def test_least_recently_used_objects_leave(self):
        def show(name):
            self.succeed(run("inspect", f"s3://sized/{name}.csv", "--endpoint", self.store.url, "--cache-dir", self.cache,
                             "--cache-size", "450kB"))
        for name in "abcd":
            rows = "".join(f"{i},{i % 7}\n" for i in range(20000))
            self.store.put("sized", f"{name}.csv", ("x,y\n" + rows).encode())
        for name in "ababc":
            show(name)
        show("d")
        self.store.forget()
        kept = self.succeed(run("cache", "list", "--cache-dir", self.cache)).stdout
        self.assertNotIn("a.csv", kept)
        self.assertIn("d.csv", kept)

    def test_what_does_not_fit_is_read_through_memory(self):
        local = self.models / "local"
        self.succeed(self.train(local, *self.local()))
        trained = self.succeed(self.train(self.models / "small", *self.remote("--cache-size", "1000kB")))
        self.assertEqual(trained.stderr.count("read through memory"), 1, trained.stderr)
        self.assert_same_model(local, self.models / "small")

    def test_files_that_may_not_grow_are_read_past(self):
        """As with a quota: no file of the process may become larger than 1 MB (ulimit -f)."""
        whole = b"".join(self.lines)
        self.store.put("large", "all.tsv", whole)
        self.assertGreater(len(whole), 2 << 20)
        large = self.folder / "large.tsv"
        large.write_bytes(whole)
        self.succeed(self.train(self.models / "local", "--train-input", large, "--eval-input", self.folder / "split/test"))
        options = self.remote()
        options[1] = "s3://large/all.tsv"
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        trained = self.succeed(run("train", "--config", self.config, "--model-dir", self.models / "full", *options,
                                   preexec_fn=limit))
        self.assertEqual(trained.stderr.count("read through memory"), 1, trained.stderr)
        self.assertIn("File too large", trained.stderr)
        self.assert_same_model(self.models / "local", self.models / "full")

    def test_a_full_disk_is_read_past(self):
        if os.geteuid() != 0:
            self.skipTest("mounting a small disk needs root")
        disk = self.models / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True).returncode:
            self.skipTest("no tmpfs can be mounted here")
        try:
            local = self.models / "local"
            self.succeed(self.train(local, *self.local()))
            self.cache = disk
            trained = self.succeed(self.train(self.models / "full", *self.remote("--cache-size", "1GB")))
            self.assertEqual(trained.stderr.count("read through memory"), 1, trained.stderr)
            self.assertIn("No space left", trained.stderr)
            self.assert_same_model(local, self.models / "full")
        finally:
            subprocess.run(["umount", "-l", disk], check=True)

    def test_a_cache_folder_that_cannot_be_used_is_read_past(self):
        """A lock that cannot be taken: its place is a folder."""
        self.succeed(self.train(self.models / "first", *self.remote()))
        for path in self.names():
            (self.cache / "locks" / path.stem).mkdir()
            path.unlink()
        trained = self.succeed(self.train(self.models / "second", *self.remote()))
        self.assertEqual(trained.stderr.count("read through memory"), 1, trained.stderr)
        self.assert_same_model(self.models / "first", self.models / "second")

    def test_two_processes_download_once(self):
        self.store.link.latency = 0.02
        try:
            names = ["one", "two"]
            running = [subprocess.Popen([EMBLEM, "train", "--config", self.config, "--model-dir", self.models / name,
                                         *map(str, self.remote())], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
                       for name in names]
            for process in running:
                errors = process.communicate(timeout=300)[1]
                self.assertEqual(process.returncode, 0, errors)
        finally:
            self.store.link.latency = 0
        self.assert_same_model(self.models / "one", self.models / "two")
        gets = [line for line in self.store.log if line.startswith("GET /data/train/part")]
        self.assertEqual(len(gets), self.parts, gets)

    def test_a_killed_download_goes_on(self):
        """Parts of 64 KB; the server stalls after some of them, and the process is killed there."""
        whole = b"".join(self.lines)
        self.store.put("large", "all.tsv", whole)
        options = ["--train-input", "s3://large/all.tsv", "--eval-input", "s3://data/test/", "--endpoint", self.store.url,
                   "--cache-dir", str(self.cache), "--set", "data_config.part_bytes=65536", "--set",
                   "data_config.download_threads=2"]
        parts = -(-len(whole) // 65536)
        self.assertGreater(parts, 20)
        process = subprocess.Popen([EMBLEM, "train", "--config", self.config, "--model-dir", self.models / "killed", *options],
                                   stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.assertTrue(becomes_true(lambda: self.store.count("GET", "all.tsv") >= 8))
        self.store.fail("stall", times=1000000, match="all.tsv")
        stalled = lambda: self.store.faults[0].times < 1000000
        self.assertTrue(becomes_true(lambda: stalled() or process.poll() is not None))
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assertFalse(any(path.stat().st_size == len(whole) for path in self.names()))
        self.assertEqual(len([path for path in self.names("partial") if path.stat().st_size == len(whole)]), 1)
        self.store.heal()
        self.store.release()
        before = self.store.count("GET", "all.tsv")
        self.succeed(self.train(self.models / "again", *options))
        self.assertIn(whole, [path.read_bytes() for path in self.names()])
        # What the killed process had, and only that, is not fetched again; the beginning is looked at first.
        self.assertLess(self.store.count("GET", "all.tsv") - before, parts)

    def test_a_killed_training_resumes_bit_exactly(self):
        options = self.remote("--set", "train_config.save_checkpoints_steps=10")
        for scheme in ("s3", "gs"):
            with self.subTest(scheme):
                options[1], options[3] = f"{scheme}://data/train/", f"{scheme}://data/test/"
                whole, killed = self.models / scheme / "whole", self.models / scheme / "killed"
                self.succeed(self.train(whole, *options))
                shutil.rmtree(self.cache)
                process = subprocess.Popen([EMBLEM, "train", "--config", self.config, "--model-dir", killed,
                                            *map(str, options)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
                self.assertTrue(becomes_true(lambda: (killed / "model.ckpt-20").exists() or process.poll() is not None))
                process.send_signal(signal.SIGKILL)
                process.wait()
                self.succeed(self.train(killed, *options, "--resume"))
                self.assert_same_model(whole, killed)


if __name__ == "__main__":
    unittest.main()
