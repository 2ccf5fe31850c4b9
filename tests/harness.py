"""Shared code of the end-to-end tests: running the program, small data sets, small pipelines."""

import functools
import http.client
import importlib.util
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

EMBLEM = os.environ.get("EMBLEM", "build/release/emblem")
SOURCE = pathlib.Path(os.environ.get("EMBLEM_SOURCE", pathlib.Path(__file__).resolve().parent.parent))


SKIPPED = 77  # SKIP_RETURN_CODE of ctest


def use_test_clients(*packages):
    """Restarts in the virtual environment of tools/test_clients.sh if this Python does not have all `packages`."""
    python = SOURCE / "build/test-clients/bin/python"
    missing = [package for package in packages if not importlib.util.find_spec(package)]
    if not missing:
        return
    if python.exists() and pathlib.Path(sys.prefix) != python.parent.parent:
        os.execv(python, [str(python), *sys.orig_argv[1:]])
    print(f"skipped: needs {' and '.join(missing)}; tools/test_clients.sh installs it")
    sys.exit(SKIPPED)


def run(*arguments, timeout=300, **kwargs):
    return subprocess.run([EMBLEM, *map(str, arguments)], capture_output=True, text=True,
                          timeout=timeout, **kwargs)


@functools.cache
def arrow_problem():
    """Why this program reads no Parquet files and no object stores; "" if it does."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "a.parquet"
        file.write_bytes(b"PAR1" * 3)
        said = run("inspect", file).stderr
    return said.strip().removeprefix(f"emblem: {file}: ") if "built without Arrow" in said else ""


def require_arrow():
    """Skips a test, or the tests of a class, of a program that was built without Arrow."""
    if arrow_problem():
        raise unittest.SkipTest(arrow_problem())


def use_arrow():
    """Ends the script of tests where the program was built without Arrow."""
    if arrow_problem():
        print(f"skipped: {arrow_problem()}")
        sys.exit(SKIPPED)


def limited_user(processes=None, address_space=None):
    """A preexec_fn that limits threads and memory: root is exempt, so it becomes a user without other processes."""
    user = 60000 + os.getpid() % 5000

    def prepare():
        if processes is not None:
            resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
        if address_space is not None:
            resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    return prepare


def becomes_true(condition):
    """Whether it holds, now or within two minutes: long enough for any machine."""
    deadline = time.monotonic() + 120
    while not condition():
        if time.monotonic() > deadline:
            return bool(condition())
        time.sleep(0.01)
    return True


def tcp_connections(pid):
    """How many established TCP connections a process has."""
    inodes = set()
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{fd}")))
    except OSError:
        return 0
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table][1:]
    return sum(row[3] == "01" and row[9] in inodes for row in rows)


# A DNN over CSV or Parquet files; `names` are those of its features: feature_names: "...".
SMALL_PIPELINE = """
train_input_path: "{data}"
model_dir: "{model}"
train_config {{
  sparse_optimizer {{ adagrad_optimizer {{ lr: 0.2 }} }}
  dense_optimizer {{ adam_optimizer {{ lr: 0.01 }} }}
  num_epochs: {epochs}
  save_checkpoints_steps: 0
  seed: 7
}}
data_config {{ fg_mode: FG_DAG dataset_type: {type} with_header: true label_fields: "label" batch_size: 64 }}
{features}
model_config {{
  feature_groups {{ group_name: "deep" {names} }}
  dnn {{ deep {{ hidden_units: [16] }} }}
  losses {{ binary_cross_entropy {{}} }}
  metrics {{ auc {{}} }}
}}
"""
PIPELINE = """
train_input_path: "{data}/train"
eval_input_path: "{data}/test"
model_dir: "{model}"
train_config {{
  sparse_optimizer {{ adagrad_optimizer {{ lr: 0.02 }} }}
  dense_optimizer {{ adam_optimizer {{ lr: 0.001 }} }}
  num_epochs: 1
  save_checkpoints_steps: 0
  eval_steps: 1000000
  seed: 7
}}
data_config {{
  dataset_type: CriteoTsvDataset fg_mode: FG_DAG batch_size: 256 num_workers: 2 shuffle: true shuffle_buffer_size: 4
}}
feature_configs {{ raw_feature {{ feature_name: "I{{1..13}}" normalizer: "method=log,offset=3" }} }}
feature_configs {{
  id_feature {{
    feature_name: "C{{1..26}}"
    embedding_dim: 8
    dynamicemb {{ max_capacity: 2000 score_strategy: "LFU" }}
  }}
}}
model_config {{
  feature_groups {{ group_name: "dense" feature_names: "I{{1..13}}" }}
  feature_groups {{ group_name: "sparse" feature_names: "C{{1..26}}" }}
  dlrm {{ dense_mlp {{ hidden_units: [32, 8] }} final {{ hidden_units: [32] dropout_ratio: 0.1 }} }}
  metrics {{ auc {{ thresholds: 0 }} }}
  metrics {{ log_loss {{}} }}
}}
"""


def gpu_is_missing():
    """The reason why training on a GPU is not possible; "" if it is."""
    with tempfile.TemporaryDirectory() as folder:
        tried = run("train", "--config", SOURCE / "configs/criteo/dlrm.config", "--device", "cuda", "--model-dir", folder,
                    "--set", f"train_input_path={folder}/nothing")
    message = (tried.stderr.strip().splitlines() or [""])[-1]
    return "" if "nothing" in message else message


def require_gpu():
    """Skips the tests of a class without a usable GPU; with EMBLEM_REQUIRE_CUDA they fail instead."""
    missing = gpu_is_missing()
    if missing and not os.environ.get("EMBLEM_REQUIRE_CUDA"):
        raise unittest.SkipTest(missing)
    assert not missing, missing


# The environment without what a launcher of ranks sets; settings of how mpirun starts processes (plm) stay.
LAUNCHER_VARIABLES = re.compile(
    r"^(OMPI_(?!MCA_plm)|PMI|SLURM_|MPI_LOCAL|MASTER_|RANK$|WORLD_SIZE$|LOCAL_|TORCHELASTIC|OMP_NUM_THREADS)")
CLEAN = {name: value for name, value in os.environ.items() if not LAUNCHER_VARIABLES.match(name)}
# As in containers: root, more ranks than cores.
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]


@functools.cache
def mpirun_problem():
    """Why mpirun cannot start two processes here; "" if it can."""
    if not shutil.which("mpirun"):
        return "mpirun is not installed"
    tried = subprocess.run([*MPIRUN, "-n", "2", "true"], capture_output=True, text=True, timeout=300, env=CLEAN)
    said = [line for line in (tried.stderr + tried.stdout).splitlines() if line.strip(" -")]
    return f"mpirun fails here: {said[0] if said else tried.returncode}" if tried.returncode else ""


def module_file(name):
    """libemblem_NAME.so of this program, as it is built or installed."""
    folder = pathlib.Path(EMBLEM).resolve().parent
    return (folder if (folder / "libemblem.so").exists() else folder.parent / "lib/emblem") / f"libemblem_{name}.so"


def require_mpirun():
    """Skips tests where there is no mpirun that works, or the program was built without MPI."""
    missing = mpirun_problem() if module_file("mpi").exists() else "built without MPI"
    if missing:
        raise unittest.SkipTest(missing)


class EmblemTest(unittest.TestCase):
    """A temporary folder with a data set of `rows` rows and a pipeline for it, made once per class."""

    rows = 60000

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        cls.data = cls.folder / "data"
        made = run("synth", "--preset", "criteo", "--rows", cls.rows, "--test-rows", 5000, "--scale", "0.01",
                   "--format", "tsv", "--out", cls.data)
        assert made.returncode == 0, made.stderr
        cls.config = cls.write_config("pipeline.config", PIPELINE.format(data=cls.data, model=cls.folder / "model"))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def write_config(cls, name, text):
        path = cls.folder / name
        path.write_text(text)
        return path

    @classmethod
    def make(cls, *commands):
        for command in commands:
            process = run(*command)
            assert process.returncode == 0, process.stderr

    @classmethod
    def make_served(cls, *names, config=None):
        """Trains a model and exports it under these names to the folder repository, which it returns."""
        cls.make(["train", "--config", config or cls.config],
                 *(["export", "--checkpoint", cls.folder / "model", "--out", cls.folder / "repository" / name]
                   for name in names))
        return cls.folder / "repository"

    def train(self, model_dir, *options, config=None):
        return run("train", "--config", config or self.config, "--model-dir", model_dir, *options)

    def succeed(self, process):
        self.assertEqual(process.returncode, 0, process.stderr)
        return process

    def fail_with(self, process, *parts, status=1):
        """Expects one line on stderr that contains all of `parts`."""
        self.assertEqual(process.returncode, status, process.stderr + process.stdout)
        lines = [line for line in process.stderr.splitlines() if line.startswith("emblem: ")]
        message = lines[-1] if lines else process.stderr
        for part in parts:
            self.assertIn(part, message)
        return message


class Server:
    """emblem serve on free ports. `address` None: where it listens without --address."""

    def __init__(self, repository, *options, address="127.0.0.1", http_port=0, **kwargs):
        where = ["--address", address] if address else []
        self.process = subprocess.Popen(
            [EMBLEM, "serve", "--models", str(repository), *where, "--http-port", str(http_port), "--grpc-port", "0",
             "--metrics-port", "0", *map(str, options)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            **kwargs)
        self.lines = []
        for line in self.process.stdout:
            self.lines.append(line)
            if "ready" in line:
                break
        text = "".join(self.lines)
        ports = dict(re.findall(r"^(http|grpc|metrics|health)\s+\S*?:(\d+)", text, re.MULTILINE))
        if not {"http", "metrics"} <= ports.keys():
            self.process.kill()
            raise AssertionError(f"the server did not start: {text}{self.process.stderr.read()}")
        # A build without libnghttp2 has no gRPC.
        self.http, self.grpc, self.metrics, self.health = (
            f"127.0.0.1:{ports[name]}" if name in ports else None for name in ("http", "grpc", "metrics", "health"))
        # Keep reading: a full pipe would block the server.
        self.readers = [threading.Thread(target=self.lines.extend, args=(pipe,), daemon=True)
                        for pipe in (self.process.stdout, self.process.stderr)]
        for reader in self.readers:
            reader.start()

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        status = self.process.wait(timeout=120)
        for reader in self.readers:
            reader.join()
        self.process.stdout.close()
        self.process.stderr.close()
        return status

    def get(self, path, address=None):
        connection = http.client.HTTPConnection(address or self.http, timeout=120)
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, body


def files_of(folder):
    """Every file below a folder with its bytes, by relative path."""
    folder = pathlib.Path(folder)
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def learned_files(checkpoint):
    """The files of a checkpoint with tables and dense parameters."""
    return {name: data for name, data in files_of(checkpoint).items()
            if name.startswith("tables/") or name == "dense.safetensors"}
