"""Who may use a server: its defaults, tokens, restricted APIs, client certificates and model control, with real clients."""

import json
import os
import shutil
import subprocess
import unittest

from harness import EMBLEM, EmblemTest, Server, becomes_true, run, use_test_clients

use_test_clients("tritonclient")
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException


class Access(EmblemTest):
    rows = 2000

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.repository = cls.make_served("dlrm")

    def server(self, *options, repository=None):
        server = Server(repository or self.repository, *options)
        self.addCleanup(lambda: self.assertEqual(server.stop(), 0))
        return server

    def clients(self, server):
        for module, address in ((triton_http, server.http), (triton_grpc, server.grpc)):
            with self.subTest(protocol=module.__name__), module.InferenceServerClient(address) as client:
                yield client

    def test_a_server_without_a_token_listens_on_loopback_and_says_what_is_closed(self):
        for environment, address, said in (({}, "127.0.0.1", "this machine only"),
                                           ({"EMBLEM_TOKEN": "abc"}, "0.0.0.0", "with the token")):
            process = subprocess.Popen([EMBLEM, "serve", "--models", str(self.repository), "--http-port", "0", "--grpc-port",
                                        "0", "--metrics-port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                       text=True, env={**os.environ, **environment})
            lines = []
            for line in process.stdout:
                lines.append(line)
                if line == "ready\n":
                    break
            process.terminate()
            process.communicate()
            text = "".join(lines)
            self.assertIn(f"http://{address}:", text)
            self.assertIn(said, text)
            self.assertIn("model control: off (--model-control-mode explicit)", text)
            self.assertIn("shared memory: off (--allow-shared-memory)", text)

    def test_models_are_not_controlled_and_memory_not_shared_by_default(self):
        server = self.server()
        for client in self.clients(server):
            for action in (lambda: client.load_model("dlrm"), lambda: client.unload_model("dlrm")):
                with self.assertRaisesRegex(InferenceServerException, "explicit model load / unload is not allowed"):
                    action()
            self.assertTrue(client.is_model_ready("dlrm"))
            with self.assertRaisesRegex(InferenceServerException, "--allow-shared-memory"):
                client.register_system_shared_memory("r", "/nothing", 8)

    def test_the_control_token_opens_what_the_inference_token_does_not(self):
        server = self.server("--token", "abc", "--control-token", "xyz", "--model-control-mode", "explicit",
                             "--load-model", "dlrm")
        as_user, as_owner = ({"authorization": f"Bearer {token}"} for token in ("abc", "xyz"))
        for client in self.clients(server):
            self.assertTrue(client.is_server_ready())
            with self.assertRaises(InferenceServerException):
                client.get_server_metadata()
            client.get_server_metadata(headers=as_user)
            client.get_inference_statistics(headers=as_user)
            for act in (client.load_model, client.unload_model):
                with self.assertRaises(InferenceServerException):
                    act("dlrm")
                with self.assertRaisesRegex(InferenceServerException, "does not open model-repository"):
                    act("dlrm", headers=as_user)
            client.load_model("dlrm", headers=as_owner)
        self.assertEqual(server.get("/metrics", server.metrics)[0], 401)

    def test_restricted_apis_need_their_header(self):
        server = self.server("--restricted-api", "model-repository,metrics=admin-key=s3cret", "--grpc-restricted-protocol",
                             "statistics:user-key=1")
        for client, key in zip(self.clients(server), ("{}", "triton-grpc-protocol-{}")):
            with self.assertRaisesRegex(InferenceServerException, "restricted"):
                client.get_model_repository_index()
            client.get_model_repository_index(headers={key.format("admin-key"): "s3cret"})
            with self.assertRaisesRegex(InferenceServerException, "restricted"):
                client.get_inference_statistics(headers={key.format("admin-key"): "s3cret"})
            client.get_inference_statistics(headers={key.format("user-key"): "1"})
            client.get_server_metadata()
        self.assertEqual(server.get("/metrics", server.metrics)[0], 403)

    def test_a_configuration_cannot_ask_for_thousands_of_threads(self):
        server = self.server("--model-control-mode", "explicit", "--load-model", "dlrm")
        config = json.dumps({"max_batch_size": 8, "instance_group": [{"count": 56, "kind": "KIND_CPU"}],
                             "parameters": {"threads": {"string_value": "45"}}})
        before = len(os.listdir(f"/proc/{server.process.pid}/task"))
        for client in self.clients(server):
            with self.assertRaisesRegex(InferenceServerException, "asks for 2576 engine threads.*--max-client-threads"):
                client.load_model("dlrm", config=config)
            self.assertTrue(client.is_model_ready("dlrm"))
        self.assertLess(len(os.listdir(f"/proc/{server.process.pid}/task")), before + 50)

    def test_clients_send_the_files_of_a_model(self):
        server = self.server("--model-control-mode", "explicit", "--max-request-size", "256MiB")
        version = self.repository / "dlrm/1"
        files = {f"file:7/{path.relative_to(version)}": path.read_bytes() for path in version.rglob("*") if path.is_file()}
        for client in self.clients(server):
            with self.assertRaisesRegex(InferenceServerException, "'config'"):
                client.load_model("sent", files=files)
            with self.assertRaisesRegex(InferenceServerException, "expected VERSION/FILE"):
                client.load_model("sent", config="{}", files={"file:../x": b"1"})
            client.load_model("sent", config='{"max_batch_size": 16}', files=files)
            self.assertTrue(client.is_model_ready("sent", "7"))
            client.unload_model("sent")
            self.assertFalse(client.is_model_ready("sent"))

    def test_a_broken_version_is_explained_while_the_old_one_answers(self):
        repository = self.folder / "breaking"
        shutil.copytree(self.repository, repository)
        server = self.server("--model-control-mode", "poll", "--repository-poll-secs", "0.05", repository=repository)
        broken = self.folder / "broken"  # appears in one step, so that it has one problem only
        shutil.copytree(repository / "dlrm/1", broken)
        (broken / "dense.safetensors").write_bytes(b"nothing")
        broken.rename(repository / "dlrm/2")
        for client in self.clients(server):
            def index():
                entries = client.get_model_repository_index()
                entries = entries if isinstance(entries, list) else [
                    {"version": m.version, "state": m.state, "reason": m.reason} for m in entries.models]
                return {e["version"]: e for e in entries}
            self.assertTrue(becomes_true(lambda: index().get("2", {}).get("state") == "UNAVAILABLE"))
            self.assertEqual(index()["1"]["state"], "READY")
            self.assertIn("dense.safetensors", index()["2"]["reason"])
        status = json.loads(server.get("/status.json")[1])
        self.assertIn("dense.safetensors", [m for m in status["models"] if m["version"] == "2"][0]["reason"])
        logged = sum("version 2 cannot be loaded" in line for line in server.lines)
        self.assertEqual(logged, 1, server.lines)

    def test_a_server_without_models_is_not_ready(self):
        empty = self.folder / "empty"
        empty.mkdir()
        server = self.server(repository=empty)
        self.assertIn("none in", "".join(server.lines))
        self.assertEqual(server.get("/v2/health/ready")[0], 400)
        self.assertEqual(server.get("/v2/health/live")[0], 200)
        self.assertEqual(self.server("--strict-readiness=false", repository=empty).get("/v2/health/ready")[0], 200)

    def test_trace_and_log_settings(self):
        traces = self.folder / "traces.json"
        server = self.server("--trace-file", traces, "--trace-config", "rate=1")
        with triton_http.InferenceServerClient(server.http) as http, triton_grpc.InferenceServerClient(server.grpc) as grpc:
            self.assertEqual(http.get_trace_settings()["trace_level"], ["OFF"])
            self.assertEqual(http.update_trace_settings(settings={"trace_level": ["TIMESTAMPS"]})["trace_level"],
                             ["TIMESTAMPS"])
            self.assertEqual(grpc.get_trace_settings("dlrm", as_json=True)["settings"]["trace_file"]["value"],
                             [str(traces)])
            with self.assertRaisesRegex(InferenceServerException, "trace file location can not be updated"):
                grpc.update_trace_settings(settings={"trace_file": "/tmp/x"})
            self.assertFalse(http.update_log_settings({"log_info": False})["log_info"])
            self.assertFalse(grpc.get_log_settings().settings["log_info"].bool_param)
            self.assertEqual(grpc.update_log_settings({"log_verbose_level": 1}).settings["log_verbose_level"].uint32_param, 1)
            with self.assertRaisesRegex(InferenceServerException, "log file location can not be updated"):
                http.update_log_settings({"log_file": "/tmp/x"})
            sent = run("bench", "serve", "--url", server.http, "--model", "dlrm", "--batch", "4", "--concurrency", "1",
                       "--requests", "20", "--warmup", "0")
            self.succeed(sent)
        names = [stamp["name"] for part in json.loads(traces.read_text()) for stamp in part.get("timestamps", [])]
        for name in ("REQUEST_START", "QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START",
                     "COMPUTE_END", "REQUEST_END"):
            self.assertGreaterEqual(names.count(name), 20, name)

    def test_clients_need_a_certificate_if_the_server_has_an_authority(self):
        for name in ("server", "client"):
            self.assertEqual(subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
                 "-keyout", self.folder / f"{name}.key", "-out", self.folder / f"{name}.crt", "-subj", "/CN=localhost",
                 "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], capture_output=True).returncode, 0)
        server = self.server("--tls-certificate", self.folder / "server.crt", "--tls-key", self.folder / "server.key",
                             "--tls-client-ca", self.folder / "client.crt")
        curl = ["curl", "-s", "--max-time", "60", "--cacert", self.folder / "server.crt"]
        certificate = ["--cert", self.folder / "client.crt", "--key", self.folder / "client.key"]
        for port, path in ((server.http, "/v2/health/live"), (server.metrics, "/metrics")):
            url = f"https://localhost:{port.split(':')[1]}{path}"
            self.assertNotEqual(subprocess.run([*curl, url], capture_output=True).returncode, 0)
            self.assertEqual(subprocess.run([*curl, *certificate, url], capture_output=True).returncode, 0)
        files = {"root_certificates": self.folder / "server.crt", "private_key": self.folder / "client.key",
                 "certificate_chain": self.folder / "client.crt"}
        address = f"localhost:{server.grpc.split(':')[1]}"
        with triton_grpc.InferenceServerClient(address, ssl=True, **{k: str(v) for k, v in files.items()}) as client:
            self.assertTrue(client.is_server_live())
        with triton_grpc.InferenceServerClient(address, ssl=True, root_certificates=str(files["root_certificates"])) as client:
            with self.assertRaises(InferenceServerException):
                client.is_server_live(client_timeout=20)


if __name__ == "__main__":
    unittest.main()
