"""Mixed load for minutes: reloads, row updates, clients that disconnect, cancel and attack. Checks every answer and the
memory use.

EMBLEM_SOAK_SECONDS (600): duration."""

import json
import os
import random
import socket
import struct
import threading
import time
import unittest
import zlib

import http2_attack
from harness import EmblemTest, run, use_test_clients

use_test_clients("tritonclient")
import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

from serve_test import Server, read_tsv

SECONDS = float(os.environ.get("EMBLEM_SOAK_SECONDS", "600"))
RELOAD_SECONDS, DELTA_SECONDS, ABUSE_SECONDS = 10, 0.5, 0.2


def cpu_seconds():
    """All that the machine's cores have spent, and of it what they spent idle."""
    with open("/proc/stat") as file:
        times = [int(text) for text in file.readline().split()[1:9]]
    return sum(times), times[3] + times[4]


class Soak(EmblemTest):
    rows = 20000

    def test_no_failures_wrong_answers_or_memory_growth(self):
        repository, deltas = self.folder / "models", self.folder / "deltas"
        expected = {}
        for version, steps in ((1, 40), (2, 70)):
            self.succeed(self.train(self.folder / "model", "--max-steps", steps, *(["--resume"] if version > 1 else [])))
            self.succeed(run("export", "--checkpoint", self.folder / "model", "--out", repository / "dlrm"))
            out = self.folder / "out.csv"
            self.succeed(run("predict", "--checkpoint", self.folder / "model", "--input", self.data / "test", "--out", out))
            expected[str(version)] = np.array([float(line) for line in out.read_text().splitlines()[1:]], np.float32)
        _, self.numbers, self.ids = read_tsv(next((self.data / "test").glob("*")))
        deltas.mkdir()
        server = Server(repository, "--model-control-mode", "explicit", "--load-model", "dlrm", "--deltas",
                        f"dlrm={deltas}")
        stop, problems, counts = threading.Event(), [], {"answers": 0, "cuts": 0, "cancels": 0, "loads": 0,
                                                          "attacks": 0}
        lock = threading.Lock()

        def guarded(work):
            def body():
                try:
                    work()
                except Exception as error:
                    problems.append(f"{work.__name__}: {error!r}")
                    stop.set()
            return threading.Thread(target=body)

        def count(what):
            with lock:
                counts[what] += 1

        def inputs(module, begin, end):
            made = [module.InferInput("categorical_features", [end - begin, 26], "INT64"),
                    module.InferInput("numerical_features", [end - begin, 13], "FP32")]
            made[0].set_data_from_numpy(self.ids[begin:end])
            made[1].set_data_from_numpy(self.numbers[begin:end])
            return made

        def check(result, version, begin, end):
            np.testing.assert_array_equal(result.as_numpy("probability")[:, 0], expected[version][begin:end])
            count("answers")

        def ask_over_http():
            draw = random.Random(1)
            with triton_http.InferenceServerClient(server.http) as client:
                while not stop.is_set():
                    begin = draw.randrange(4000)
                    end = begin + draw.choice((1, 3, 64, 500))
                    result = client.infer("dlrm", inputs(triton_http, begin, end))
                    check(result, result.get_response()["model_version"], begin, end)

        def ask_over_grpc():
            draw = random.Random(2)
            with triton_grpc.InferenceServerClient(server.grpc) as client:
                while not stop.is_set():
                    begin = draw.randrange(4000)
                    end = begin + draw.choice((1, 16, 200))
                    result = client.infer("dlrm", inputs(triton_grpc, begin, end))
                    check(result, result.get_response().model_version, begin, end)

        def cancel_over_grpc():
            with triton_grpc.InferenceServerClient(server.grpc) as client:
                while not stop.is_set():
                    call = client.async_infer("dlrm", inputs(triton_grpc, 0, 500), lambda result, error: None)
                    call.cancel()
                    count("cancels")
                    stop.wait(0.01)

        def cut_connections():
            draw = random.Random(3)
            host, port = server.http.split(":")
            body = json.dumps({"inputs": []}).encode()
            request = (f"POST /v2/models/dlrm/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body
            while not stop.is_set():
                with socket.create_connection((host, int(port)), timeout=10) as cut:
                    cut.sendall(request[:draw.randrange(1, len(request) + 1)])
                    cut.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                count("cuts")
                stop.wait(0.01)

        def attack():
            """Streams that are reset, bodies that never end, bodies that expand, and noise, in turn."""
            draw = random.Random(4)
            host, port = server.http.split(":")
            bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
            bomb = bomb.compress(bytes(32 << 20)) + bomb.flush()
            head = "POST /v2/models/dlrm/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n{}\r\n"

            def send(data):
                with socket.create_connection((host, int(port)), timeout=10) as client:
                    client.sendall(data)
                    return client.recv(100) if data.endswith(bomb) else b""

            attacks = [lambda: http2_attack.reset_streams(server.grpc, 2000),
                       lambda: send(head.format(60 << 20, "").encode() + bytes(1 << 20)),
                       lambda: send(head.format(len(bomb), "Content-Encoding: gzip\r\n").encode() + bomb),
                       lambda: send(draw.randbytes(1000))]
            while not stop.wait(ABUSE_SECONDS):
                try:
                    draw.choice(attacks)()
                except OSError:  # the server cuts such clients off
                    pass
                count("attacks")

        def reload_models():
            with triton_grpc.InferenceServerClient(server.grpc) as client:
                version = 2
                while not stop.wait(RELOAD_SECONDS):
                    version = 3 - version
                    config = json.dumps({"max_batch_size": 1024, "dynamic_batching": {},
                                         "version_policy": {"specific": {"versions": [version]}}})
                    client.load_model("dlrm", config=config)
                    count("loads")

        def stream_updates():
            """Updates of rows that no test row reads: tables change all the time, answers must not."""
            number = 0
            while not stop.wait(DELTA_SECONDS):
                number += 1
                name = f"delta-{number:012d}"
                folder = deltas / f".tmp-{number}"
                tables = []
                for table in ("C1_emb", "C2_emb"):
                    (folder / table).mkdir(parents=True)
                    keys = np.arange(1000, dtype=np.int64) + (1 << 40)
                    (folder / table / "key").write_bytes(keys.tobytes())
                    (folder / table / "emb_vector").write_bytes(np.full((1000, 8), number, np.float32).tobytes())
                    tables.append({"name": table, "dim": 8, "rows": 1000})
                (folder / "manifest.json").write_text(json.dumps(
                    {"sequence": number, "created_unix_ms": int(time.time() * 1000), "tables": tables}))
                folder.rename(deltas / name)

        threads = [guarded(work) for work in (ask_over_http, ask_over_http, ask_over_grpc, cancel_over_grpc,
                                              cut_connections, attack, reload_models,
                                              stream_updates)]
        for thread in threads:
            thread.start()
        start, (spent, idle) = time.monotonic(), cpu_seconds()
        resident = []
        while time.monotonic() - start < SECONDS and not stop.wait(1):
            resident.append(http2_attack.resident_bytes(server.process.pid))
        spent, idle = (after - before for after, before in zip(cpu_seconds(), (spent, idle)))
        self.assertIsNone(server.process.poll(), "".join(server.lines[-20:]))
        stop.set()
        for thread in threads:
            thread.join(60)
        _, metrics = server.get("/metrics", server.metrics)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(problems, [])
        # Between requests, whose bytes come and go: once after both versions were loaded and replaced, and at the end.
        sixth = max(1, len(resident) // 6)
        settled, grown = min(resident[2 * sixth:3 * sixth + 1]), min(resident[-sixth:])
        print(f"\n{counts}, memory {grown / 1e6:.0f} MB after {settled / 1e6:.0f} MB, "
              f"CPUs {1 - idle / spent:.0%} busy")
        for what in ("answers", "cancels", "cuts", "loads", "attacks"):
            self.assertGreater(counts[what], 0, counts)
        self.assertIn("emblem_updates_applied", metrics.decode())
        self.assertNotRegex(metrics.decode(), r"emblem_update_errors_total\{[^}]*\} [1-9]")
        self.assertLess(grown, 1.05 * settled)


if __name__ == "__main__":
    unittest.main()
