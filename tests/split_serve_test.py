"""Tables of models split over table servers behind a front end: its answers are those of one server, bit for bit, while
table servers are killed, reloaded, cut off and broken."""

import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest

import models
from harness import SOURCE, EmblemTest, Server, becomes_true, run, use_test_clients

use_test_clients("tritonclient")
import numpy as np
import tritonclient.grpc as triton_grpc
from serve_test import read_tsv
from torcheasyrec import Run, tensor_of

PATIENT = ["--table-timeout-ms", 60000]  # as slow as a test machine may be


def infer(connection, model, body):
    """Status, and version and values of the answer or the error."""
    connection.request("POST", f"/v2/models/{model}/infer", body)
    response = connection.getresponse()
    text = response.read()
    if response.status != 200:
        return response.status, None, text.decode()
    answer = json.loads(text)
    return 200, answer["model_version"], json.dumps(answer["outputs"])


def ask(address, model, body):
    connection = http.client.HTTPConnection(address, timeout=120)
    try:
        return infer(connection, model, body)
    finally:
        connection.close()


def post(address, path, body="{}"):
    connection = http.client.HTTPConnection(address, timeout=120)
    connection.request("POST", path, body)
    text = connection.getresponse().read().decode()
    connection.close()
    return text


def metric(server, name, labels=""):
    text = server.get("/metrics", server.metrics)[1].decode()
    found = re.findall(rf"^{name}{{[^}}]*{labels}[^}}]*}} (\S+)$|^{name} (\S+)$", text, re.MULTILINE)
    return sum(float(a or b) for a, b in found)


def rss(server):
    """Bytes of memory that are not of files."""
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", status).group(1)) * 1024


class Load:
    """Threads that send requests to a front end until they are stopped; every answer is kept."""

    def __init__(self, address, model, bodies, threads=4):
        self.address, self.model, self.bodies = address, model, bodies
        self.answers, self.stopped = [], threading.Event()
        self.threads = [threading.Thread(target=self.send, args=(i,)) for i in range(threads)]
        for thread in self.threads:
            thread.start()

    def send(self, seed):
        chosen = random.Random(seed)
        connection = http.client.HTTPConnection(self.address, timeout=120)
        while not self.stopped.is_set():
            i = chosen.randrange(len(self.bodies))
            self.answers.append((i, *infer(connection, self.model, self.bodies[i])))
        connection.close()

    def wait(self, condition):
        """For more answers until it holds for the list of all."""
        return becomes_true(lambda: condition(self.answers))

    def more(self, count):
        """Waits for `count` more answers, and returns them."""
        begin = len(self.answers)
        assert becomes_true(lambda: len(self.answers) >= begin + count)
        return self.answers[begin:]

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join()
        return self.answers


class Proxy:
    """A TCP proxy before a table server; `mode` says what happens to the bytes of its answers."""

    def __init__(self, target):
        host, port = target.split(":")
        self.target, self.mode = (host, int(port)), "pass"
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.random = random.Random(5)
        self.damaged = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        try:
            server = socket.create_connection(self.target)
        except OSError:
            client.close()
            return
        threading.Thread(target=self.copy, args=(client, server, False), daemon=True).start()
        self.copy(server, client, True)

    def copy(self, source, to, is_answer):
        try:
            while data := source.recv(65536):
                # Answers to questions for the status are short and stay as they are.
                if is_answer and self.mode != "pass" and len(data) > 400 and self.random.random() < 0.5:
                    self.damaged += 1
                    if self.mode == "cut":
                        to.sendall(data[:len(data) // 2])
                        break
                    if self.mode == "garbage":
                        data = bytes(self.random.randrange(256) for _ in range(len(data)))
                    if self.mode == "flip":
                        at = self.random.randrange(300, len(data))
                        data = data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]
                    if self.mode == "more":
                        data += b"x" * 100
                to.sendall(data)
        except OSError:
            pass
        for end in (source, to):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            if is_answer:
                end.close()

    def close(self):
        self.listener.close()


class SplitServe(EmblemTest):
    rows = 12000

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.repository, cls.newer = cls.folder / "repository", cls.folder / "newer"
        wide = cls.write_config("wide.config", models.config_for("wide_and_deep", cls.data, cls.folder / "wide"))
        history = Run(SOURCE / "configs/taobao/multi_tower_din.config", cls.folder / "history", divide=100)
        history.folder.mkdir()
        history.make_data()
        history.train("model", 60)
        for command in (["train", "--config", cls.config],
                        ["train", "--config", cls.config, "--model-dir", cls.folder / "model2", "--set",
                         "train_config.seed=8"],
                        ["train", "--config", wide],
                        ["export", "--checkpoint", cls.folder / "model", "--out", cls.repository / "dlrm"],
                        ["export", "--checkpoint", cls.folder / "wide", "--out", cls.repository / "wide"],
                        ["export", "--checkpoint", history.folder / "model", "--out", cls.repository / "history"],
                        ["export", "--checkpoint", cls.folder / "model", "--out", cls.newer / "dlrm"],
                        ["export", "--checkpoint", cls.folder / "model2", "--out", cls.newer / "dlrm"]):
            done = run(*command)
            assert done.returncode == 0, done.stderr
        cls.bodies = {"dlrm": cls.criteo_bodies(), "wide": cls.criteo_bodies(), "history": cls.history_bodies(history)}
        cls.expected = cls.answers_of_one_server(cls.repository)
        cls.expected2 = cls.answers_of_one_server(cls.newer)["dlrm"]
        assert all(a != b for a, b in zip(cls.expected["dlrm"], cls.expected2))

    @classmethod
    def criteo_bodies(cls):
        _, cls.numbers, cls.ids = read_tsv(next((cls.data / "test").glob("*")))
        cls.ids = cls.ids.copy()
        cls.ids[::7, 3] += 10**12  # keys that training never saw
        cls.cuts = [(i, i + 1) for i in range(20)] + [(100, 164), (200, 1000)]
        return [json.dumps({"inputs": [
            {"name": "categorical_features", "datatype": "INT64", "shape": [end - begin, 26],
             "data": cls.ids[begin:end].ravel().tolist()},
            {"name": "numerical_features", "datatype": "FP32", "shape": [end - begin, 13],
             "data": [float(x) for x in cls.numbers[begin:end].ravel()]}]}) for begin, end in cls.cuts]

    @classmethod
    def history_bodies(cls, history):
        server = Server(cls.repository)
        inputs = json.loads(server.get("/v2/models/history")[1])["inputs"]
        server.stop()
        rows = history.test_rows(300)
        return [json.dumps({"inputs": [tensor_of(i["name"], i["datatype"], [row[i["name"]] for row in rows[begin:end]])
                                       for i in inputs]}) for begin, end in ((0, 1), (1, 40), (0, 300))]

    @classmethod
    def answers_of_one_server(cls, repository):
        server = Server(repository)
        try:
            names = [path.name for path in repository.iterdir()]
            answers = {name: [ask(server.http, name, body) for body in cls.bodies[name]] for name in names}
        finally:
            server.stop()
        assert all(status == 200 for each in answers.values() for status, _, _ in each), answers
        return {name: [values for _, _, values in each] for name, each in answers.items()}

    def start(self, repository, *options, **kwargs):
        server = Server(repository, *options, **kwargs)
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        return server

    def table_servers(self, repository, *options, count=3):
        return [self.start(repository, "--table-parts", f"{i + 1}/{count}", *options) for i in range(count)]

    def front_end(self, repository, servers, *options):
        addresses = ",".join(server if isinstance(server, str) else server.http for server in servers)
        return self.start(repository, "--table-servers", addresses, *options)

    def ready(self, server):
        return server.get("/v2/health/ready")[0] == 200

    def test_rows_travel_by_tls(self):
        for name in ("server", "client", "other"):
            self.assertEqual(subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
                 "-keyout", self.folder / f"{name}.key", "-out", self.folder / f"{name}.crt", "-subj", "/CN=localhost",
                 "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], capture_output=True).returncode, 0)
        tls = ["--tls-certificate", self.folder / "server.crt", "--tls-key", self.folder / "server.key",
               "--tls-client-ca", self.folder / "client.crt"]
        servers = self.table_servers(self.repository, *tls)
        known = ["--table-tls-ca", self.folder / "server.crt"]
        own = ["--table-tls-certificate", self.folder / "client.crt", "--table-tls-key", self.folder / "client.key"]
        front = self.front_end(self.repository, servers, *known, *own, *PATIENT)
        self.assertTrue(becomes_true(lambda: self.ready(front)))
        for name, expected in self.expected.items():
            for body, values in zip(self.bodies[name], expected):
                self.assertEqual(ask(front.http, name, body), (200, "1", values))
        for options, reason in (([], "closed the connection"), (known, "TLS failed"),
                                (["--table-tls-ca", self.folder / "other.crt", *own], "certificate is refused")):
            with self.subTest(options=options):
                refused = self.front_end(self.repository, servers, *options, "--table-timeout-ms", 2000)
                index = json.loads(post(refused.http, "/v2/repository/index"))
                self.assertFalse(self.ready(refused))
                self.assertTrue(any(reason in entry.get("reason", "") for entry in index), index)
                refused.stop()

    def right(self, answers, expected=None):
        """All answers are those of version 1, or those that `expected` has by version; returns the errors."""
        expected = expected or {"1": self.expected["dlrm"]}
        errors = []
        for i, status, version, values in answers:
            if status == 200:
                self.assertEqual(values, expected[version][i])
            else:
                self.assertEqual(status, 503, values)
                errors.append(values)
        return errors

    # ---- equal answers ----

    def test_answers_are_those_of_one_server(self):
        servers = self.table_servers(self.repository)
        front = self.front_end(self.repository, servers, *PATIENT)
        self.assertTrue(self.ready(front))
        for name, bodies in self.bodies.items():
            for body, expected in zip(bodies, self.expected[name]):
                self.assertEqual(ask(front.http, name, body), (200, "1", expected))
        begin, end = self.cuts[-1]
        with triton_grpc.InferenceServerClient(front.grpc) as client:
            inputs = [triton_grpc.InferInput("categorical_features", [end - begin, 26], "INT64"),
                      triton_grpc.InferInput("numerical_features", [end - begin, 13], "FP32")]
            inputs[0].set_data_from_numpy(self.ids[begin:end])
            inputs[1].set_data_from_numpy(self.numbers[begin:end])
            values = client.infer("dlrm", inputs).as_numpy("probability").ravel()
            np.testing.assert_array_equal(values, np.array(json.loads(self.expected["dlrm"][-1])[0]["data"], np.float32))
            servers[1].stop(signal.SIGKILL)
            with self.assertRaisesRegex(Exception, "StatusCode.UNAVAILABLE.*cannot be read"):
                client.infer("dlrm", inputs)
        self.assertGreater(metric(front, "emblem_missing_keys_total", 'model="dlrm"'), 0)
        for server in servers:
            self.assertGreater(metric(front, "emblem_table_server_requests_total", server.http), 0)
        for server in servers[::2]:
            self.assertGreater(metric(server, "emblem_row_requests_total"), 0)
            self.assertEqual(metric(server, "emblem_row_requests_refused_total"), 0)

    def test_a_front_end_needs_no_files_of_tables(self):
        dense = self.folder / "dense"
        shutil.copytree(self.repository, dense, ignore=lambda folder, names: ["tables"] if "tables" in names else [])
        front = self.front_end(dense, self.table_servers(self.repository, count=2), *PATIENT)
        self.assertEqual(ask(front.http, "dlrm", self.bodies["dlrm"][-1]), (200, "1", self.expected["dlrm"][-1]))

    def test_a_table_server_has_its_share_of_the_memory(self):
        big = self.write_config("big.config", models.config_for("dnn", self.data, self.folder / "big")
                                .replace("embedding_dim: 8 hash_bucket_size: 3000",
                                         "embedding_dim: 64 hash_bucket_size: 40000"))
        self.succeed(run("train", "--config", big, "--max-steps", 2))
        self.succeed(run("export", "--checkpoint", self.folder / "big", "--out", self.folder / "big_models/big"))
        used = {}
        for parts in ("0", "1/3", "2/3", "3/3", "0-4095"):
            server = self.start(self.folder / "big_models", "--table-parts", parts)
            used[parts] = rss(server)
            server.stop()
        everything = used["0-4095"] - used["0"]
        self.assertGreater(everything, 26 * 40000 * 64 * 4)
        for parts in ("1/3", "2/3", "3/3"):
            self.assertAlmostEqual((used[parts] - used["0"]) / everything, 1 / 3, delta=0.08)

    def test_deltas_reach_the_servers_of_their_rows(self):
        deltas = self.folder / "deltas"
        one = self.start(self.repository, "--deltas", f"dlrm={deltas}")
        servers = self.table_servers(self.repository, "--deltas", f"dlrm={deltas}")
        front = self.front_end(self.repository, servers, *PATIENT)
        keys = np.unique(self.ids[:, 0])
        (deltas / ".writing/C1_emb").mkdir(parents=True)
        (deltas / ".writing/C1_emb/key").write_bytes(keys.tobytes())
        (deltas / ".writing/C1_emb/emb_vector").write_bytes(
            np.random.default_rng(1).normal(size=(len(keys), 8)).astype(np.float32).tobytes())
        (deltas / ".writing/manifest.json").write_text(json.dumps(
            {"sequence": 10**6, "created_unix_ms": int(time.time() * 1000),
             "tables": [{"name": "C1_emb", "dim": 8, "rows": len(keys)}]}))
        (deltas / ".writing").rename(deltas / "delta-000001000000")
        for server in [one, *servers]:
            self.assertTrue(becomes_true(lambda: metric(server, "emblem_update_sequence", 'model="dlrm"') == 10**6))
        updated = sum(metric(server, "emblem_rows_updated_total", 'model="dlrm"') for server in servers)
        self.assertEqual(updated, len(keys))
        for body, before in zip(self.bodies["dlrm"], self.expected["dlrm"]):
            answer = ask(front.http, "dlrm", body)
            self.assertEqual(answer, ask(one.http, "dlrm", body))
            self.assertNotEqual(answer[2], before)

    # ---- servers that go away ----

    def test_a_killed_server_costs_errors_until_it_is_back(self):
        servers = self.table_servers(self.repository)
        front = self.front_end(self.repository, servers, *PATIENT)
        load = Load(front.http, "dlrm", self.bodies["dlrm"])
        self.addCleanup(load.stop)
        load.more(100)
        port = servers[1].http.split(":")[1]
        servers[1].stop(signal.SIGKILL)
        self.assertTrue(load.wait(lambda answers: any(status == 503 for _, status, _, _ in answers)))
        self.assertTrue(becomes_true(lambda: not self.ready(front)))
        self.assertEqual(self.index_entry(front)["state"], "UNAVAILABLE")
        # At first the reason may be an answer that was cut.
        problem = (r"parts 1365-2729 of model dlrm version 1 are on no table server that answers; "
                   rf".*:{port}: cannot connect: Connection refused")
        self.assertTrue(becomes_true(lambda: re.search(problem, self.index_entry(front)["reason"])),
                        self.index_entry(front))
        self.assertGreater(metric(front, "emblem_table_parts_missing", 'model="dlrm"'), 1300)
        self.assertEqual(metric(front, "emblem_table_server_up"), 2)
        self.assertTrue(any(status == 503 for _, status, _, _ in load.more(50)))

        self.start(self.repository, "--table-parts", "2/3", http_port=port)
        self.assertTrue(becomes_true(lambda: self.ready(front)))
        load.more(20)
        self.assertEqual(self.right(load.more(200)), [])
        errors = self.right(load.stop())
        self.assertGreater(len(errors), 0)
        self.assertTrue(all("cannot be read" in error for error in errors), errors[:3])
        self.assertGreater(metric(front, "emblem_table_lookups_failed_total"), 0)
        self.assertGreater(metric(front, "emblem_table_server_failures_total", f":{port}"), 0)
        self.assertEqual(metric(front, "emblem_table_parts_missing"), 0)

    def index_entry(self, front):
        return next(entry for entry in json.loads(self.post(front, "/v2/repository/index")) if entry["name"] == "dlrm")

    def post(self, server, path, body=""):
        connection = http.client.HTTPConnection(server.http, timeout=120)
        connection.request("POST", path, body)
        response = connection.getresponse()
        text = response.read()
        connection.close()
        self.status = response.status
        return text

    def test_a_replica_takes_over_without_an_error(self):
        servers = self.table_servers(self.repository) + self.table_servers(self.repository, count=2)
        front = self.front_end(self.repository, servers, *PATIENT)
        load = Load(front.http, "dlrm", self.bodies["dlrm"])
        self.addCleanup(load.stop)
        load.more(100)
        servers[0].stop(signal.SIGKILL)
        load.more(200)
        self.assertEqual(servers[4].stop(), 0)
        load.more(200)
        self.assertEqual(self.right(load.stop()), [])
        self.assertTrue(self.ready(front))
        self.assertEqual(metric(front, "emblem_table_lookups_failed_total"), 0)

    def test_a_server_that_hangs_is_passed_over(self):
        servers = self.table_servers(self.repository) + self.table_servers(self.repository)
        front = self.front_end(self.repository, servers, "--table-timeout-ms", 3000)
        load = Load(front.http, "dlrm", self.bodies["dlrm"])
        self.addCleanup(load.stop)
        load.more(50)
        servers[2].process.send_signal(signal.SIGSTOP)
        try:
            self.assertTrue(becomes_true(lambda: metric(front, "emblem_table_server_up") == 5))
            answers = load.more(200)
        finally:
            servers[2].process.send_signal(signal.SIGCONT)
        self.assertTrue(any(status == 200 for _, status, _, _ in answers))
        self.assertTrue(becomes_true(lambda: metric(front, "emblem_table_server_up") == 6))
        self.right(load.stop())

    def test_damaged_answers_are_never_used(self):
        servers = self.table_servers(self.repository)
        proxy = Proxy(servers[1].http)
        self.addCleanup(proxy.close)
        front = self.front_end(self.repository, [servers[0], proxy.address, servers[2]], *PATIENT)
        load = Load(front.http, "dlrm", self.bodies["dlrm"])
        self.addCleanup(load.stop)
        problems = {"cut": "in the middle of an answer", "garbage": "is not HTTP", "flip": "checksum", "more": "more than"}
        for mode, problem in problems.items():
            before, damaged = len(load.answers), proxy.damaged
            proxy.mode = mode
            self.assertTrue(becomes_true(lambda: any(
                problem in str(values) for _, _, _, values in load.answers[before:])), (mode, load.answers[-3:]))
            self.assertGreater(proxy.damaged, damaged)
            proxy.mode = "pass"
            self.assertTrue(becomes_true(lambda: self.ready(front)))
        self.assertTrue(becomes_true(lambda: not self.right(load.more(100))))
        self.assertGreater(len(self.right(load.stop())), 0)

    # ---- versions ----

    def add_second_version(self, repository):
        shutil.copytree(self.newer / "dlrm/2", repository / "dlrm/.2")
        (repository / "dlrm/.2").rename(repository / "dlrm/2")

    def new_repository(self, name):
        repository = self.folder / name
        shutil.copytree(self.repository / "dlrm", repository / "dlrm")
        return repository

    def test_rolling_reload_under_load(self):
        repository = self.new_repository("rolling")
        polling = ["--model-control-mode", "poll", "--repository-poll-secs", 0.2]
        servers = self.table_servers(repository, *polling, "--keep-version-secs", 1)
        front = self.front_end(repository, servers, *polling, *PATIENT)
        load = Load(front.http, "dlrm", self.bodies["dlrm"])
        self.addCleanup(load.stop)
        load.more(100)
        self.add_second_version(repository)
        self.assertTrue(load.wait(lambda answers: answers[-1][2] == "2"))
        for server in servers:
            self.assertTrue(becomes_true(lambda: metric(server, "emblem_table_versions_held") == 1))
        load.more(100)
        answers = load.stop()
        self.assertEqual(self.right(answers, {"1": self.expected["dlrm"], "2": self.expected2}), [])
        self.assertEqual({version for _, _, version, _ in answers}, {"1", "2"})

    def test_a_front_end_moves_on_when_all_servers_have_the_version(self):
        repository = self.new_repository("explicit")
        explicit = ["--model-control-mode", "explicit", "--load-model", "dlrm"]
        servers = self.table_servers(repository, *explicit, "--keep-version-secs", 1)
        front = self.front_end(repository, servers, *explicit, *PATIENT)
        body = self.bodies["dlrm"][0]
        self.add_second_version(repository)
        for server in servers[:2]:
            self.post(server, "/v2/repository/models/dlrm/load")
            self.assertEqual(self.status, 200)
        error = self.post(front, "/v2/repository/models/dlrm/load").decode()
        self.assertEqual(self.status, 503)
        self.assertIn("parts 2730-4095 of model dlrm version 2 are on no table server that answers; "
                      f"{servers[2].http}, which has parts 2730-4095, has not loaded it", error)
        # Version 1 is still there, though it was replaced on two servers and is older than they keep what is unused.
        until = time.monotonic() + 2.5
        while time.monotonic() < until:
            self.assertEqual(ask(front.http, "dlrm", body), (200, "1", self.expected["dlrm"][0]))
        self.post(servers[2], "/v2/repository/models/dlrm/load")
        self.assertTrue(becomes_true(lambda: ask(front.http, "dlrm", body) == (200, "2", self.expected2[0])))
        for server in servers:
            self.assertTrue(becomes_true(lambda: metric(server, "emblem_table_versions_held") == 1))

    def test_a_restarted_server_also_has_the_version_before(self):
        repository = self.new_repository("restarted")
        servers = self.table_servers(repository)
        front = self.front_end(repository, servers, *PATIENT)
        self.add_second_version(repository)
        port = servers[0].http.split(":")[1]
        servers[0].stop()
        self.start(repository, "--table-parts", "1/3", http_port=port)
        self.assertTrue(becomes_true(lambda: self.ready(front)))
        self.assertEqual(ask(front.http, "dlrm", self.bodies["dlrm"][-1]), (200, "1", self.expected["dlrm"][-1]))

    def test_other_files_under_the_same_version_are_never_mixed(self):
        """Table servers and a front end whose repositories differ."""
        other = self.folder / "other"
        shutil.copytree(self.newer / "dlrm/2", other / "dlrm/1")
        front = self.front_end(other, self.table_servers(self.repository, count=2), "--table-timeout-ms", 2000)
        self.assertFalse(self.ready(front))
        status, _, error = ask(front.http, "dlrm", self.bodies["dlrm"][0])
        self.assertEqual(status, 503)
        self.assertIn("has other files under this version", error)

    # ---- what is refused ----

    def test_a_front_end_waits_for_its_servers(self):
        servers = self.table_servers(self.repository)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        front = self.front_end(self.repository, [*servers[:2], f"127.0.0.1:{port}"], *PATIENT)
        self.assertFalse(self.ready(front))
        status, _, error = ask(front.http, "dlrm", self.bodies["dlrm"][0])
        self.assertEqual(status, 503)
        self.assertIn("parts 2730-4095 of model dlrm version 1 are on no table server that answers", error)
        self.start(self.repository, "--table-parts", "2730-4095", http_port=port)
        self.assertTrue(becomes_true(lambda: self.ready(front)))
        self.assertEqual(ask(front.http, "dlrm", self.bodies["dlrm"][0]), (200, "1", self.expected["dlrm"][0]))

    def test_tokens(self):
        servers = [self.start(self.repository, "--table-parts", "1/1", "--token", "secret")]
        front = self.front_end(self.repository, servers, *PATIENT)
        self.assertFalse(self.ready(front))
        self.assertTrue(becomes_true(lambda: any("status 401" in line for line in front.lines)), front.lines)
        front = self.start(self.repository, "--table-servers", servers[0].http, *PATIENT,
                           env={**os.environ, "EMBLEM_TABLE_TOKEN": "secret"})
        self.assertEqual(ask(front.http, "dlrm", self.bodies["dlrm"][0]), (200, "1", self.expected["dlrm"][0]))

    def test_table_servers_refuse_what_is_not_theirs(self):
        server = self.start(self.repository, "--table-parts", "0-99")
        status, _, error = ask(server.http, "dlrm", self.bodies["dlrm"][0])
        self.assertEqual(status, 501)
        self.assertIn("this is a table server (parts 0-99 of 4096)", error)
        for path in ("/v2/tables/rows", "/v2/tables/status"):
            self.assertIn(b"does not begin as one", self.post(server, path, "nonsense"))
            self.assertEqual(self.status, 400)
        plain = self.start(self.repository)
        self.assertIn(b"without --table-parts", self.post(plain, "/v2/tables/rows", "nonsense"))
        self.assertEqual(self.status, 501)

    def test_options_that_do_not_fit(self):
        def refused(*options):
            return run("serve", "--models", self.repository, *options)
        self.fail_with(refused("--table-parts", "0-4096"), "parts '0-4096'", "from 0 to 4095")
        self.fail_with(refused("--table-parts", "4/3"), "parts '4/3'")
        self.fail_with(refused("--table-parts", "1/3", "--table-servers", "a:1"), "a server is one of them")
        self.fail_with(refused("--table-servers", "a:1", "--deltas", "dlrm=x"), "give it to the table servers")
        self.fail_with(refused("--table-servers", "a:1", "--ps", "x.json"), "--ps")
        self.fail_with(refused("--table-servers", "a:x"), "'x' is not a valid port")
        self.fail_with(refused("--table-servers", "a:1,a:1"), "duplicate a:1")


if __name__ == "__main__":
    unittest.main()
