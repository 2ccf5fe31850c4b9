"""Serving on a GPU: answers compared with those of a CPU, the cache of rows, CUDA shared memory, version changes under load.

Skipped without a GPU; with EMBLEM_REQUIRE_CUDA it fails instead."""

import base64
import ctypes
import json
import shutil
import threading
import unittest

from harness import EmblemTest, require_gpu, run, use_test_clients

use_test_clients("tritonclient")
import numpy as np
import serve_test
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from serve_test import Server


class CudaMemory:
    """Device memory that another process can open."""

    def __init__(self, size):
        self.runtime = ctypes.CDLL("libcudart.so.13")
        self.pointer, self.size = ctypes.c_void_p(), size
        self.check(self.runtime.cudaMalloc(ctypes.byref(self.pointer), ctypes.c_size_t(size)))

    def check(self, status):
        if status != 0:
            raise RuntimeError(f"CUDA error {status}")

    def handle(self):
        out = (ctypes.c_ubyte * 64)()
        self.check(self.runtime.cudaIpcGetMemHandle(ctypes.byref(out), self.pointer))
        return bytes(out)

    def write(self, offset, array):
        array = np.ascontiguousarray(array)
        self.check(self.runtime.cudaMemcpy(ctypes.c_void_p(self.pointer.value + offset), array.ctypes.data_as(ctypes.c_void_p),
                                           ctypes.c_size_t(array.nbytes), 1))

    def read(self, offset, count):
        out = np.empty(count, np.float32)
        self.check(self.runtime.cudaMemcpy(out.ctypes.data_as(ctypes.c_void_p), ctypes.c_void_p(self.pointer.value + offset),
                                           ctypes.c_size_t(out.nbytes), 2))
        return out

    def free(self):
        self.check(self.runtime.cudaFree(self.pointer))


class ServeOnGpu(EmblemTest):
    rows = 20000
    inputs = serve_test.Serve.inputs

    @classmethod
    def setUpClass(cls):
        require_gpu()
        super().setUpClass()
        cls.model, cls.repository = cls.folder / "model", cls.folder / "repository"
        for done in (run("train", "--config", cls.config, "--device", "cuda"),
                     run("export", "--checkpoint", cls.model, "--out", cls.repository / "dlrm")):
            assert done.returncode == 0, done.stderr
        cls.labels, cls.numbers, cls.ids = serve_test.read_tsv(next((cls.data / "test").glob("*")))
        cls.expected = cls.predictions("--device", "cpu")
        cls.server = Server(cls.repository, "--device", "cuda", "--model-control-mode", "explicit", "--load-model", "dlrm",
                            "--allow-shared-memory")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        super().tearDownClass()

    @classmethod
    def predictions(cls, *options):
        out = cls.folder / "predictions.csv"
        done = run("predict", "--checkpoint", cls.model, "--input", cls.data / "test", "--out", out, *options)
        assert done.returncode == 0, done.stderr
        return np.array([float(line) for line in out.read_text().splitlines()[1:]]).astype(np.float32)

    def ask(self, client, module, begin, end):
        return client.infer("dlrm", self.inputs(module, begin, end)).as_numpy("probability")[:, 0]

    def worst(self, module, address):
        with module.InferenceServerClient(address) as client:
            return max(np.abs(self.ask(client, module, begin, end) - self.expected[begin:end]).max()
                       for begin, end in ((0, 1), (1, 3), (10, 74), (100, 1124), (0, 5000)))

    def test_answers_are_those_of_a_cpu(self):
        for module, address in ((triton_http, self.server.http), (triton_grpc, self.server.grpc)):
            worst = self.worst(module, address)
            print(f"{module.__name__}: at most {worst:.1e} from the CPU's predictions")
            self.assertLess(worst, 1e-5)

    def test_predict_on_a_gpu_writes_what_a_cpu_writes(self):
        worst = np.abs(self.predictions("--device", "cuda") - self.expected).max()
        print(f"predict --device cuda: at most {worst:.1e} from the CPU's predictions")
        self.assertLess(worst, 1e-5)

    def test_the_same_request_gets_the_same_bytes(self):
        with triton_http.InferenceServerClient(self.server.http) as client:
            np.testing.assert_array_equal(self.ask(client, triton_http, 0, 8), self.ask(client, triton_http, 0, 8))

    def test_the_auc_of_the_evaluation_is_reproduced(self):
        with triton_http.InferenceServerClient(self.server.http) as client:
            scores = np.concatenate([self.ask(client, triton_http, b, b + 500) for b in range(0, 5000, 500)])
        out = self.folder / "eval.json"
        self.succeed(run("eval", "--checkpoint", self.model, "--json", out))
        self.assertAlmostEqual(serve_test.exact_auc(self.labels, scores), json.loads(out.read_text())["auc"], places=5)

    def test_sixteen_bits(self):
        for precision in ("fp16", "bf16"):
            server = Server(self.repository, "--device", "cuda", "--precision", precision)
            worst = self.worst(triton_http, server.http)
            self.assertEqual(server.stop(), 0)
            print(f"{precision}: at most {worst:.1e} from the CPU's predictions")
            self.assertLess(worst, 5e-3 if precision == "fp16" else 3e-2)

    def test_a_small_cache_gives_the_same_answers(self):
        shutil.copytree(self.repository, self.folder / "cached")
        config = self.folder / "cached/dlrm/config.pbtxt"
        config.write_text(config.read_text() + '\nparameters { key: "cache_bytes" value { string_value: "100000" } }\n')
        server = Server(self.folder / "cached", "--device", "cuda")
        worst = self.worst(triton_http, server.http)
        metrics = server.get("/metrics", server.metrics)[1].decode()
        self.assertEqual(server.stop(), 0)
        self.assertLess(worst, 1e-5)
        hits = [line for line in metrics.splitlines() if "L1" in line and not line.startswith("#")]
        print("\n".join(hits))
        self.assertTrue(hits)

    def test_cuda_shared_memory(self):
        rows = 64
        ids, numbers = self.ids[:rows], self.numbers[:rows]
        memory = CudaMemory(1 << 20)
        out = 1 << 19
        memory.write(0, ids)
        memory.write(ids.nbytes, numbers)
        for module, address in ((triton_http, self.server.http), (triton_grpc, self.server.grpc)):
            with module.InferenceServerClient(address) as client:
                client.register_cuda_shared_memory("gpu", base64.b64encode(memory.handle()), 0, memory.size)
                inputs = [module.InferInput("categorical_features", [rows, 26], "INT64"),
                          module.InferInput("numerical_features", [rows, 13], "FP32")]
                inputs[0].set_shared_memory("gpu", ids.nbytes)
                inputs[1].set_shared_memory("gpu", numbers.nbytes, offset=ids.nbytes)
                output = module.InferRequestedOutput("probability")
                output.set_shared_memory("gpu", rows * 4, offset=out)
                client.infer("dlrm", inputs, outputs=[output])
                self.assertLess(np.abs(memory.read(out, rows) - self.expected[:rows]).max(), 1e-5)
                memory.write(out, np.zeros(rows, np.float32))
                output.set_shared_memory("gpu", rows * 4, offset=memory.size - 8)
                with self.assertRaises(Exception) as refused:
                    client.infer("dlrm", inputs, outputs=[output])
                print(f"refused: {refused.exception}")
                client.unregister_cuda_shared_memory("gpu")
        memory.free()

    def test_versions_change_under_load(self):
        failures, answers, stop = [], [0], threading.Event()

        def ask_on():
            with triton_http.InferenceServerClient(self.server.http) as client:
                while not stop.is_set():
                    try:
                        far = np.abs(self.ask(client, triton_http, 0, 32) - self.expected[:32]).max()
                        if far > 1e-5:
                            failures.append(f"an answer is {far} off")
                        answers[0] += 1
                    except Exception as error:
                        failures.append(str(error))

        threads = [threading.Thread(target=ask_on) for _ in range(4)]
        for thread in threads:
            thread.start()
        with triton_http.InferenceServerClient(self.server.http) as client:
            for _ in range(4):
                self.succeed(run("export", "--checkpoint", self.model, "--out", self.repository / "dlrm"))
                client.load_model("dlrm")
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertGreater(answers[0], 20)

    def test_latency(self):
        for protocol, address in (("http", self.server.http), ("grpc", self.server.grpc)):
            with self.subTest(protocol):
                done = run("bench", "serve", "--url", address, "--protocol", protocol, "--model", "dlrm", "--seconds", "2",
                           "--key-range", "1000", "--tolerance", "1e-5")
                if "no libemblem_grpc.so" in done.stderr:
                    self.skipTest(done.stderr)
                print(self.succeed(done).stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
