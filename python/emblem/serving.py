"""Servers of exported models, and a client of them."""
from __future__ import annotations

import json
import os
import subprocess
import threading
import urllib.error
import urllib.request
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import numpy as np

from emblem._runtime import LOG, PROGRAM, Error

_DATATYPES = {"b": "BOOL", "i": "INT64", "u": "INT64", "f": "FP32"}


class Server:
    """`emblem serve` as a child process; ends with `close()` or the `with` block."""

    def __init__(self, models: Union[str, os.PathLike], *, port: int = 0, options: Sequence[Any] = (),
                 program: Union[str, os.PathLike, None] = None, timeout: float = 60) -> None:
        program = str(program or PROGRAM)
        command = [program, "serve", "--models", str(models), "--http-port", str(port), "--grpc-port", "0",
                   "--metrics-port", "0", *map(str, options)]
        try:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        except OSError as error:
            raise Error(f"cannot start {program}: {error.strerror}", "unavailable") from None
        self.lines: List[str] = []
        self._ready = threading.Event()
        self._threads = [threading.Thread(target=self._read_output, daemon=True),
                         threading.Thread(target=self._read_log, daemon=True)]
        for thread in self._threads:
            thread.start()
        if not self._ready.wait(timeout) or self.process.poll() is not None:
            self.close()
            reason = self.lines[-1] if self.lines else f"it was not ready after {timeout} s"
            raise Error(f"emblem serve did not start: {reason}", "unavailable")

    def _read_output(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            name, _, rest = line.strip().partition(" ")
            if name == "http":
                self.url = rest.strip()
            if name == "ready":
                self._ready.set()
        self._ready.set()  # it has ended

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.strip())
            LOG.info("server: %s", line.strip())

    def client(self, **options: Any) -> Client:
        return Client(self.url, **options)

    def close(self) -> None:
        """Ends it once requests in progress are answered."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for thread in self._threads:
            thread.join(10)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def serve(models: Union[str, os.PathLike], *, port: int = 0, options: Sequence[Any] = (),
          program: Union[str, os.PathLike, None] = None, timeout: float = 60) -> Server:
    """Serves a model repository (Model.export writes into one) until the `with` block ends.

    with emblem.serve("models") as server:
        server.client().predict("ctr", {"user": ["a"], "price": [2.0]})
    """
    return Server(models, port=port, options=options, program=program, timeout=timeout)


class Client:
    """Asks a server by the KServe v2 protocol over HTTP."""

    def __init__(self, url: str, *, token: str = "", timeout: float = 60) -> None:
        self.url, self.token, self.timeout = url.rstrip("/"), token, timeout
        self._known: Dict[str, Dict[str, int]] = {}

    def predict(self, model: str, columns: Mapping[str, Any], *, version: str = "") -> Dict[str, np.ndarray]:
        """columns: {name: values, one per row}. Returns {output: array}."""
        inputs = [_tensor(name, values, self._widths(model)) for name, values in columns.items()]
        path = f"/v2/models/{model}" + (f"/versions/{version}" if version else "") + "/infer"
        answer = self._ask(path, {"inputs": inputs})
        return {one["name"]: np.asarray(one["data"], np.float32).reshape(one["shape"]) for one in answer["outputs"]}

    # Dimensions of each input: a column of single values is sent as [rows, 1] where a matrix is expected.
    def _widths(self, model: str) -> Dict[str, int]:
        if model not in self._known:
            self._known[model] = {one["name"]: len(one["shape"]) for one in self.metadata(model)["inputs"]}
        return self._known[model]

    def is_ready(self, model: str = "") -> bool:
        try:
            self._ask(f"/v2/models/{model}/ready" if model else "/v2/health/ready")
            return True
        except Error:
            return False

    def metadata(self, model: str) -> dict:
        return self._ask(f"/v2/models/{model}")

    def _ask(self, path: str, body: Optional[dict] = None) -> dict:
        request = urllib.request.Request(self.url + path, None if body is None else json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise Error(_message_of(error), "invalid_argument" if error.code == 400 else "unavailable") from None
        except OSError as error:
            raise Error(f"{self.url} does not answer: {getattr(error, 'reason', error)}", "unavailable") from None
        return json.loads(text) if text else {}


def _message_of(error: urllib.error.HTTPError) -> str:
    text = error.read().decode(errors="replace")
    try:
        return json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        return f"{error.code} {error.reason}"


def _tensor(name: str, values: Any, widths: Mapping[str, int]) -> dict:
    array = np.asarray(values)
    if array.ndim == 1 and widths.get(name) == 2:
        array = array.reshape(-1, 1)
    if array.dtype.kind in "OUS":
        flat = [value.decode() if isinstance(value, bytes) else str(value) for value in array.reshape(-1).tolist()]
        return {"name": name, "shape": list(array.shape), "datatype": "BYTES", "data": flat}
    if array.dtype.kind not in _DATATYPES:
        raise Error(f"input {name!r} is of type {array.dtype}; expected numbers, bools or text", "invalid_argument")
    datatype = "FP64" if array.dtype == np.float64 else _DATATYPES[array.dtype.kind]
    return {"name": name, "shape": list(array.shape), "datatype": datatype, "data": array.reshape(-1).tolist()}
