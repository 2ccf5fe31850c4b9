"""emblem serve with few file descriptors and many idle connections: every port answers."""

import json
import os
import pathlib
import resource
import shutil
import socket
import struct
import tempfile
import unittest

import http2_attack
from harness import Server, becomes_true


class Descriptors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        table = cls.folder / "table"
        table.mkdir()
        (table / "key").write_bytes(struct.pack("<2q", 0, 1))
        (table / "emb_vector").write_bytes(struct.pack("<4f", 0, 1, 2, 3))
        (cls.folder / "repository/tables/1").mkdir(parents=True)
        (cls.folder / "repository/tables/config.pbtxt").write_text('name: "tables" backend: "hps" max_batch_size: 0\n')
        (cls.folder / "ps.json").write_text(json.dumps({"supportlonglong": True, "models": [{
            "model": "tables", "sparse_files": [str(table)], "embedding_table_names": ["a"], "deployed_device_list": [0],
            "max_batch_size": 10, "embedding_vecsize_per_table": [2],
            "maxnum_catfeature_query_per_table_per_sample": [10], "default_value_for_each_table": [0]}]}))
        # This process needs a descriptor for each of its connections.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def start(self, *options, descriptors=None):
        limit = None
        if descriptors is not None:
            def limit():
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
        server = Server(self.folder / "repository", "--ps", self.folder / "ps.json", "--health-port", 0,
                        "--http-threads", 2, "--grpc-threads", 2, *options, preexec_fn=limit)
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        return server

    def hold_idle(self, address, count):
        """Connections that send nothing."""
        host, port = address.split(":")
        for _ in range(count):
            idle = socket.create_connection((host, int(port)), timeout=60)
            self.addCleanup(idle.close)

    def expect_answers(self, server):
        """Each port, each time by a new connection."""
        for _ in range(3):
            self.assertEqual(server.get("/v2/health/live", server.health)[0], 200)
            self.assertEqual(server.get("/v2/health/live")[0], 200)
            self.assertEqual(server.get("/metrics", server.metrics)[0], 200)
            self.assertTrue(http2_attack.is_live(server.grpc))

    def test_max_connections_is_lowered_to_what_the_limit_allows(self):
        server = self.start(descriptors=256)
        warned = becomes_true(lambda: any("--max-connections 4096 is lowered to" in line for line in server.lines))
        self.assertTrue(warned, "".join(server.lines))
        for address in (server.http, server.grpc, server.metrics, server.health):
            self.hold_idle(address, 300)
            self.expect_answers(server)
        self.assertEqual(server.stop(), 0)

    def test_enough_descriptors_are_no_reason_to_warn(self):
        server = self.start("--max-connections", 20)
        self.expect_answers(server)
        self.assertEqual(server.stop(), 0)
        self.assertNotIn("--max-connections", "".join(server.lines))

    def test_a_limit_that_leaves_nothing_is_one_line(self):
        with self.assertRaises(AssertionError) as raised:
            self.start(descriptors=60)
        self.assertIn("raise ulimit -n", str(raised.exception))

    def test_when_descriptors_run_out_later_the_longest_idle_connection_makes_room(self):
        server = self.start()
        for address in (server.http, server.grpc, server.metrics):
            self.hold_idle(address, 10)
        fds = pathlib.Path(f"/proc/{server.process.pid}/fd")
        self.assertTrue(becomes_true(lambda: len(os.listdir(fds)) >= 40))
        # Not one more than are open; the health port has its own.
        most = max(int(fd) for fd in os.listdir(fds)) + 1
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (most, most))
        open_now = len(os.listdir(fds))
        self.hold_idle(server.http, most - open_now)  # into gaps between the numbers
        self.expect_answers(server)
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
