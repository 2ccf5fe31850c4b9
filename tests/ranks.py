"""Ranks as processes, for tests: started one by one, by emblem launch, or on hosts of their own."""

import os
import pathlib
import re
import socket
import subprocess
import threading
import time
import unittest

from harness import CLEAN, EMBLEM, EmblemTest, run

LONG = 120  # seconds; long enough for any machine
HOST = socket.gethostname()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def torchrun_variables(rank, size, port):
    return {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


class Rank:
    """A process of a job; `command` is what follows the name of the program."""

    def __init__(self, variables, *command, program=(EMBLEM,), **kwargs):
        self.process = subprocess.Popen([*program, *map(str, command)], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env={**CLEAN, **variables}, **kwargs)
        self.errors = []
        self.ended = None
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self):
        self.output, error = self.process.communicate()
        self.ended = time.monotonic()
        self.errors = error.splitlines()

    def wait(self):
        self.thread.join(LONG)
        assert self.ended, "the rank does not end"
        return self.process.returncode

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.wait()

    def message(self):
        self.wait()
        lines = [line for line in self.errors if not line.startswith("emblem: warning: ")]
        assert len(lines) == 1 and lines[0].startswith("emblem: "), self.errors
        return lines[0].removeprefix("emblem: ")


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Launched:
    """A running `emblem launch`."""

    def __init__(self, *arguments, **kwargs):
        kwargs = {"env": CLEAN, **kwargs}
        self.process = subprocess.Popen([EMBLEM, "launch", *map(str, arguments)], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, **kwargs)
        self.lines, self.errors = [], []
        self.readers = [threading.Thread(target=self.read, args=pair, daemon=True)
                        for pair in ((self.process.stdout, self.lines), (self.process.stderr, self.errors))]
        for reader in self.readers:
            reader.start()

    @staticmethod
    def read(pipe, lines):
        for line in pipe:
            lines.append(line.decode(errors="replace").removesuffix("\n"))
        pipe.close()

    def wait(self):
        status = self.process.wait(timeout=LONG)
        for reader in self.readers:
            reader.join(LONG)
        return status

    def children(self):
        try:
            return [int(pid) for pid in
                    pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()]
        except OSError:
            return []

    def ranks(self):
        """Process ids of the children by rank."""
        found = {}
        for child in self.children():
            try:
                rank = re.search(rb"(?:^|\0)RANK=(\d+)\0", pathlib.Path(f"/proc/{child}/environ").read_bytes())
            except OSError:
                continue
            if rank:
                found[int(rank[1])] = child
        return found

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.wait()


class HostsCase(unittest.TestCase):
    """Three hosts: network namespaces with a bridge, each with a host name of its own."""

    hosts = ("a", "b", "c")

    @classmethod
    def setUpClass(cls):
        cls.prefix = f"emblem{os.getpid()}"
        cls.bridge = cls.prefix + "-bridge"
        try:
            cls.ip("netns", "add", cls.bridge)
            cls.ip("-n", cls.bridge, "link", "add", "bridge0", "type", "bridge")
            cls.ip("-n", cls.bridge, "link", "set", "bridge0", "up")
            for number, host in enumerate(cls.hosts, 1):
                cls.ip("netns", "add", f"{cls.prefix}-{host}")
                cls.ip("link", "add", f"to-{host}", "netns", cls.bridge, "type", "veth", "peer", "name", "eth0", "netns",
                       f"{cls.prefix}-{host}")
                cls.ip("-n", cls.bridge, "link", "set", f"to-{host}", "master", "bridge0")
                cls.ip("-n", cls.bridge, "link", "set", f"to-{host}", "up")
                cls.on(host, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
                cls.on(host, "link", "set", "lo", "up")
                cls.on(host, "link", "set", "eth0", "up")
            subprocess.run(["unshare", "-u", "true"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            cls.tearDownClass()
            raise unittest.SkipTest(f"network namespaces are not possible: {error}")

    @classmethod
    def tearDownClass(cls):
        for name in (*cls.hosts, "bridge"):
            subprocess.run(["ip", "netns", "delete", f"{cls.prefix}-{name}"], capture_output=True)

    @staticmethod
    def ip(*arguments):
        subprocess.run(["ip", *arguments], check=True, capture_output=True)

    @classmethod
    def on(cls, host, *arguments):
        cls.ip("-n", f"{cls.prefix}-{host}", *arguments)

    def start_on(self, number, *command):
        """Rank `number` of 3, on the host of that number; rank 0 waits at port 29500."""
        host = self.hosts[number]
        variables = {**torchrun_variables(number, 3, 29500), "MASTER_ADDR": "10.77.0.1"}
        program = ["ip", "netns", "exec", f"{self.prefix}-{host}", "unshare", "-u", "sh", "-c",
                   'hostname "$0"; exec "$@"', host, EMBLEM]
        rank = Rank(variables, *command, program=program)
        self.addCleanup(rank.kill)
        return rank

    def cut_link(self):
        """Packets between the second host and the third go to a card that does not exist."""
        for host, other in (("b", "10.77.0.3"), ("c", "10.77.0.2")):
            self.on(host, "neigh", "replace", other, "lladdr", "02:00:00:00:00:99", "dev", "eth0", "nud", "permanent")
            self.addCleanup(self.on, host, "neigh", "del", other, "dev", "eth0")


PIPELINE = """
train_input_path: "{data}/train"
eval_input_path: "{data}/test"
model_dir: "{model}"
train_config {{
  sparse_optimizer {{ adagrad_optimizer {{ lr: 0.02 }} }}
  dense_optimizer {{ adam_optimizer {{ lr: 0.001 }} }}
  num_epochs: 1
  save_checkpoints_steps: 4
  eval_steps: 8
  log_step_count_steps: 1
  use_tensorboard: false
  logical_shards: 8
  seed: 7
}}
data_config {{ dataset_type: CriteoTsvDataset fg_mode: FG_DAG batch_size: 32 num_workers: 1 shuffle: true }}
feature_configs {{ raw_feature {{ feature_name: "I{{1..4}}" normalizer: "method=log,offset=3" }} }}
feature_configs {{
  id_feature {{ feature_name: "C{{1..3}}" embedding_dim: 4 dynamicemb {{ max_capacity: 2000 score_strategy: "LFU" }} }}
}}
model_config {{
  feature_groups {{ group_name: "dense" feature_names: "I{{1..4}}" }}
  feature_groups {{ group_name: "sparse" feature_names: "C{{1..3}}" }}
  dlrm {{ dense_mlp {{ hidden_units: [8, 4] }} final {{ hidden_units: [8] dropout_ratio: 0.1 }} }}
  metrics {{ auc {{ thresholds: 0 }} }}
  metrics {{ log_loss {{}} }}
}}
"""
ENDLESS = ("--set", "train_config.num_epochs=100000")


class RankTraining(EmblemTest):
    """A small model that is trained on several ranks, and the bits it has in the end when nothing disturbs."""

    rows = 5000

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.config = cls.write_config("ranks.config", PIPELINE.format(data=cls.data, model=cls.folder / "model"))
        cls.known = {}

    def command(self, model, *options, config=None):
        return ["train", "--config", config or self.config, "--model-dir", model, *options]

    def start(self, ranks, model, *options):
        """Ranks of a training, each with its own output."""
        port = free_port()
        return [self.start_rank(rank, ranks, port, model, *options) for rank in range(ranks)]

    def start_rank(self, rank, ranks, port, model, *options, program=(EMBLEM,), config=None, **kwargs):
        started = Rank({**torchrun_variables(rank, ranks, port), "EMBLEM_THREADS": "1"},
                       *self.command(model, *options, config=config), program=program, **kwargs)
        self.addCleanup(started.kill)
        return started

    def launch(self, ranks, model, *options, launch_options=(), **kwargs):
        job = Launched("--ranks", ranks, *launch_options, "--", *self.command(model, *options), **kwargs)
        self.addCleanup(job.kill)
        return job

    def line(self, rank):
        """The last line of a rank that failed."""
        self.assertEqual(rank.wait(), 1, rank.errors)
        return rank.errors[-1].removeprefix("emblem: ")

    def learned(self, model):
        """The name of the latest checkpoint, its dense values, and its rows by table and key."""
        latest = max(model.glob("model.ckpt-*"), key=lambda path: int(path.name.rpartition("-")[2]))
        rows = {}
        for keys in latest.glob("tables/**/key"):
            whole = keys.read_bytes()
            files = [(keys.parent / name).read_bytes() for name in ("key", "emb_vector", "state", "score")]
            for row in range(len(whole) // 8):
                parts = [data[row * len(data) * 8 // len(whole):(row + 1) * len(data) * 8 // len(whole)] for data in files]
                rows[keys.relative_to(latest).parts[1], parts[0]] = parts[1:]
        assert rows
        return latest.name, (latest / "dense.safetensors").read_bytes(), rows

    def undisturbed(self, *options):
        if options not in self.known:
            model = self.folder / f"undisturbed-{len(self.known)}"
            self.succeed(run(*self.command(model, *options)))
            self.known[options] = self.learned(model)
        return self.known[options]

    def expect_whole(self, model):
        """All checkpoints are good."""
        for checkpoint in model.glob("model.ckpt-*"):
            self.assertIn("all verified", self.succeed(run("inspect", checkpoint)).stdout)
