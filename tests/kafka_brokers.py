"""Kafka brokers for tests: librdkafka's mock cluster, in a process of its own."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from harness import EMBLEM, SKIPPED

MOCK = pathlib.Path(EMBLEM).parent / "kafka_mock"
if not MOCK.exists():
    print(f"skipped: needs {MOCK}")
    sys.exit(SKIPPED)


class Brokers:
    def __init__(self, folder):
        self.folder = folder
        self.process = subprocess.Popen([MOCK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        assert self.address, "kafka_mock did not start"

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        assert answer == "done", answer

    def send(self, topic, lines, partition=0, per_message=1):
        path = self.folder / "messages"
        path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
        self.ask("send", topic, partition, path, per_message)

    def stop(self):
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


class KafkaTest(unittest.TestCase):
    """A temporary folder and brokers, made once per class."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        cls.brokers = Brokers(cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.brokers.stop()
        shutil.rmtree(cls.folder, ignore_errors=True)
