"""emblem serve with few file descriptors and many idle connections: every port answers."""

import http.client
import json
import os
import pathlib
import resource
import shutil
import socket
import struct
import tempfile
import time
import unittest

import http2_attack
from harness import Server, becomes_true, tcp_connections


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

    def start(self, *options, descriptors=None, **kwargs):
        limit = None
        if descriptors is not None:
            def limit():
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
        server = Server(self.folder / "repository", "--ps", self.folder / "ps.json", "--health-port", 0,
                        "--http-threads", 2, "--grpc-threads", 2, *options, preexec_fn=limit, **kwargs)
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
            self.hold_idle(address, 100)
            self.expect_answers(server)
        self.assertEqual(server.stop(), 0)

    def test_stalled_uploads_with_a_token_keep_no_one_out(self):
        server = self.start(descriptors=1024, env={**os.environ, "EMBLEM_TOKEN": "secret"})
        host, port = server.http.split(":")
        head = (b"POST /v2/models/tables/infer HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n"
                b"Content-Length: 1000\r\n\r\n{")
        for _ in range(1200):
            stalled = socket.create_connection((host, int(port)), timeout=60)
            self.addCleanup(stalled.close)
            stalled.sendall(head)
        for _ in range(5):
            self.assertEqual(server.get("/v2/health/live")[0], 200)
            self.assertEqual(server.get("/v2/health/live", server.health)[0], 200)
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

    def use_up_descriptors(self, server, *addresses, each):
        """Leaves the server, with idle connections at `addresses`, not one more descriptor than are open."""
        for address in addresses:
            self.hold_idle(address, each)
        self.assertTrue(becomes_true(lambda: tcp_connections(server.process.pid) >= each * len(addresses)))
        fds = pathlib.Path(f"/proc/{server.process.pid}/fd")
        most = max(int(fd) for fd in os.listdir(fds)) + 1
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (most, most))
        self.hold_idle(server.http, most - len(os.listdir(fds)))  # into gaps between the numbers

    def test_when_descriptors_run_out_later_the_longest_idle_connection_makes_room(self):
        server = self.start()
        self.use_up_descriptors(server, server.http, server.grpc, server.metrics, each=10)
        self.expect_answers(server)  # the health port has descriptors of its own
        self.assertEqual(server.stop(), 0)

    def test_a_new_connection_is_not_closed_to_make_room_for_none(self):
        server = self.start()
        self.use_up_descriptors(server, server.metrics, each=1)
        client = http.client.HTTPConnection(server.metrics, timeout=60)
        client.connect()
        time.sleep(0.5)  # the only connection of its port, and idle
        client.request("GET", "/metrics")
        self.assertEqual(client.getresponse().status, 200)
        client.close()
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
