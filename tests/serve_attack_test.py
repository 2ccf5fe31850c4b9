"""Requests that ask for too much memory, or change while they run, are refused one by one: the server never ends."""

import http.client
import json
import mmap
import os
import pathlib
import shutil
import struct
import tempfile
import threading
import unittest
import zlib

import http2_attack
from harness import Server, limited_user

DIM = 32
KEYS = 1000


class HpsAttack(unittest.TestCase):
    """A model of backend hps with a table of 32 floats per row; ps.json allows millions of keys in a request."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        cls.folder.chmod(0o755)
        table = cls.folder / "table"
        table.mkdir()
        (table / "key").write_bytes(struct.pack(f"<{KEYS}q", *range(KEYS)))
        (table / "emb_vector").write_bytes(struct.pack(f"<{KEYS * DIM}f", *(float(i) for i in range(KEYS * DIM))))
        (cls.folder / "repository/tables/1").mkdir(parents=True)
        (cls.folder / "repository/tables/config.pbtxt").write_text('name: "tables" backend: "hps" max_batch_size: 0\n')
        (cls.folder / "ps.json").write_text(json.dumps({"supportlonglong": True, "models": [{
            "model": "tables", "sparse_files": [str(table), str(table)], "embedding_table_names": ["a", "b"],
            "deployed_device_list": [0], "max_batch_size": 1000000, "embedding_vecsize_per_table": [DIM, DIM],
            "maxnum_catfeature_query_per_table_per_sample": [10, 10], "default_value_for_each_table": [0, 0]}]}))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def start(self, *options, **kwargs):
        server = Server(self.folder / "repository", "--ps", self.folder / "ps.json", *options, **kwargs)
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        return server

    def post(self, server, path, body, headers=None):
        connection = http.client.HTTPConnection(server.http, timeout=120)
        connection.request("POST", path, body, headers or {})
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        return response.status, answer, dict(response.getheaders())

    def look_up(self, server, keys, counts):
        """The status and the error or the rows of a request with binary tensors."""
        data = struct.pack(f"<{len(keys)}q", *keys) + struct.pack(f"<{len(counts)}i", *counts)
        head = json.dumps({"parameters": {"binary_data_output": True}, "inputs": [
            {"name": "KEYS", "datatype": "INT64", "shape": [len(keys)],
             "parameters": {"binary_data_size": 8 * len(keys)}},
            {"name": "NUMKEYS", "datatype": "INT32", "shape": [len(counts)],
             "parameters": {"binary_data_size": 4 * len(counts)}}]}).encode()
        status, answer, headers = self.post(server, "/v2/models/tables/infer", head + data,
                                            {"Inference-Header-Content-Length": str(len(head))})
        if status != 200:
            return status, json.loads(answer)["error"]
        rows = answer[int(headers["Inference-Header-Content-Length"]):]
        return status, memoryview(rows).cast("f")

    def expect_well(self, server):
        self.assertIsNone(server.process.poll(), "".join(server.lines))
        status, rows = self.look_up(server, [3, 5], [1, 1])
        self.assertEqual(status, 200, rows)
        self.assertEqual(tuple(rows), tuple(float(i) for key in (3, 5) for i in range(key * DIM, (key + 1) * DIM)))

    def expect_end(self, server):
        self.assertEqual(server.stop(), 0, "".join(server.lines))


class Memory(HpsAttack):
    def test_an_answer_that_is_too_large_is_refused(self):
        server = self.start("--max-response-size", "100MiB")
        status, error = self.look_up(server, [1] * 3_000_000, [3_000_000, 0])
        self.assertEqual(status, 400)
        self.assertIn("the answer would have 384000000 bytes", error)
        self.expect_well(server)
        self.expect_end(server)

    @unittest.skipIf(os.geteuid() != 0, "needs root, to become a user that the limit holds for")
    def test_an_answer_that_memory_does_not_suffice_for_fails_alone(self):
        started = failures = 0
        for gigabytes in (0.25, 0.375, 0.5, 0.625, 0.75, 1, 1.25, 1.5, 2, 3, 4):
            try:
                server = self.start("--http-threads", "2", preexec_fn=limited_user(address_space=int(gigabytes * 2**30)))
            except AssertionError:  # not even enough to start
                continue
            started += 1
            for _ in range(3):  # more than there are engines
                status, answer = self.look_up(server, [1] * 3_000_000, [2_000_000, 1_000_000])
                if status != 200:
                    failures += 1
                    self.assertIn(status, (500, 503), answer)
                    self.assertIn("memory", answer)
            self.expect_well(server)
            self.expect_end(server)
            if status == 200:
                break
        if started == 0:
            self.skipTest("the program does not start within these limits; sanitizers take more memory")
        self.assertGreater(failures, 0, "the limits were never reached")


class Expansion(HpsAttack):
    """Small requests that take a hundred times their size or more when they are expanded and parsed."""

    MAX_MEMORY = 256 << 20
    SLACK = 64 << 20  # beside requests and answers: buffers of threads and connections, and what the allocator keeps

    def setUp(self):
        self.server = self.start("--max-memory", "256MiB", "--http-threads", "2", "--grpc-threads", "2",
                                 env={**os.environ, "EMBLEM_TOKEN": "secret"})
        self.before = self.peak()

    def peak(self):
        status = pathlib.Path(f"/proc/{self.server.process.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) << 10

    def expect_small_peak(self, most=MAX_MEMORY):
        self.assertIsNone(self.server.process.poll(), "".join(self.server.lines))
        self.assertLess(self.peak() - self.before, most + self.SLACK)

    @staticmethod
    def packed(data):
        packer = zlib.compressobj(9, wbits=31)
        return packer.compress(data) + packer.flush()

    def call(self, path, message, *headers):
        """The status of a call with a compressed message, as text."""
        connection = http2_attack.Connection(self.server.grpc, timeout=120)
        body = http2_attack.message(self.packed(message), compressed=1)
        pieces = [body[i:i + 16384] for i in range(0, len(body), 16384)]
        connection.send(http2_attack.frame(http2_attack.HEADERS, http2_attack.END_HEADERS, 1, http2_attack.request_headers(
            path, ("grpc-encoding", "gzip"), *headers)))
        for piece in pieces:
            is_last = piece is pieces[-1]
            connection.send(http2_attack.frame(http2_attack.DATA, http2_attack.END_STREAM if is_last else 0, 1, piece))
        fields = b""
        while got := connection.recv():
            kind, flags, _, payload = got
            if kind == http2_attack.HEADERS:
                fields += payload
                if flags & http2_attack.END_STREAM:
                    break
        connection.close()
        return fields

    def post_packed(self, path, body, token="secret"):
        return self.post(self.server, path, self.packed(body),
                         {"Content-Encoding": "gzip", "Authorization": f"Bearer {token}"})[0]

    def test_messages_of_empty_parts(self):
        token = ("authorization", "Bearer secret")
        for wire in (b"\x2a\x00", b"\x32\x00", b"\x3a\x00", b"\x78\x01", b"\x2a\x02\x2a\x00"):
            for path in (http2_attack.INFER, http2_attack.INFER.replace("ModelInfer", "ModelStreamInfer")):
                self.call(path, wire * ((60 << 20) // len(wire)), token)
        self.expect_small_peak()
        self.assertTrue(http2_attack.is_live(self.server.grpc))

    def test_calls_without_a_payload(self):
        for path in ("/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch", http2_attack.LIVE,
                     "/inference.GRPCInferenceService/ModelReady"):
            self.assertTrue(self.call(path, b"\x10\x01" * (30 << 20)))
        for path in ("/v2/health/live", "/v2/models/tables/ready", "/"):
            self.assertEqual(self.post_packed(path, b" " * (60 << 20), token="wrong"), 413)
        self.expect_small_peak(most=0)

    def test_without_the_token_nothing_is_expanded(self):
        self.assertEqual(self.post_packed("/v2/models/tables/infer", b" " * (60 << 20), token="wrong"), 401)
        self.call(http2_attack.INFER, b"\x2a\x00" * (30 << 20))
        self.expect_small_peak(most=0)

    def test_messages_that_are_not_utf8_add_nothing_to_the_log(self):
        name = b"\x0a\x02\xff\xfe"
        for path in (http2_attack.INFER, "/inference.GRPCInferenceService/ModelReady"):
            for _ in range(10):
                self.assertTrue(self.call(path, name, ("authorization", "Bearer secret")))
        self.expect_end(self.server)
        self.assertNotIn("protobuf", "".join(self.server.lines))

    def test_json_of_many_outputs_and_dimensions(self):
        path = "/v2/models/tables/infer"
        many = b'{"inputs":[],"outputs":[' + b'{"name":"x"},' * 4_500_000 + b'{"name":"x"}]}'
        deep = b'{"inputs":[{"name":"KEYS","datatype":"INT64","shape":[' + b"1," * (30 << 20) + b'1],"data":[1]}]}'
        statuses = []
        for body in (many, deep):
            threads = [threading.Thread(target=lambda: statuses.append(self.post_packed(path, body))) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertLessEqual(set(statuses), {400, 413, 503})
        self.expect_small_peak()


class Shared(HpsAttack):
    def setUp(self):
        self.name = f"emblem_test_{os.getpid()}"
        self.path = pathlib.Path("/dev/shm") / self.name
        self.addCleanup(lambda: self.path.unlink(missing_ok=True))

    def register(self, server, size):
        self.path.write_bytes(bytes(size))
        status, answer, _ = self.post(server, "/v2/systemsharedmemory/region/r/register",
                                      json.dumps({"key": "/" + self.name, "offset": 0, "byte_size": size}))
        self.assertEqual(status, 200, answer)

    def ask(self, server, keys, outputs=()):
        """A request for KEYS at 0 and NUMKEYS after them."""
        part = lambda offset, size: {"shared_memory_region": "r", "shared_memory_offset": offset,
                                     "shared_memory_byte_size": size}
        body = {"inputs": [
            {"name": "KEYS", "datatype": "INT64", "shape": [keys], "parameters": part(0, 8 * keys)},
            {"name": "NUMKEYS", "datatype": "INT32", "shape": [2], "parameters": part(8 * keys, 8)}]}
        if outputs:
            body["outputs"] = [{"name": "OUTPUT0", "parameters": part(*outputs)}]
        status, answer, _ = self.post(server, "/v2/models/tables/infer", json.dumps(body))
        return status, answer.decode()

    def while_another_thread(self, change, work):
        stop = threading.Event()

        def loop():
            while not stop.is_set():
                change()
        thread = threading.Thread(target=loop)
        thread.start()
        try:
            work()
        finally:
            stop.set()
            thread.join()

    def test_counts_that_change_between_check_and_use(self):
        server = self.start("--allow-shared-memory")
        keys = 1000
        self.register(server, 8 * keys + 8)
        with open(self.path, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
            good, bad = struct.pack("<2i", keys, 0), struct.pack("<2i", 2**30, 2**30)

            def flip():
                memory[8 * keys:] = bad
                memory[8 * keys:] = good

            def work():
                answers = []
                while answers.count(200) < 200 or answers.count(400) < 20:
                    status, answer = self.ask(server, keys)
                    self.assertIn(status, (200, 400), answer)
                    self.assertNotIn(str(2**30), answer if status == 400 else "")
                    answers.append(status)
            self.while_another_thread(flip, work)
        self.expect_well(server)
        self.expect_end(server)

    def test_a_region_that_is_truncated_while_requests_run(self):
        server = self.start("--allow-shared-memory")
        keys = 200_000
        inputs, outputs = 8 * keys + 8, 4 * DIM * keys
        self.register(server, inputs + outputs)
        counts = struct.pack("<2i", keys, 0)
        with open(self.path, "r+b") as file:
            def truncate():
                os.ftruncate(file.fileno(), 4096)
                os.ftruncate(file.fileno(), inputs + outputs)
                os.pwrite(file.fileno(), counts, 8 * keys)

            def work():
                answers = []
                while len(answers) < 100 or answers.count(400) < 20:
                    status, answer = self.ask(server, keys, outputs=(inputs, outputs))
                    self.assertIn(status, (200, 400), answer)
                    answers.append(status)
            self.while_another_thread(truncate, work)
        self.expect_well(server)
        self.expect_end(server)


if __name__ == "__main__":
    unittest.main()
