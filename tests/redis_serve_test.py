"""Redis, which holds the rows of a server, is killed and restarted while clients send requests and check every answer."""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

from harness import SKIPPED, EmblemTest, becomes_true, run, use_test_clients

use_test_clients("tritonclient")
import numpy as np
import serve_test
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException


class Redis:
    """redis-server on a free port, with or without persistence in a folder."""

    def __init__(self, folder, keeps="yes"):
        folder.mkdir()
        self.folder, self.keeps = folder, keeps
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.port = taken.getsockname()[1]
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", "",
             "--appendonly", self.keeps, "--appendfsync", "always"], stdout=subprocess.DEVNULL)
        if not becomes_true(self.answers):
            raise AssertionError("redis-server did not start")

    def call(self, command):
        """The first bytes of the reply to an inline command."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(command.encode() + b"\r\n")
            return connection.recv(1 << 16).decode()

    def answers(self):
        try:
            return self.call("PING").startswith("+PONG")
        except OSError:
            return False

    def calls(self, name):
        """How often a command was executed."""
        found = re.search(rf"cmdstat_{name}:calls=(\d+)", self.call("INFO commandstats"))
        return int(found.group(1)) if found else 0

    def kill(self):
        self.process.kill()
        self.process.wait()


class Asker(threading.Thread):
    """Sends requests with rows of the test data until stopped."""

    def __init__(self, test, server):
        super().__init__()
        self.test, self.server = test, server
        self.stopping = threading.Event()
        self.right, self.refused, self.wrong = 0, [], []

    def run(self):
        begin = 0
        with triton_http.InferenceServerClient(self.server.http) as client:
            while not self.stopping.is_set():
                begin = (begin + 37) % 4900
                try:
                    result = client.infer("dlrm", self.test.inputs(begin, begin + 16)).as_numpy("probability")[:, 0]
                except InferenceServerException as error:
                    self.refused.append(str(error))
                    time.sleep(0.02)
                    continue
                if np.array_equal(result, self.test.expected[begin:begin + 16]):
                    self.right += 1
                else:
                    self.wrong.append(begin)

    def wait_for_right_answers(self, count):
        wanted = self.right + count
        return becomes_true(lambda: self.right >= wanted)


class RedisUnderAServer(EmblemTest):
    rows = 5000

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.repository = cls.make_served("dlrm")
        cls.make(["predict", "--checkpoint", cls.folder / "model", "--input", cls.data / "test", "--out",
                  cls.folder / "predictions.csv"])
        _, cls.numbers, cls.ids = serve_test.read_tsv(next((cls.data / "test").glob("*")))
        lines = (cls.folder / "predictions.csv").read_text().splitlines()[1:]
        cls.expected = np.array([float(line) for line in lines]).astype(np.float32)

    def inputs(self, begin, end):
        made = [triton_http.InferInput("categorical_features", [end - begin, 26], "INT64"),
                triton_http.InferInput("numerical_features", [end - begin, 13], "FP32")]
        made[0].set_data_from_numpy(self.ids[begin:end])
        made[1].set_data_from_numpy(self.numbers[begin:end])
        return made

    def ps_config(self, name, redis, more):
        return self.write_config(name + ".json", json.dumps(
            {"supportlonglong": True,
             "volatile_db": {"type": "redis_cluster", "address": f"127.0.0.1:{redis.port}"}, **more}))

    def kill_and_start_redis(self, name, more, keeps="yes"):
        """Returns the errors while Redis was down; checks all other answers."""
        redis = Redis(self.folder / name, keeps)
        self.addCleanup(redis.kill)
        server = serve_test.Server(self.repository, "--ps", self.ps_config(name, redis, more))
        asker = Asker(self, server)
        asker.start()
        try:
            self.assertTrue(asker.wait_for_right_answers(20), asker.refused)
            self.assertEqual(asker.refused, [])
            redis.kill()
            right = asker.right
            self.assertTrue(becomes_true(lambda: asker.refused or asker.right > right + 20))
            self.assertEqual(server.get("/v2/health/live")[0], 200)
            redis.start()
            self.assertTrue(asker.wait_for_right_answers(20), asker.refused[-1:])
            refused = len(asker.refused)
            self.assertTrue(asker.wait_for_right_answers(20))
            self.assertEqual(len(asker.refused), refused)  # no further errors
        finally:
            asker.stopping.set()
            asker.join()
            self.assertEqual(server.stop(), 0)
        self.assertEqual(asker.wrong, [])
        return asker.refused

    def test_lost_partitions_and_rows_never_give_wrong_answers(self):
        """As maxmemory-policy allkeys-random evicts: whole keys, those of partitions and notes."""
        for name, more in (("lossy", {}),
                           ("lossy_with_disk", {"persistent_db": {"type": "rocks_db",
                                                                  "path": str(self.folder / "lossy_rocksdb")}})):
            redis = Redis(self.folder / name)
            self.addCleanup(redis.kill)
            config = json.loads(self.ps_config(name, redis, more).read_text())
            config["volatile_db"].update(num_partitions=16, ready_while_rows_are_lost=False)
            server = serve_test.Server(self.repository, "--ps", self.write_config(name + ".json", json.dumps(config)))
            self.addCleanup(server.stop)
            asker = Asker(self, server)
            asker.start()
            try:
                self.assertTrue(asker.wait_for_right_answers(20), asker.refused)
                redis.call('SET "emblem_lock{tables.dlrm}" another-server')  # which fills, but never ends
                for part in (3, 7, 11):
                    redis.call(f'DEL "hps_et{{hps_et.dlrm.C1_emb/p{part}}}v"')
                redis.call('DEL "emblem_note{loaded.hps_et.dlrm.C2_emb}"')
                self.assertTrue(becomes_true(lambda: server.get("/v2/health/ready")[0] == 400))
                self.assertTrue(asker.wait_for_right_answers(20), asker.refused[-1:])
                lost = {"C1_emb": 3, "C2_emb": 16}  # seen one after the other
                self.assertTrue(becomes_true(lambda: self.lost_partitions(server) == lost), self.lost_partitions(server))
                redis.call('DEL "emblem_lock{tables.dlrm}"')
                self.assertTrue(becomes_true(lambda: server.get("/v2/health/ready")[0] == 200))
                self.assertEqual(self.lost_partitions(server), {})
                self.assertTrue(asker.wait_for_right_answers(20))
            finally:
                asker.stopping.set()
                asker.join()
            self.assertEqual(asker.wrong, [])
            if more:
                self.assertEqual(asker.refused, [])
            self.assertTrue(any("in 3 of 16 partitions (3, 7, 11)" in line for line in server.lines), server.lines)

    def lost_partitions(self, server):
        text = server.get("/metrics", server.metrics)[1].decode()
        found = re.findall(r'emblem_redis_partitions_lost{[^}]*table="(\w+)"} (\d+)', text)
        return {table: int(count) for table, count in found if count != "0"}

    def test_a_redis_that_hangs_is_asked_seldom_while_rows_on_disk_answer(self):
        """Requests do not wait for it one after the other: the first ones alone run into its timeout."""
        redis = Redis(self.folder / "hangs")
        self.addCleanup(redis.kill)
        more = {"persistent_db": {"type": "rocks_db", "path": str(self.folder / "hangs_rocksdb")}}
        server = serve_test.Server(self.repository, "--ps", self.ps_config("hangs", redis, more))
        self.addCleanup(server.stop)
        asker = Asker(self, server)
        asker.start()
        try:
            self.assertTrue(asker.wait_for_right_answers(20), asker.refused)
            redis.process.send_signal(signal.SIGSTOP)
            # More than could wait for it one after the other while a test may take.
            self.assertTrue(asker.wait_for_right_answers(300), asker.refused[-1:])
            redis.process.send_signal(signal.SIGCONT)
            self.assertTrue(asker.wait_for_right_answers(20))
        finally:
            redis.process.send_signal(signal.SIGCONT)
            asker.stopping.set()
            asker.join()
        self.assertEqual((asker.wrong, asker.refused), ([], []))

    def test_servers_with_copies_of_a_model_fill_redis_once(self):
        """Copies have other paths and times, as on different machines."""
        redis = Redis(self.folder / "shared")
        self.addCleanup(redis.kill)
        config = self.ps_config("shared", redis, {})
        written = []
        for copy in ("one", "two"):
            repository = self.folder / copy / "repository"
            shutil.copytree(self.repository, repository, copy_function=shutil.copyfile)
            server = serve_test.Server(repository, "--ps", config)
            self.addCleanup(server.stop)
            written.append(redis.calls("hset"))
            with triton_http.InferenceServerClient(server.http) as client:
                result = client.infer("dlrm", self.inputs(0, 16)).as_numpy("probability")[:, 0]
            np.testing.assert_array_equal(result, self.expected[:16])
        self.assertGreater(written[0], 0)
        self.assertEqual(written[1], written[0])

    def test_rows_on_disk_answer_while_redis_is_down(self):
        more = {"persistent_db": {"type": "rocks_db", "path": str(self.folder / "rocksdb")}}
        self.assertEqual(self.kill_and_start_redis("with_disk", more), [])

    def test_without_rows_on_disk_requests_are_refused_until_redis_is_back(self):
        refused = self.kill_and_start_redis("alone", {})
        self.assertNotEqual(refused, [])
        for message in refused:
            self.assertRegex(message, "(?i)503|unavailable|redis")

    def test_a_redis_that_forgot_its_rows_is_filled_again(self):
        self.assertNotEqual(self.kill_and_start_redis("forgetful", {}, keeps="no"), [])


if __name__ == "__main__":
    if shutil.which("redis-server") is None:
        print("skipped: needs redis-server")
        sys.exit(SKIPPED)
    unittest.main()
