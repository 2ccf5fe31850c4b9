"""Attacks and overloads a server on loopback in every way that once hurt it, and prints which it held and which it fell to.

After each attack the server must run, answer health checks on both protocols, and answer an inference request correctly."""

import json
import os
import random
import socket
import struct
import threading
import time
import unittest
import zlib

import hps_samples
import http2_attack
from harness import EmblemTest, Server, use_test_clients

use_test_clients("tritonclient")
import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

from serve_test import read_tsv

MB = 1 << 20
SECONDS = 5  # of attacks without an end of their own
MAX_MEMORY = 256 * MB
# On an idle machine health takes below a millisecond; this only excludes a server that stands still.
SLOWEST_HEALTH = 5.0
SHM_PREFIX = "emblem_hardening_"


def raw_exchange(address, data, timeout=30):
    """Everything that the server sends until it closes or pauses for a second."""
    host, port = address.split(":")
    answer = b""
    with socket.create_connection((host, int(port)), timeout=timeout) as client:
        client.sendall(data)
        client.settimeout(1)
        try:
            while got := client.recv(65536):
                answer += got
        except (TimeoutError, ConnectionError):
            pass
    return answer


def statuses(answer):
    return [int(line.split()[1]) for line in answer.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]


def post_head(path, length, *headers):
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {length}", *headers, "", ""]
    return "\r\n".join(lines).encode()


class SharedObject:
    """A file below /dev/shm that is removed at the end."""

    def __init__(self, name, size):
        self.name, self.path = name, f"/dev/shm/{name}"
        self.file = open(self.path, "w+b")
        self.file.truncate(size)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        os.unlink(self.path)

    def write(self, data, at=0):
        os.pwrite(self.file.fileno(), data, at)


class Hardening(EmblemTest):
    rows = 5000

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.repository = cls.make_served("dlrm")
        cls.make(["predict", "--checkpoint", cls.folder / "model", "--input", cls.data / "test", "--out",
                  cls.folder / "out.csv"])
        cls.expected = np.array([float(line) for line in (cls.folder / "out.csv").read_text().splitlines()[1:]], np.float32)
        _, cls.numbers, cls.ids = read_tsv(next((cls.data / "test").glob("*")))
        cls.tables = [hps_samples.Table(cls.folder / f"table{dim}", range(1000), dim) for dim in (4, 8)]
        hps_samples.write_model(cls.repository, "wdl")
        hps_samples.write_ps(cls.folder / "ps.json", [hps_samples.model_entry("wdl", cls.tables, [10, 10])])

    def start(self, *options, **kwargs):
        return Server(self.repository, "--ps", self.folder / "ps.json", *options, **kwargs)

    def start_open(self):
        """With all that attacks need, but what they must not get."""
        return self.start("--model-control-mode", "explicit", "--load-model", "dlrm", "--load-model", "wdl",
                          f"--allow-shared-memory={SHM_PREFIX}", "--max-memory", f"{MAX_MEMORY // MB}MiB")

    # ---- what a good client sees ----

    def inputs(self, module, begin, end):
        made = [module.InferInput("categorical_features", [end - begin, 26], "INT64"),
                module.InferInput("numerical_features", [end - begin, 13], "FP32")]
        made[0].set_data_from_numpy(np.resize(self.ids, (end, 26))[begin:end])
        made[1].set_data_from_numpy(np.resize(self.numbers, (end, 13))[begin:end])
        return made

    @staticmethod
    def lookup(keys, counts):
        made = [triton_http.InferInput("KEYS", [len(keys)], "INT64"),
                triton_http.InferInput("NUMKEYS", [len(counts)], "INT32")]
        made[0].set_data_from_numpy(np.asarray(keys, np.int64))
        made[1].set_data_from_numpy(np.asarray(counts, np.int32))
        return made

    def check_server(self):
        self.assertIsNone(self.server.process.poll(), "the process has ended")
        with triton_http.InferenceServerClient(self.server.http, network_timeout=60) as client:
            self.assertTrue(client.is_server_ready())
            np.testing.assert_array_equal(
                client.infer("dlrm", self.inputs(triton_http, 0, 8)).as_numpy("probability")[:, 0], self.expected[:8])
            rows = client.infer("wdl", self.lookup([1, 2, 3], [2, 1])).as_numpy("OUTPUT0").reshape(-1)
            np.testing.assert_array_equal(
                rows, np.concatenate([self.tables[0].look_up([1, 2]), self.tables[1].look_up([3])]))
        with triton_grpc.InferenceServerClient(self.server.grpc) as client:
            self.assertTrue(client.is_server_ready(client_timeout=60))
            np.testing.assert_array_equal(
                client.infer("dlrm", self.inputs(triton_grpc, 8, 24), client_timeout=60).as_numpy("probability")[:, 0],
                self.expected[8:24])

    def resident(self):
        return http2_attack.resident_bytes(self.server.process.pid)

    def health_while(self, attack, threads=1):
        """Runs `attack` in threads and asks for health on both protocols all the while: the slowest answer in seconds, and by
        how much memory grew at most."""
        before, most, slowest, failures = self.resident(), 0, 0.0, []

        def guarded(i):
            try:
                attack(i)
            except Exception as error:  # an attacker's connection may be cut: that is no failure of the server
                failures.append(error)

        attackers = [threading.Thread(target=guarded, args=(i,)) for i in range(threads)]
        for thread in attackers:
            thread.start()
        while any(thread.is_alive() for thread in attackers):
            begin = time.monotonic()
            status, _ = self.server.get("/v2/health/live")
            self.assertEqual(status, 200)
            slowest = max(slowest, time.monotonic() - begin)
            seconds = http2_attack.is_live(self.server.grpc)
            self.assertIsNotNone(seconds, "gRPC does not answer")
            slowest = max(slowest, seconds)
            most = max(most, self.resident())
            time.sleep(0.05)
        for thread in attackers:
            thread.join()
        self.assertLess(slowest, SLOWEST_HEALTH)
        return slowest, max(0, most - before)

    def held(self, slowest, grown, limit):
        self.assertLess(grown, limit, "memory grew")
        return f"health within {slowest * 1e3:.1f} ms, memory +{grown / MB:.0f} MiB"

    # ---- one request that ended the process ----

    def attack_hps_request_of_3_million_keys(self):
        keys = np.zeros(3_000_000, np.int64)
        with triton_http.InferenceServerClient(self.server.http, network_timeout=60, connection_timeout=60) as client:
            with self.assertRaises(Exception) as refused:
                client.infer("wdl", self.lookup(keys, [3_000_000, 0]))
        return str(refused.exception)[:70]

    def attack_hps_counts_that_change_while_they_are_read(self):
        with SharedObject(SHM_PREFIX + "flip", 4096) as shared:
            good, bad = struct.pack("<ii", 2, 1), struct.pack("<ii", 2**30, 2**30)
            shared.write(struct.pack("<qqq", 1, 2, 3), 0)
            shared.write(good, 64)
            stop = threading.Event()

            def flip():
                while not stop.is_set():
                    shared.write(bad, 64)
                    shared.write(good, 64)

            flipper = threading.Thread(target=flip)
            flipper.start()
            answered = refused = 0
            try:
                with triton_http.InferenceServerClient(self.server.http, network_timeout=60) as client:
                    client.register_system_shared_memory("flip", shared.name, 4096)
                    keys = triton_http.InferInput("KEYS", [3], "INT64")
                    keys.set_shared_memory("flip", 24, 0)
                    counts = triton_http.InferInput("NUMKEYS", [2], "INT32")
                    counts.set_shared_memory("flip", 8, 64)
                    end = time.monotonic() + SECONDS
                    while time.monotonic() < end:
                        try:
                            client.infer("wdl", [keys, counts])
                            answered += 1
                        except triton_http.InferenceServerException:
                            refused += 1
                    client.unregister_system_shared_memory("flip")
            finally:
                stop.set()
                flipper.join()
        return f"{answered} answered, {refused} refused"

    def attack_region_truncated_during_inference(self):
        size = 1 << 20
        with SharedObject(SHM_PREFIX + "cut", size) as shared:
            stop = threading.Event()

            def truncate():
                while not stop.is_set():
                    shared.file.truncate(0)
                    shared.file.truncate(size)

            cutter = threading.Thread(target=truncate)
            answered = refused = 0
            try:
                with triton_http.InferenceServerClient(self.server.http, network_timeout=60) as client:
                    client.register_system_shared_memory("cut", shared.name, size)
                    cutter.start()
                    rows = 1000
                    inputs = [triton_http.InferInput("categorical_features", [rows, 26], "INT64"),
                              triton_http.InferInput("numerical_features", [rows, 13], "FP32")]
                    inputs[0].set_shared_memory("cut", rows * 26 * 8, 0)
                    inputs[1].set_shared_memory("cut", rows * 13 * 4, rows * 26 * 8)
                    output = triton_http.InferRequestedOutput("probability")
                    output.set_shared_memory("cut", rows * 4, size - rows * 4)
                    end = time.monotonic() + SECONDS
                    while time.monotonic() < end:
                        try:
                            client.infer("dlrm", inputs, outputs=[output])
                            answered += 1
                        except triton_http.InferenceServerException:
                            refused += 1
                    client.unregister_system_shared_memory("cut")
            finally:
                stop.set()
                if cutter.ident:
                    cutter.join()
        return f"{answered} answered, {refused} refused"

    # ---- HTTP/2 ----

    def attack_http2_rapid_reset(self):
        end = time.monotonic() + 2 * SECONDS
        sent = [0, 0]

        def reset(i):
            sent[i], _ = http2_attack.reset_streams(self.server.grpc, 10**9, stop=lambda: time.monotonic() > end)

        slowest, grown = self.health_while(reset, threads=2)
        return f"{sum(sent) / (2 * SECONDS):.0f} resets/s; " + self.held(slowest, grown, 64 * MB)

    def attack_http2_frames_at_random(self):
        draw = random.Random(5)

        def send(_):
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                client = http2_attack.Connection(self.server.grpc, timeout=5)
                try:
                    for _ in range(20):
                        kind, flags = draw.randrange(12), draw.randrange(256)
                        client.send(http2_attack.frame(kind, flags, draw.choice((0, 1, 3, 2**31 - 1)),
                                                       draw.randbytes(draw.randrange(64))))
                except OSError:  # the server closes such connections
                    pass
                client.close()

        slowest, grown = self.health_while(send)
        return self.held(slowest, grown, 64 * MB)

    # ---- who may do what ----

    def attack_control_shared_memory_and_address_of_a_default_server(self):
        """The server of the other attacks was started with what opens it; this one was not."""
        server = self.start(address=None)
        try:
            with triton_http.InferenceServerClient(server.http) as client:
                for closed in (lambda: client.load_model("dlrm"), lambda: client.unload_model("dlrm"),
                               lambda: client.register_system_shared_memory("x", "/x", 64)):
                    with self.assertRaises(triton_http.InferenceServerException):
                        closed()
            port = int(server.http.split(":")[1])
            for address in self.other_addresses():
                with self.assertRaises(OSError):
                    socket.create_connection((address, port), timeout=2).close()
            text = "".join(server.lines)
            for flag in ("--address", "--model-control-mode", "--allow-shared-memory"):
                self.assertIn(flag, text)
        finally:
            server.stop()
        return "load, unload, shared memory and other addresses refused"

    @staticmethod
    def other_addresses():
        try:
            return {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), 0, socket.AF_INET)
                    if not info[4][0].startswith("127.")}
        except OSError:
            return set()

    def attack_configuration_with_thousands_of_threads(self):
        config = json.dumps({"max_batch_size": 1024, "instance_group": [{"count": 161, "kind": "KIND_CPU"}],
                             "parameters": {"threads": {"string_value": "16"}}})
        with triton_http.InferenceServerClient(self.server.http) as client:
            with self.assertRaises(triton_http.InferenceServerException) as refused:
                client.load_model("dlrm", config=config)
        threads = len(os.listdir(f"/proc/{self.server.process.pid}/task"))
        self.assertLess(threads, 200)
        return f"{threads} threads; {str(refused.exception)[:60]}"

    def attack_shared_memory_of_others(self):
        with SharedObject("other_" + SHM_PREFIX, 4096) as shared:
            shared.write(b"secret")
            with triton_http.InferenceServerClient(self.server.http) as client:
                for key in (shared.name, "/" + shared.name, SHM_PREFIX + "/../" + shared.name):
                    with self.assertRaises(triton_http.InferenceServerException):
                        client.register_system_shared_memory("other", key, 4096)
        return "refused"

    # ---- HTTP/1 ----

    def attack_request_smuggling(self):
        inner = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
        heads = [b"Transfer-Encoding: xchunked", b"Transfer-Encoding: chunked, identity", b"Transfer-Encoding:\x0bchunked",
                 b"Transfer-Encoding: identity", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
                 b"Transfer-Encoding : chunked", b"Transfer-Encoding: chunked\r\nContent-Length: 5",
                 b"Content-Length: 5\r\nContent-Length: 6", b"Content-Length: +5", b"Content-Length: 5, 5",
                 b"Content-Length: 0x5", b"Host: y", b" folded: x", b"a b: c"]
        for head in heads:
            request = b"POST /v2/models/dlrm/infer HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\n0\r\n\r\n" + inner
            self.assertEqual(statuses(raw_exchange(self.server.http, request)), [400], head)
        return f"{len(heads)} forms: 400 and closed"

    def attack_random_bytes(self):
        draw = random.Random(6)
        for address in (self.server.http, self.server.grpc, self.server.metrics):
            for _ in range(50):
                host, port = address.split(":")
                with socket.create_connection((host, int(port)), timeout=10) as client:
                    try:
                        client.sendall(draw.randbytes(draw.randrange(1, 4096)))
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    except OSError:
                        pass
        return "150 connections"

    # ---- overload ----

    def attack_large_grpc_requests(self):
        def ask(_):
            with triton_grpc.InferenceServerClient(self.server.grpc) as client:
                inputs = self.inputs(triton_grpc, 0, 60_000)
                end = time.monotonic() + SECONDS
                while time.monotonic() < end:
                    client.infer("dlrm", inputs)

        slowest, grown = self.health_while(ask)
        return self.held(slowest, grown, MAX_MEMORY)

    def attack_half_sent_bodies(self):
        host, port = self.server.http.split(":")
        clients = []

        def stall(_):
            for _ in range(40):
                client = socket.create_connection((host, int(port)), timeout=30)
                clients.append(client)
                client.sendall(post_head("/v2/models/dlrm/infer", 60 * MB))
                client.settimeout(5)
                try:
                    for _ in range(20):
                        client.sendall(bytes(MB))
                except OSError:
                    pass
            time.sleep(1)

        try:
            slowest, grown = self.health_while(stall)
        finally:
            for client in clients:
                client.close()
        return self.held(slowest, grown, MAX_MEMORY + 64 * MB)

    def attack_gzip_bombs(self):
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        bomb = b"".join(packer.compress(bytes(MB)) for _ in range(63)) + packer.flush()
        request = post_head("/v2/models/dlrm/infer", len(bomb), "Content-Encoding: gzip") + bomb

        def throw(_):
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                raw = socket.create_connection(tuple(self.server.http.split(":")), timeout=60)
                with raw:
                    raw.sendall(request)
                    raw.recv(1024)

        slowest, grown = self.health_while(throw, threads=4)
        return self.held(slowest, grown, MAX_MEMORY + 64 * MB)

    def attack_answers_that_are_not_read(self):
        host, port = self.server.http.split(":")
        body = json.dumps({"inputs": [{"name": "KEYS", "datatype": "INT64", "shape": [10_000], "data": [1] * 10_000},
                                      {"name": "NUMKEYS", "datatype": "INT32", "shape": [2], "data": [0, 10_000]}]}).encode()
        request = post_head("/v2/models/wdl/infer", len(body)) + body
        clients = []

        def ask(_):
            for _ in range(50):
                client = socket.create_connection((host, int(port)), timeout=5)
                clients.append(client)
                try:
                    for _ in range(5):
                        client.sendall(request)
                except OSError:
                    pass

        try:
            slowest, grown = self.health_while(ask)
        finally:
            for client in clients:
                client.close()
        return self.held(slowest, grown, MAX_MEMORY + 64 * MB)

    def attack_idle_connections(self):
        server = self.start("--max-connections", 64)
        clients = []
        try:
            for address in (server.http, server.grpc):
                host, port = address.split(":")
                clients += [socket.create_connection((host, int(port)), timeout=10) for _ in range(200)]
            status, _ = server.get("/v2/health/live")
            self.assertEqual(status, 200)
            self.assertIsNotNone(http2_attack.is_live(server.grpc), "gRPC does not answer")
        finally:
            for client in clients:
                client.close()
            server.stop()
        return "200 idle connections on each port of a server with 64"

    def attack_half_closed_clients(self):
        request = b"GET /v2/models/dlrm HTTP/1.1\r\nHost: x\r\n\r\n"
        host, port = self.server.http.split(":")
        for _ in range(100):
            with socket.create_connection((host, int(port)), timeout=30) as client:
                client.sendall(request)
                client.shutdown(socket.SHUT_WR)
                answer = client.makefile("rb").read()
                self.assertEqual(statuses(answer), [200])
        return "100 answered"

    def attack_priority_under_load(self):
        stop, problems = threading.Event(), []

        def load():
            with triton_http.InferenceServerClient(self.server.http) as client:
                while not stop.is_set():
                    client.infer("dlrm", self.inputs(triton_http, 0, 2000))

        def ask():
            with triton_http.InferenceServerClient(self.server.http) as client:
                for _ in range(50):
                    try:
                        client.infer("dlrm", self.inputs(triton_http, 0, 8), priority=1)
                    except Exception as error:
                        problems.append(str(error))

        threads = [threading.Thread(target=load) for _ in range(3)]
        for thread in threads:
            thread.start()
        ask()
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(problems, [])
        return "50 answered"

    # ---- all of them ----

    def test_every_attack_is_held(self):
        self.server = self.start_open()
        table, fell = [], []
        try:
            self.check_server()
            for name in sorted(name for name in dir(self) if name.startswith("attack_")):
                try:
                    detail = getattr(self, name)()
                    self.check_server()
                    table.append((name, "held", detail))
                except Exception as error:
                    fell.append(name)
                    table.append((name, "FELL", repr(error)[:200]))
                    if self.server.process.poll() is not None:
                        self.server = self.start_open()
        finally:
            status = self.server.stop()
        print()
        for name, verdict, detail in table:
            print(f"{name.removeprefix('attack_').replace('_', ' '):<62} {verdict:<5} {detail}")
        self.assertEqual(fell, [])
        self.assertEqual(status, 0)


if __name__ == "__main__":
    unittest.main()
