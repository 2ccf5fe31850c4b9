"""Servers of exported models, and a client of them."""
from __future__ import annotations

import http.client
import json
import os
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from emblem._cuda import environment
from emblem._folder import TemporaryFolder
from emblem._runtime import LOG, PROGRAM, Error
from emblem._tensors import array_of, columns_of, parts_of, tensors_of
from emblem.model import Model

_KEPT_LINES = 50  # of the log
# Of src/serve/protocol/status.cc; a status that has no code there is one of HTTP's own.
_CODES = {400: "invalid_argument", 401: "unauthenticated", 403: "permission_denied", 404: "not_found", 499: "cancelled",
          500: "internal", 501: "unsupported", 503: "unavailable"}


class Server:
    """`emblem serve` as a child process; ends with `close()` or the `with` block."""

    def __init__(self, models: Union[str, os.PathLike], *, port: int = 0, options: Sequence[Any] = (),
                 program: Union[str, os.PathLike, None] = None, timeout: float = 60) -> None:
        program = str(program or PROGRAM)
        command = [program, "serve", "--models", str(models), "--http-port", str(port), "--grpc-port", "0",
                   "--metrics-port", "0", *map(str, options)]
        try:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                            env=environment())
        except OSError as error:
            raise Error(f"cannot start {program}: {error.strerror}", "unavailable") from None
        self.folder: Optional[TemporaryFolder] = None  # of models that go with the server
        self.lines: List[str] = []  # the last ones of the log
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
            del self.lines[:-_KEPT_LINES]
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


def serve(models: Union[str, os.PathLike, Model], *, name: str = "model", port: int = 0, options: Sequence[Any] = (),
          program: Union[str, os.PathLike, None] = None, timeout: float = 60) -> Server:
    """Serves a model repository (Model.export writes into one) until the `with` block ends; or a Model as `name`, as it is now,
    from a copy that goes with the server.

    with emblem.serve("models") as server:
        server.client().predict("ctr", {"user": ["a"], "price": [2.0]})
    """
    if not isinstance(models, Model):
        return Server(models, port=port, options=options, program=program, timeout=timeout)
    folder = TemporaryFolder()
    models.export(os.path.join(folder.name, name))
    server = Server(folder.name, port=port, options=options, program=program, timeout=timeout)
    server.folder = folder
    return server


class Client:
    """Asks a server by the KServe v2 protocol over HTTP. Threads may share it."""

    def __init__(self, url: str, *, token: str = "", timeout: float = 60) -> None:
        self.url, self.token, self.timeout = url.rstrip("/"), token, timeout
        self._inputs: Dict[Tuple[str, str], Dict[str, dict]] = {}

    def predict(self, model: str, rows: Any, *, version: str = "", outputs: Sequence[str] = (),
                parameters: Optional[Mapping[str, Any]] = None) -> Dict[str, np.ndarray]:
        """{output: array} of what the model gives for `rows`: a dict of columns, a DataFrame of pandas or Polars, an Arrow table.
        Their types, missing values and lists mean what they mean in Model.predict. Of frames and tables, columns that are no
        inputs of the model are not sent.

        outputs: names; by default those that the model lists. parameters: of the request, as {"top_k": 20, "filter": "new"}."""
        columns = columns_of(rows)
        inputs = self._inputs_of(model, version)
        if not isinstance(rows, Mapping):
            known = set(inputs).union(*(parts_of(one) for one in inputs.values()))
            columns = {name: values for name, values in columns.items() if name in known}
        tensors = tensors_of(columns, inputs)
        body: Dict[str, Any] = {"inputs": [{"name": one.name, "datatype": one.datatype, "shape": one.shape,
                                            "parameters": {"binary_data_size": len(one.data)}} for one in tensors],
                                "parameters": {**(parameters or {}), "binary_data_output": True}}
        if outputs:
            body["outputs"] = [{"name": name} for name in outputs]
        try:
            answer, data = self._ask(f"{_path_of(model, version)}/infer", body, b"".join(one.data for one in tensors))
        except Error:
            self._inputs.pop((model, version), None)  # another version may have others by now
            raise
        found, at = {}, 0
        for one in answer["outputs"]:
            size = one.get("parameters", {}).get("binary_data_size")
            found[one["name"]] = array_of(one, None if size is None else data[at:at + size])
            at += size or 0
        return found

    # What the model's metadata say of each input.
    def _inputs_of(self, model: str, version: str) -> Dict[str, dict]:
        if (model, version) not in self._inputs:
            described, _ = self._ask(_path_of(model, version))
            self._inputs[model, version] = {one["name"]: one for one in described["inputs"]}
        return self._inputs[model, version]

    def is_ready(self, model: str = "") -> bool:
        try:
            self._ask(f"{_path_of(model)}/ready" if model else "/v2/health/ready")
            return True
        except Error:
            return False

    def metadata(self, model: str) -> dict:
        return self._ask(_path_of(model))[0]

    # (the JSON of the answer, the bytes after it)
    def _ask(self, path: str, body: Optional[dict] = None, data: bytes = b"") -> Tuple[dict, bytes]:
        text = b"" if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, None if body is None else text + data,
                                         {"Content-Type": "application/octet-stream" if data else "application/json"})
        if data:
            request.add_header("Inference-Header-Content-Length", str(len(text)))
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as answer:
                received, size = answer.read(), answer.headers.get("Inference-Header-Content-Length")
        except urllib.error.HTTPError as error:
            raise Error(_message_of(error), _CODES.get(error.code) or (
                "invalid_argument" if error.code < 500 else "unavailable")) from None
        except (OSError, http.client.HTTPException) as error:
            raise Error(f"{self.url} does not answer: {getattr(error, 'reason', '') or error}", "unavailable") from None
        end = len(received) if size is None else int(size)
        return json.loads(received[:end]) if end else {}, received[end:]


def _path_of(model: str, version: str = "") -> str:
    path = "/v2/models/" + urllib.parse.quote(model, safe="")
    return f"{path}/versions/{urllib.parse.quote(version, safe='')}" if version else path


def _message_of(error: urllib.error.HTTPError) -> str:
    text = error.read().decode(errors="replace")
    try:
        return json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        return f"{error.code} {error.reason}"
