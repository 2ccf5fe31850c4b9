"""Train, export and serve a model; send requests with tritonclient over HTTP and gRPC, with curl, and as perf_analyzer
does."""

import asyncio
import gzip
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import unittest

from harness import EmblemTest, Server, becomes_true, run, use_test_clients

use_test_clients("tritonclient")
import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
import tritonclient.http.aio as triton_aio
import tritonclient.utils.shared_memory as triton_shm

MISSING = np.iinfo(np.int64).min


def read_tsv(path):
    """Labels, numerical [rows, 13] and categorical [rows, 26] features, with NaN and MISSING."""
    labels, numbers, ids = [], [], []
    for line in path.read_text().splitlines():
        fields = line.split("\t")
        labels.append(float(fields[0]))
        numbers.append([float(f) if f else np.nan for f in fields[1:14]])
        ids.append([int(f, 16) if f else MISSING for f in fields[14:40]])
    return np.array(labels), np.array(numbers, np.float32), np.array(ids, np.int64)


def exact_auc(labels, scores):
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(scores))
    sorted_scores = scores[order]
    start = 0
    for end in range(1, len(scores) + 1):
        if end == len(scores) or sorted_scores[end] != sorted_scores[start]:
            ranks[order[start:end]] = (start + end + 1) / 2
            start = end
    positive = labels > 0
    p, n = positive.sum(), (~positive).sum()
    return (ranks[positive].sum() - p * (p + 1) / 2) / (p * n)


class Serve(EmblemTest):
    rows = 20000

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model, cls.repository = cls.folder / "model", cls.folder / "repository"
        trained = run("train", "--config", cls.config)
        assert trained.returncode == 0, trained.stderr
        exported = run("export", "--checkpoint", cls.model, "--out", cls.repository / "dlrm")
        assert exported.returncode == 0, exported.stderr
        cls.labels, cls.numbers, cls.ids = read_tsv(next((cls.data / "test").glob("*")))
        out = cls.folder / "predictions.csv"
        assert run("predict", "--checkpoint", cls.model, "--input", cls.data / "test", "--out", out).returncode == 0
        cls.expected = np.array([float(line) for line in out.read_text().splitlines()[1:]]).astype(np.float32)
        cls.server = Server(cls.repository, "--model-control-mode", "explicit", "--load-model", "dlrm",
                            "--allow-shared-memory")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        super().tearDownClass()

    def inputs(self, client, begin, end, **binary):
        made = [client.InferInput("categorical_features", [end - begin, 26], "INT64"),
                client.InferInput("numerical_features", [end - begin, 13], "FP32")]
        made[0].set_data_from_numpy(self.ids[begin:end], **binary)
        made[1].set_data_from_numpy(self.numbers[begin:end], **binary)
        return made

    def same(self, result, begin, end):
        np.testing.assert_array_equal(result.as_numpy("probability")[:, 0], self.expected[begin:end])

    def test_http_answers_are_the_predictions_bit_for_bit(self):
        with triton_http.InferenceServerClient(self.server.http) as client:
            for begin, end in ((0, 1), (1, 3), (10, 74), (100, 1124), (0, 5000)):
                self.same(client.infer("dlrm", self.inputs(triton_http, begin, end)), begin, end)

    def test_the_auc_of_the_evaluation_is_reproduced(self):
        with triton_http.InferenceServerClient(self.server.http) as client:
            scores = np.concatenate([client.infer("dlrm", self.inputs(triton_http, b, b + 500)).as_numpy("probability")
                                     for b in range(0, 5000, 500)])[:, 0]
        out = self.folder / "eval.json"
        self.succeed(run("eval", "--checkpoint", self.model, "--json", out))
        self.assertAlmostEqual(exact_auc(self.labels, scores), json.loads(out.read_text())["auc"], places=9)

    def test_json_and_compressed_requests(self):
        rows = np.isfinite(self.numbers).all(axis=1) & (self.ids != MISSING).all(axis=1)
        row = int(np.flatnonzero(rows)[0])
        with triton_http.InferenceServerClient(self.server.http) as client:
            outputs = [triton_http.InferRequestedOutput("probability", binary_data=False)]
            result = client.infer("dlrm", self.inputs(triton_http, row, row + 1, binary_data=False), outputs=outputs)
            self.same(result, row, row + 1)
            for algorithm in ("gzip", "deflate"):
                result = client.infer("dlrm", self.inputs(triton_http, 0, 64), request_compression_algorithm=algorithm,
                                      response_compression_algorithm=algorithm)
                self.same(result, 0, 64)

    def test_parameters_of_requests_are_known_or_refused(self):
        for module, address in ((triton_http, self.server.http), (triton_grpc, self.server.grpc)):
            with module.InferenceServerClient(address) as client:
                inputs = self.inputs(module, 0, 2)
                outputs = [module.InferRequestedOutput("probability")]
                self.same(client.infer("dlrm", inputs, outputs=outputs, priority=1, timeout=60_000_000, request_id="x"), 0, 2)
                self.same(client.infer("dlrm", inputs, parameters={"content_type": "np"}), 0, 2)
                for name, hint in (("top-k", 'did you mean "top_k"'), ("excldue", "known: priority, timeout, top_k")):
                    with self.assertRaisesRegex(module.InferenceServerException, f'"{name}" of the request is unknown.*{hint}'):
                        client.infer("dlrm", inputs, parameters={name: 3})
                with self.assertRaisesRegex(module.InferenceServerException, "finds no items"):
                    client.infer("dlrm", inputs, parameters={"top_k": 3})
                with self.assertRaisesRegex(module.InferenceServerException, "sequence_id is set"):
                    client.infer("dlrm", inputs, sequence_id=7)
        with triton_http.InferenceServerClient(self.server.http) as client:
            with self.assertRaisesRegex(triton_http.InferenceServerException, "\"top_k\" of the query is unknown"):
                client.infer("dlrm", self.inputs(triton_http, 0, 2), query_params={"top_k": 3})

    def test_asynchronous_http(self):
        with triton_http.InferenceServerClient(self.server.http, concurrency=8) as client:
            waiting = [client.async_infer("dlrm", self.inputs(triton_http, b, b + 10)) for b in range(0, 400, 10)]
            for begin, one in zip(range(0, 400, 10), waiting):
                self.same(one.get_result(), begin, begin + 10)

    def test_the_asyncio_client_reads_every_answer(self):
        """It sends Accept-Encoding with every call, and decompresses the results of inference alone."""
        async def calls():
            async with triton_aio.InferenceServerClient(self.server.http) as client:
                config = await client.get_model_config("dlrm")
                self.assertGreater(len(json.dumps(config)), 1024)
                self.assertEqual(config["name"], "dlrm")
                self.assertEqual((await client.get_model_metadata("dlrm"))["name"], "dlrm")
                self.assertIn("model_stats", await client.get_inference_statistics("dlrm"))
                self.assertEqual((await client.get_model_repository_index())[0]["name"], "dlrm")
                self.assertTrue(await client.is_server_live() and await client.is_server_ready())
                outputs = [triton_http.InferRequestedOutput("probability", binary_data=False)]
                self.same(await client.infer("dlrm", self.inputs(triton_http, 0, 600), outputs=outputs), 0, 600)
                with self.assertRaisesRegex(triton_http.InferenceServerException, "not_a_model"):
                    await client.get_model_metadata("not_a_model" + "x" * 2000)
        asyncio.run(calls())

    def test_a_client_that_closes_its_sending_side_gets_its_answer(self):
        """As nc -N and old HTTP/1.0 tools do."""
        request = json.dumps({"inputs": [{"name": "categorical_features", "shape": [1, 26], "datatype": "INT64",
                                          "data": [1] * 26},
                                         {"name": "numerical_features", "shape": [1, 13], "datatype": "FP32",
                                          "data": [1] * 13}]}).encode()
        head = "POST /v2/models/dlrm/infer HTTP/{}\r\nHost: x\r\nContent-Length: {}\r\n\r\n"
        host, port = self.server.http.split(":")
        for version in ("1.1", "1.0"):
            with socket.create_connection((host, int(port)), timeout=60) as client:
                client.sendall(head.format(version, len(request)).encode() + request)
                client.shutdown(socket.SHUT_WR)
                answer = b"".join(iter(lambda: client.recv(65536), b""))
            self.assertTrue(answer.startswith(b"HTTP/1.1 200 "), answer)
            self.assertIn(b'"probability"', answer)

    def test_a_port_for_health_checks(self):
        server = Server(self.repository, "--health-port", "0")
        try:
            for address in (server.health, server.http):
                # The statuses of Triton, the JSON of KServe.
                self.assertEqual(server.get("/v2/health/live", address), (200, b'{"live":true}'))
                self.assertEqual(server.get("/v2/health/ready", address), (200, b'{"ready":true}'))
            self.assertEqual(server.get("/v2", server.health)[0], 404)
        finally:
            server.stop()

    def test_classification_ids_and_versions(self):
        with triton_http.InferenceServerClient(self.server.http) as client:
            outputs = [triton_http.InferRequestedOutput("probability", class_count=1)]
            result = client.infer("dlrm", self.inputs(triton_http, 0, 2), outputs=outputs, request_id="seven",
                                  model_version="1")
            self.assertEqual(result.get_response()["id"], "seven")
            text = result.as_numpy("probability").reshape(-1)[0].decode()
            self.assertRegex(text, r"^0\.\d+:0$")
            with self.assertRaisesRegex(Exception, "version 9"):
                client.infer("dlrm", self.inputs(triton_http, 0, 1), model_version="9")

    def test_grpc_answers_are_the_same(self):
        with triton_grpc.InferenceServerClient(self.server.grpc) as client:
            self.assertTrue(client.is_server_live() and client.is_server_ready() and client.is_model_ready("dlrm"))
            for begin, end in ((0, 1), (5, 1029)):
                self.same(client.infer("dlrm", self.inputs(triton_grpc, begin, end)), begin, end)
            answers, done = {}, threading.Semaphore(0)

            def take(begin):
                def callback(result, error):
                    answers[begin] = (result, error)
                    done.release()
                return callback

            for begin in range(0, 200, 10):
                client.async_infer("dlrm", self.inputs(triton_grpc, begin, begin + 10), take(begin))
            for _ in range(20):
                self.assertTrue(done.acquire(timeout=30))
            for begin, (result, error) in answers.items():
                self.assertIsNone(error)
                self.same(result, begin, begin + 10)

    def test_grpc_streams(self):
        with triton_grpc.InferenceServerClient(self.server.grpc) as client:
            results, done = [], threading.Semaphore(0)

            def callback(result, error):
                results.append((result, error))
                done.release()

            client.start_stream(callback)
            for begin in range(0, 100, 10):
                client.async_stream_infer("dlrm", self.inputs(triton_grpc, begin, begin + 10), request_id=str(begin))
            for _ in range(10):
                self.assertTrue(done.acquire(timeout=30))
            client.stop_stream()
            for result, error in results:
                self.assertIsNone(error)
                begin = int(result.get_response().id)
                self.same(result, begin, begin + 10)

    def test_shared_memory_both_ways(self):
        for module, address in ((triton_http, self.server.http), (triton_grpc, self.server.grpc)):
            with self.subTest(module.__name__), module.InferenceServerClient(address) as client:
                client.unregister_system_shared_memory()
                ids, numbers = self.ids[:32], self.numbers[:32]
                size = ids.nbytes + numbers.nbytes
                key = f"/emblem-test-{os.getpid()}"
                region_in = triton_shm.create_shared_memory_region("in", key + "-in", size)
                region_out = triton_shm.create_shared_memory_region("out", key + "-out", 128)
                try:
                    triton_shm.set_shared_memory_region(region_in, [ids, numbers])
                    client.register_system_shared_memory("in", key + "-in", size)
                    client.register_system_shared_memory("out", key + "-out", 128)
                    inputs = [module.InferInput("categorical_features", [32, 26], "INT64"),
                              module.InferInput("numerical_features", [32, 13], "FP32")]
                    inputs[0].set_shared_memory("in", ids.nbytes)
                    inputs[1].set_shared_memory("in", numbers.nbytes, offset=ids.nbytes)
                    output = module.InferRequestedOutput("probability")
                    output.set_shared_memory("out", 128)
                    client.infer("dlrm", inputs, outputs=[output])
                    found = triton_shm.get_contents_as_numpy(region_out, np.float32, [32])
                    np.testing.assert_array_equal(found, self.expected[:32])
                    self.assertEqual(len(client.get_system_shared_memory_status() if module is triton_http else
                                         client.get_system_shared_memory_status().regions), 2)
                    client.unregister_system_shared_memory()
                finally:
                    triton_shm.destroy_shared_memory_region(region_in)
                    triton_shm.destroy_shared_memory_region(region_out)

    def test_what_the_server_says_of_itself(self):
        with triton_http.InferenceServerClient(self.server.http) as client:
            self.assertTrue(client.is_server_live() and client.is_server_ready())
            metadata = client.get_model_metadata("dlrm")
            self.assertEqual([i["name"] for i in metadata["inputs"]], ["categorical_features", "numerical_features"])
            config = client.get_model_config("dlrm")
            self.assertEqual(config["max_batch_size"], 65536)
            self.assertIn("statistics", client.get_server_metadata()["extensions"])
            before = client.get_inference_statistics("dlrm")["model_stats"][0]
            client.infer("dlrm", self.inputs(triton_http, 0, 7))
            after = client.get_inference_statistics("dlrm")["model_stats"][0]
            self.assertEqual(after["inference_count"] - before["inference_count"], 7)
            for part in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
                self.assertEqual(after["inference_stats"][part]["count"] - before["inference_stats"][part]["count"], 1)
            self.assertGreater(after["inference_stats"]["compute_infer"]["ns"], 0)
        status, text = self.server.get("/metrics", self.server.metrics)
        self.assertEqual(status, 200)
        self.assertRegex(text.decode(), r'nv_inference_request_success\{.*model="dlrm".*\} [1-9]')
        status, page = self.server.get("/")
        self.assertEqual(status, 200)
        self.assertIn(b"<html", page[:200].lower())

    def test_the_calls_of_perf_analyzer(self):
        """perf_analyzer -m dlrm --input-data 1.json --shape categorical_features:1,26 --shape numerical_features:1,13:
        the requests it makes, in its order and form (its package on PyPI holds no program)."""
        connection = http.client.HTTPConnection(self.server.http, timeout=30)

        def call(method, path, body=None, headers=None):
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            data = response.read()
            self.assertEqual(response.status, 200, data)
            return response, data

        metadata = json.loads(call("GET", "/v2/models/dlrm")[1])
        config = json.loads(call("GET", "/v2/models/dlrm/config")[1])
        names = {tensor["name"] for tensor in metadata["inputs"] + metadata["outputs"]}
        self.assertLessEqual({tensor["name"] for tensor in config["input"] + config["output"]}, names)
        self.assertIsInstance(json.loads(call("GET", "/v2")[1])["extensions"], list)
        statistics = [json.loads(call("GET", "/v2/models/dlrm/stats")[1])["model_stats"][0]]
        request = json.dumps({
            "id": "0",
            "inputs": [{"name": "categorical_features", "shape": [1, 26], "datatype": "INT64",
                        "parameters": {"binary_data_size": 208}},
                       {"name": "numerical_features", "shape": [1, 13], "datatype": "FP32",
                        "parameters": {"binary_data_size": 52}}],
            "outputs": [{"name": "probability", "parameters": {"binary_data": True}}]}).encode()
        body = request + self.ids[:1].tobytes() + self.numbers[:1].tobytes()
        for _ in range(50):
            response, data = call("POST", "/v2/models/dlrm/infer", body,
                                  {"Inference-Header-Content-Length": str(len(request)),
                                   "Content-Type": "application/octet-stream"})
            head = int(response.headers["Inference-Header-Content-Length"])
            answer = json.loads(data[:head])
            self.assertEqual(answer["outputs"][0]["parameters"]["binary_data_size"], 4)
            self.assertEqual(np.frombuffer(data[head:], np.float32)[0], self.expected[0])
        statistics.append(json.loads(call("GET", "/v2/models/dlrm/stats")[1])["model_stats"][0])
        int(statistics[0]["version"])
        for name in ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit",
                     "cache_miss"):
            for one in statistics:
                self.assertGreaterEqual(one["inference_stats"][name]["count"], 0)
                self.assertGreaterEqual(one["inference_stats"][name]["ns"], 0)
        counts = {name: statistics[1]["inference_stats"][name]["count"] - statistics[0]["inference_stats"][name]["count"]
                  for name in ("queue", "compute_input", "compute_infer", "compute_output")}
        self.assertGreaterEqual(counts["queue"], 50)
        self.assertEqual(len(set(counts.values())), 1)
        connection.close()

    def test_curl(self):
        if not shutil.which("curl"):
            self.skipTest("needs curl")
        row = json.dumps({"inputs": [
            {"name": "categorical_features", "datatype": "INT64", "shape": [1, 26], "data": [self.ids[0].tolist()]},
            {"name": "numerical_features", "datatype": "FP32", "shape": [1, 13],
             "data": np.nan_to_num(self.numbers[:1]).tolist()}]})
        done = subprocess.run(["curl", "-sS", "-X", "POST", "-d", row, f"http://{self.server.http}/v2/models/dlrm/infer"],
                              capture_output=True, text=True, check=True)
        self.assertEqual(json.loads(done.stdout)["outputs"][0]["shape"], [1, 1])
        compressed = gzip.compress(row.encode())
        done = subprocess.run(["curl", "-sS", "--compressed", "-H", "Content-Encoding: gzip", "--data-binary", "@-",
                               f"http://{self.server.http}/v2/models/dlrm/infer"], input=compressed,
                              capture_output=True, check=True)
        self.assertEqual(json.loads(done.stdout)["outputs"][0]["shape"], [1, 1])

    def test_infinite_numbers_in_json_are_missing_values(self):
        def answer(number):
            body = json.dumps({"inputs": [
                {"name": "categorical_features", "datatype": "INT64", "shape": [1, 26], "data": [self.ids[0].tolist()]},
                {"name": "numerical_features", "datatype": "FP32", "shape": [1, 13], "data": [[number] * 13]}]})
            connection = http.client.HTTPConnection(self.server.http, timeout=30)
            connection.request("POST", "/v2/models/dlrm/infer", body)
            found = json.loads(connection.getresponse().read())
            connection.close()
            return found["outputs"][0]["data"]
        missing = answer(float("nan"))
        self.assertNotEqual(missing, answer(5.0))
        for number in (float("inf"), float("-inf")):
            self.assertEqual(answer(number), missing)

    def test_bad_requests_get_their_status(self):
        def status(method, path, body=None):
            connection = http.client.HTTPConnection(self.server.http, timeout=30)
            connection.request(method, path, body)
            response = connection.getresponse()
            text = response.read()
            connection.close()
            self.assertIn("error", json.loads(text))
            return response.status
        self.assertEqual(status("POST", "/v2/models/nothing/infer", "{}"), 404)
        self.assertEqual(status("POST", "/v2/models/nothing/infer", '{"inputs":[]}'), 404)
        self.assertEqual(status("POST", "/v2/models/dlrm/infer", "{"), 400)
        self.assertEqual(status("POST", "/v2/models/dlrm/infer", '{"inputs":[]}'), 400)
        self.assertEqual(status("GET", "/v2/models/..%2f..%2fetc"), 400)
        self.assertEqual(status("GET", "/v2/nothing"), 404)

    def test_models_come_and_go_under_load(self):
        repository = self.folder / "changing"
        shutil.copytree(self.repository, repository)
        server = Server(repository, "--model-control-mode", "explicit", "--load-model", "dlrm")
        stop, failures, answers = threading.Event(), [], [0]

        def ask():
            with triton_http.InferenceServerClient(server.http) as client:
                while not stop.is_set():
                    try:
                        self.same(client.infer("dlrm", self.inputs(triton_http, 0, 8)), 0, 8)
                        answers[0] += 1
                    except Exception as error:  # any error is a failed request
                        failures.append(error)
                        return

        clients = [threading.Thread(target=ask) for _ in range(3)]
        try:
            for client in clients:
                client.start()
            with triton_grpc.InferenceServerClient(server.grpc) as control:
                for version in range(2, 6):
                    self.succeed(run("export", "--checkpoint", self.model, "--out", repository / "dlrm"))
                    control.load_model("dlrm")
                    self.assertEqual(list(control.get_model_metadata("dlrm").versions), [str(version)])
            stop.set()
            for client in clients:
                client.join()
            self.assertEqual(failures, [])
            self.assertGreater(answers[0], 10)
            with triton_http.InferenceServerClient(server.http) as control:
                control.unload_model("dlrm")
                self.assertFalse(control.is_model_ready("dlrm"))
                index = control.get_model_repository_index()
                self.assertEqual(index[0]["state"], "UNAVAILABLE")
        finally:
            stop.set()
            self.assertEqual(server.stop(), 0)

    def test_a_server_that_is_told_to_stop_finishes_its_requests(self):
        server = Server(self.repository)
        results = []

        def ask():
            with triton_http.InferenceServerClient(server.http, network_timeout=60) as client:
                results.append(client.infer("dlrm", self.inputs(triton_http, 0, 5000)))

        def has_the_request():
            stats = json.loads(server.get("/v2/models/dlrm/stats")[1])["model_stats"][0]["inference_stats"]
            pending = re.search(rb"nv_inference_pending_request_count{[^}]*} (\d+)",
                                server.get("/metrics", server.metrics)[1])
            return stats["success"]["count"] + stats["fail"]["count"] + int(pending.group(1) if pending else 0) > 0

        thread = threading.Thread(target=ask)
        thread.start()
        self.assertTrue(becomes_true(has_the_request))
        self.assertEqual(server.stop(), 0)
        thread.join()
        # Either it was taken before the end and is right, or it never began.
        for result in results:
            self.same(result, 0, 5000)

    def test_a_load_that_never_ends_does_not_keep_the_server_from_ending(self):
        repository = self.folder / "endless"
        shutil.copytree(self.repository, repository)
        pipe = repository / "dlrm/1/manifest.json"
        pipe.unlink()
        os.mkfifo(pipe)
        writers = []

        def is_read():
            try:
                writers.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))  # and never written to
            except OSError:  # no server reads it yet
                return False
            return True

        server = Server(repository, "--model-control-mode", "explicit", "--exit-timeout-secs", "0")
        client = http.client.HTTPConnection(server.http)
        client.request("POST", "/v2/repository/models/dlrm/load")
        self.assertTrue(becomes_true(is_read))
        self.assertEqual(server.stop(), 1)
        self.assertIn("emblem: requests or loads in progress have not ended; the server ends without them\n", server.lines)
        client.close()
        os.close(writers[0])

    def test_bad_usage_is_one_clear_line(self):
        self.fail_with(run("serve", "--models", self.folder / "nowhere"), "there is no model repository", "nowhere")
        self.fail_with(run("export", "--checkpoint", self.folder / "data", "--out", self.folder / "x"),
                       "is not an emblem checkpoint")
        self.fail_with(run("export", "--checkpoint", self.model, "--out", self.repository / "bad name"),
                       "is not a valid model name")
        self.fail_with(run("export", "--checkpoint", self.model, "--out", self.repository / "dlrm", "--version", "1"),
                       "exists already")
        port = self.server.http.split(":")[1]
        self.fail_with(run("serve", "--models", self.repository, "--address", "127.0.0.1", "--http-port", port,
                           "--grpc-port", "0", "--metrics-port", "0", timeout=60), port)


if __name__ == "__main__":
    unittest.main()
