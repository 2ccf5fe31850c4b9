"""GPU memory that another process holds, and addresses that a limit denies, are named as the cause; a served model
answers again when the memory comes back.

Skipped without a GPU; with EMBLEM_REQUIRE_CUDA it fails instead."""

import resource
import subprocess
import sys
import unittest

import serve_out_of_memory_test
from harness import EmblemTest, Server, becomes_true, require_gpu, run

# Takes all but some MiB of the memory of GPU 0, says so, and holds it until its input ends.
HOLDER = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    assert status == 0, (name, status)
device, context = ctypes.c_int(), ctypes.c_void_p()
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)
free, total = ctypes.c_size_t(), ctypes.c_size_t()
left = int(sys.argv[1]) << 20
for step in (1 << 30, 64 << 20, 2 << 20):
    while True:
        call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        if free.value < left + step:
            break
        pointer = ctypes.c_uint64()
        if cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(step)) != 0:
            break
print("held", flush=True)
sys.stdin.read()
"""


class Holder:
    """Another process that leaves `left` MiB of the GPU's memory."""

    def __init__(self, left):
        self.process = subprocess.Popen([sys.executable, "-c", HOLDER, str(left)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        assert self.process.stdout.readline() == "held\n"
        return self

    def __exit__(self, *_):
        self.process.communicate()


def wide_rows(rows):
    """Settings for 26 tables of this many rows of 128 numbers."""
    return ["--set", f"feature_configs[1].id_feature={{feature_name: 'C{{1..26}}' embedding_dim: 128 num_buckets: {rows}}}",
            "--set", "model_config.dlrm.dense_mlp={hidden_units: [16, 128]}"]


class GpuMemory(EmblemTest):
    rows = 2000

    @classmethod
    def setUpClass(cls):
        require_gpu()
        super().setUpClass()

    def test_a_gpu_that_another_process_has_filled(self):
        with Holder(left=20):
            done = run("train", "--config", self.config, "--model-dir", self.folder / "full", "--device", "cuda")
            self.fail_with(done, "device cuda: the GPU", "other processes hold the rest", "nvidia-smi")
        self.succeed(run("train", "--config", self.config, "--model-dir", self.folder / "full", "--device", "cuda"))

    def test_too_little_memory_for_the_tables(self):
        with Holder(left=1500):
            done = run("train", "--config", self.config, "--model-dir", self.folder / "tables", "--device", "cuda",
                       *wide_rows(400000))
            self.fail_with(done, "GPU memory")

    def test_a_limit_of_addresses(self):
        """How many CUDA needs is the driver's affair: the first limit that it does not bear is named."""
        for gibibytes in (16, 8, 4, 2):
            limit = (gibibytes << 30, gibibytes << 30)
            done = run("train", "--config", self.config, "--model-dir", self.folder / f"limited{gibibytes}", "--device",
                       "cuda", preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_AS, limit))
            if done.returncode != 0:
                break
        self.fail_with(done, "CUDA cannot start", f"{gibibytes:.2f} GiB of addresses (ulimit -v)", "ulimit -v unlimited")

    def test_tables_beyond_host_memory_with_a_cache(self):
        done = run("train", "--config", self.config, "--model-dir", self.folder / "beyond", "--device", "cuda", "--set",
                   "train_config.device_bytes=1000000000", *wide_rows(200000000), timeout=60)
        self.fail_with(done, "the tables with a cache on the GPU need", "of host memory", "the largest is")


class ServedThroughAShortage(serve_out_of_memory_test.ServeMemory):
    """The fault of a real shortage: requests fail while another process has the GPU's memory, and no later ones."""

    test_requests_on_a_cpu = test_requests_on_a_gpu = None

    @classmethod
    def setUpClass(cls):
        require_gpu()
        super().setUpClass()

    def test_requests_while_another_process_fills_the_gpu(self):
        server = Server(self.folder / "repository", "--device", "cuda")
        self.addCleanup(server.stop)
        small, large = self.request(3, 2), self.request(400, 2000)
        expected_small = self.infer(server, small)
        self.assertEqual(expected_small[0], 200)
        with Holder(left=8):
            statuses = [self.infer(server, large)[0] for _ in range(3)]
            self.assertTrue(set(statuses) <= {200, 503}, statuses)
            self.assertEqual(self.infer(server, small), expected_small)
        self.assertTrue(becomes_true(lambda: self.infer(server, large)[0] == 200))
        for _ in range(50):
            self.assertEqual(self.infer(server, large)[0], 200)
            self.assertEqual(self.infer(server, small), expected_small)


# The class of the other file is a base here.
del serve_out_of_memory_test

if __name__ == "__main__":
    unittest.main(verbosity=2)
