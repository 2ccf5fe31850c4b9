"""Several stores in one process, each with its own endpoint and cache; contents that arrive damaged."""

import json
import os
import unittest

from harness import run
from object_server import ObjectServer
from remote_data_test import RemoteTest


class Endpoints(RemoteTest):
    """The data are in one store; another one has a checkpoint, and other rows under the same addresses."""

    def setUp(self):
        super().setUp()
        self.other = ObjectServer().__enter__()
        self.addCleanup(self.other.__exit__)
        for key in self.store.keys("data"):
            rows = self.store.get("data", key)
            self.other.put("data", key, b"".join(b"1" + line[1:] for line in rows.splitlines(keepends=True)))
        self.succeed(self.train(self.models / "run", *self.remote()))
        self.other.put_folder("models", "run/", self.last_checkpoint(self.models / "run"))
        self.other.forget()
        self.store.forget()

    def evaluate(self, checkpoint, *options, **environment):
        out = self.models / "eval.json"
        out.unlink(missing_ok=True)
        done = run("eval", "--checkpoint", checkpoint, "--json", out, "--cache-dir", self.cache, *options,
                   env={**os.environ, **environment})
        return done, {**json.loads(out.read_text()), "checkpoint": ""} if out.exists() else None

    def test_eval_reads_the_rows_that_the_configuration_of_a_remote_checkpoint_names(self):
        _, expected = self.evaluate(self.models / "run")
        self.store.forget()
        done, found = self.evaluate("s3://models/run", AWS_ENDPOINT_URL=self.other.url)
        self.succeed(done)
        self.assertEqual(found, expected)
        self.assertEqual(self.other.count("", "/data/"), 0, self.other.log)
        self.assertGreater(self.other.count("GET", "/models/run/"), 0)
        self.assertGreater(self.store.count("", "data"), 0)

    def test_predict_reads_its_input_where_the_configuration_says(self):
        predictions = self.models / "predictions.csv"

        def predict(checkpoint, **environment):
            self.succeed(run("predict", "--checkpoint", checkpoint, "--input", "s3://data/test/", "--out", predictions,
                             "--keep", "label", "--cache-dir", self.cache, env={**os.environ, **environment}))
            return predictions.read_text()
        expected = predict(self.models / "run")
        self.assertIn("\n0,", expected)
        self.assertEqual(predict("s3://models/run", AWS_ENDPOINT_URL=self.other.url), expected)

    def test_one_endpoint_for_the_checkpoint_and_another_for_the_data(self):
        _, expected = self.evaluate(self.models / "run")
        done, _ = self.evaluate("s3://models/run", "--endpoint", self.other.url)
        self.fail_with(done, f"--endpoint {self.other.url}", self.store.url, "--set data_config.endpoint=")
        done, found = self.evaluate("s3://models/run", "--endpoint", self.other.url, "--set",
                                    f"data_config.endpoint={self.store.url}")
        self.succeed(done)
        self.assertEqual(found, expected)
        done, found = self.evaluate("s3://models/run", "--endpoint", self.other.url, "--set",
                                    f"data_config.endpoint={self.other.url}")
        self.succeed(done)
        self.assertNotEqual(found, expected)  # the rows of the other store, as asked for

    def test_export_writes_where_it_is_told(self):
        self.other.buckets["out"] = {}
        self.succeed(run("export", "--checkpoint", "s3://models/run", "--out", "s3://out/models/ctr", "--endpoint",
                         self.other.url, "--cache-dir", self.cache))
        self.assertIn("models/ctr/1/manifest.json", self.other.keys("out"))


class Damage(RemoteTest):
    def test_one_bit_of_a_body_is_noticed_and_the_body_fetched_again(self):
        local = self.models / "local"
        self.succeed(self.train(local, *self.local()))
        for scheme, match in (("s3", "GET /data/train/part-3"), ("gs", "part-3.tsv?generation=")):
            with self.subTest(scheme):
                self.setUp()
                fault = self.store.fail("flip", times=1, match=match, bytes=5000)
                self.succeed(self.train(self.models / scheme, *self.remote(scheme=scheme)))
                self.assertEqual(fault.times, 0)
                self.assert_same_model(self.models / scheme, local)

    def test_a_body_that_stays_damaged_ends_the_training(self):
        for scheme, match in (("s3", "GET /data/train/part-3"), ("gs", "part-3.tsv?generation=")):
            with self.subTest(scheme):
                self.setUp()
                self.store.fail("flip", times=1000000, match=match, bytes=5000)
                self.fail_with(self.train(self.models / scheme, *self.remote(scheme=scheme)), "part-3.tsv", "damaged")
                self.store.heal()
                self.succeed(self.train(self.models / (scheme + "2"), *self.remote(scheme=scheme)))

    def test_an_object_of_several_parts_is_compared_as_a_whole(self):
        parts = ("--set", "data_config.part_bytes=65536")
        self.store.fail("flip", times=1000000, match="GET /data/train/part-3", bytes=50)
        self.fail_with(self.train(self.models / "damaged", *self.remote(*parts)), "part-3.tsv arrived damaged")
        self.store.heal()
        self.succeed(self.train(self.models / "again", *self.remote(*parts)))
        self.succeed(self.train(self.models / "local", *self.local()))
        self.assert_same_model(self.models / "local", self.models / "again")

    def test_the_check_can_be_switched_off(self):
        self.store.fail("flip", times=1000000, match="GET /data/train/part-3", bytes=0)
        self.succeed(run("train", "--config", self.config, "--model-dir", self.models / "off", *self.remote(),
                         env={**os.environ, "EMBLEM_CHECK_ETAGS": "0"}))


if __name__ == "__main__":
    unittest.main()
