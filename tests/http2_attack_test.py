"""emblem serve under hostile HTTP/2: other clients get their answers all the while, and its memory stays as it is."""

import struct
import threading
import unittest
import pathlib
import shutil
import tempfile

import http2_attack as http2
from harness import Server

RESETS = 100_000
MOST_GROWTH = 64 << 20  # gRPC's own server took 2.9 GB for 300,000 resets


class Http2Attack(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        self.server = Server(self.folder)
        self.pid = self.server.process.pid
        self.assertIsNotNone(http2.is_live(self.server.grpc))
        self.before = http2.resident_bytes(self.pid)

    def tearDown(self):
        self.assertEqual(self.server.stop(), 0)
        shutil.rmtree(self.folder, ignore_errors=True)

    def attack(self, *attackers):
        """Runs the attackers at once; meanwhile another client must be answered, and memory must not grow."""
        threads = [threading.Thread(target=attacker) for attacker in attackers]
        for thread in threads:
            thread.start()
        most = 0
        while True:
            self.assertIsNotNone(http2.is_live(self.server.grpc), "no answer during the attack")
            most = max(most, http2.resident_bytes(self.pid))
            if not any(thread.is_alive() for thread in threads):
                break
        self.assertLess(most - self.before, MOST_GROWTH)

    def test_streams_that_are_reset_at_once(self):
        sent = []
        attacker = lambda: sent.append(http2.reset_streams(self.server.grpc, RESETS // 2))
        self.attack(attacker, attacker)
        self.assertEqual(sum(count for count, _ in sent), RESETS)
        self.assertGreater(sum(connections for _, connections in sent), 2, "abusive connections are closed")

    def flood(self, data, times):
        """Sends `data` on connections with a stream, a new one wherever the server closes one."""
        def run():
            left = times
            while left > 0:
                try:
                    connection = http2.Connection(self.server.grpc)
                    connection.send(http2.frame(http2.HEADERS, http2.END_HEADERS, 1, http2.request_headers(http2.INFER)))
                    while left > 0:
                        connection.send(data * 1000)
                        left -= 1000
                except OSError:
                    left -= 1000
                connection.close()
        return run

    def test_floods_of_frames_without_use(self):
        self.attack(self.flood(http2.frame(http2.PING, 0, 0, b"12345678"), 50_000),
                    self.flood(http2.frame(http2.SETTINGS, 0, 0, struct.pack(">HI", 4, 1)), 50_000))
        self.attack(self.flood(http2.frame(http2.DATA, 0, 1), 50_000),
                    self.flood(http2.frame(http2.WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)), 50_000))

    def test_headers_without_an_end(self):
        more = http2.frame(http2.CONTINUATION, 0, 3, http2.literal("x", "y" * 100))
        begin = http2.frame(http2.HEADERS, 0, 3, http2.request_headers(http2.INFER))
        self.attack(self.flood(begin + more * 100, 5_000))

    def test_half_sent_messages_hold_what_has_arrived(self):
        """40 clients announce 64 MB each and stall."""
        stalled = []
        half = struct.pack(">BI", 0, 64 << 20) + bytes(10_000)
        for _ in range(40):
            connection = http2.Connection(self.server.grpc)
            connection.send(http2.frame(http2.HEADERS, http2.END_HEADERS, 1, http2.request_headers(http2.INFER)) +
                            http2.frame(http2.DATA, 0, 1, half))
            self.assertEqual(connection_live(connection), b"\x08\x01")
            stalled.append(connection)
        self.assertLess(http2.resident_bytes(self.pid) - self.before, MOST_GROWTH)
        for connection in stalled:
            connection.close()


def connection_live(connection):
    connection.next_stream = 3
    return connection.call(http2.LIVE)


if __name__ == "__main__":
    unittest.main()
