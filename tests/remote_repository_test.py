"""Model repositories in object stores: names that lead elsewhere, writes that are hard to notice, objects that cannot be read."""

import http.client
import json
import os
import pathlib
import unittest

from harness import Server, becomes_true, run
from remote_data_test import RemoteTest


class Repository(RemoteTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.exported = cls.folder / "exported"
        test = cls()
        test.succeed(test.train(cls.folder / "model", *test.local()))
        test.succeed(run("export", "--checkpoint", cls.folder / "model", "--out", cls.exported / "ctr"))

    def setUp(self):
        super().setUp()
        self.store.put_folder("out", "models/ctr/", self.exported / "ctr")

    def serve(self, mode="poll"):
        server = Server("s3://out/models", "--model-control-mode", mode, *(["--repository-poll-secs", "0.2"] if mode == "poll" else []),
                        "--endpoint", self.store.url, "--cache-dir", self.cache)
        self.addCleanup(lambda: self.assertEqual(server.stop(), 0))
        return server

    def served_config(self, server, name="ctr"):
        return json.loads(server.get(f"/v2/models/{name}/config")[1])

    def put_config(self, batch, modified=None):
        text = (self.exported / "ctr/config.pbtxt").read_text()
        lines = [f"max_batch_size: {batch}" if line.startswith("max_batch_size") else line for line in text.splitlines()]
        self.store.put("out", "models/ctr/config.pbtxt", ("\n".join(lines) + "\n").encode())
        if modified is not None:
            self.store.buckets["out"]["models/ctr/config.pbtxt"].modified = modified

    def index(self, server):
        connection = http.client.HTTPConnection(server.http, timeout=30)
        connection.request("POST", "/v2/repository/index", body="{}", headers={"Content-Type": "application/json"})
        entries = json.loads(connection.getresponse().read())
        connection.close()
        return {entry["name"]: entry for entry in entries}

    def test_a_model_that_leaves_the_repository_is_unloaded_with_a_warning(self):
        server = self.serve()
        stored = dict(self.store.buckets["out"])
        self.store.buckets["out"] = {}
        self.assertTrue(becomes_true(lambda: server.get("/v2/health/ready")[0] != 200))
        wanted = "model ctr is unloaded: it is not in the repository any more"
        self.assertTrue(becomes_true(lambda: any(wanted in line for line in server.lines)), server.lines)
        self.store.buckets["out"] = stored
        self.assertTrue(becomes_true(lambda: server.get("/v2/health/ready")[0] == 200))

    def test_names_that_lead_out_of_the_copy_are_skipped(self):
        outside = self.folder / "precious"
        outside.write_text("stays")
        names = ["../../../../../../../../precious", "a/../../../../../../../../../../precious", "/precious", "a//precious",
                 "a\\..\\precious", "." * 2]
        for name in names:
            self.store.put("out", f"models/evil/1/{name}", b"written by an object of a store")
        up = os.path.relpath(outside, "/")
        self.store.put("out", f"models/evil/1/{'../' * 20}{up}", b"written by an object of a store")
        self.store.put("out", "models/evil/1/manifest.json", b"{}")
        server = self.serve()
        self.assertEqual(server.get("/v2/models/ctr/ready")[0], 200)
        self.assertEqual(outside.read_text(), "stays")
        self.assertEqual([str(path) for path in pathlib.Path(self.folder).rglob("precious") if path != outside], [])
        self.assertFalse(pathlib.Path("/precious").exists())
        self.assertTrue(becomes_true(lambda: any("is skipped: its name" in line for line in server.lines)))

    def test_a_configuration_that_could_not_be_fetched_once_is_fetched_again(self):
        server = self.serve()
        fault = self.store.fail("503", times=12, match="GET /out/models/ctr/config.pbtxt")
        self.put_config(77)
        self.assertTrue(becomes_true(lambda: fault.times == 0))
        self.assertTrue(becomes_true(lambda: self.served_config(server)["max_batch_size"] == 77))

    def test_two_writes_of_one_second_and_size_are_two(self):
        self.put_config(77)
        modified = self.store.buckets["out"]["models/ctr/config.pbtxt"].modified
        server = self.serve()
        self.assertEqual(self.served_config(server)["max_batch_size"], 77)
        self.put_config(78, modified)
        self.assertTrue(becomes_true(lambda: self.served_config(server)["max_batch_size"] == 78))

    def test_an_object_that_cannot_be_read_is_the_matter_of_its_model_alone(self):
        self.store.put_folder("out", "models/other/", self.exported / "ctr")
        self.store.put("out", "models/other/config.pbtxt",
                       (self.exported / "ctr/config.pbtxt").read_bytes().replace(b'name: "ctr"', b'name: "other"'))
        self.store.fail("403", times=1000000, match="/out/models/other/1/dense.safetensors")
        server = self.serve()
        self.assertEqual(server.get("/v2/models/ctr/ready")[0], 200)
        entry = self.index(server)["other"]
        self.assertEqual(entry["state"], "UNAVAILABLE")
        self.assertIn("dense.safetensors", entry["reason"])
        self.store.heal()
        self.assertTrue(becomes_true(lambda: server.get("/v2/models/other/ready")[0] == 200))

    def test_a_server_without_a_readable_model_starts(self):
        self.store.fail("403", times=1000000, match="/out/models/ctr/1/")
        server = self.serve()
        self.assertEqual(self.index(server)["ctr"]["state"], "UNAVAILABLE")
        self.assertNotEqual(server.get("/v2/health/ready")[0], 200)
        self.store.heal()
        self.assertTrue(becomes_true(lambda: server.get("/v2/models/ctr/ready")[0] == 200))


if __name__ == "__main__":
    unittest.main()
