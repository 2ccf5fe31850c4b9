"""Training on several ranks from a topic of Kafka. Every row has an id of its own, and its table counts how often it was
trained on: after any faults each has a count of 1."""

import itertools
import json
import signal
import struct
import subprocess
import unittest

from harness import CLEAN, EMBLEM, MPIRUN, becomes_true, require_mpirun, run
from kafka_brokers import KafkaTest
from ranks import HOST, Launched, Rank, free_port, torchrun_variables

PIPELINE = """
train_input_path: "{address}"
model_dir: "{model}"
train_config {{
  sparse_optimizer {{ adagrad_optimizer {{ lr: 0.1 }} }}
  dense_optimizer {{ adam_optimizer {{ lr: 0.001 }} }}
  save_checkpoints_steps: 2
  log_step_count_steps: 1
  progressive_eval_rows: 200
  use_tensorboard: false
}}
data_config {{
  dataset_type: KafkaDataset stream_format: JSON_ROWS label_fields: "click" fg_mode: FG_DAG batch_size: 32 num_workers: 1
}}
feature_configs {{ raw_feature {{ feature_name: "price" }} }}
feature_configs {{
  id_feature {{ feature_name: "event" embedding_dim: 4 dynamicemb {{ max_capacity: 100000 score_strategy: "LFU" }} }}
}}
model_config {{
  feature_groups {{ group_name: "deep" feature_names: ["price", "event"] }}
  dnn {{ deep {{ hidden_units: [8] }} }}
  metrics {{ auc {{}} }}
}}
"""


class KafkaRanks(KafkaTest):
    def setUp(self):
        self.topic = self.id().split(".")[-1]
        self.sent = 0

    def make_topic(self, partitions, name=""):
        self.topic += name
        self.partitions = partitions
        self.sent = 0
        self.brokers.ask("topic", self.topic, partitions)

    def send(self, rows, partitions=None, per_message=3):
        """This number of new rows to each partition."""
        for partition in partitions if partitions is not None else range(self.partitions):
            events = range(self.sent, self.sent + rows)
            self.sent += rows
            self.brokers.send(self.topic, ({"event": event, "price": event % 7, "click": event % 2} for event in events),
                              partition, per_message)

    def command(self, model, query, *options):
        config = self.folder / f"{model}.config"
        address = f"kafka://{self.brokers.address}/{self.topic}?fetch.wait.max.ms=10&{query}"
        text = PIPELINE.format(address=address, model=self.folder / model)
        if not config.exists() or config.read_text() != text:  # another rank may read it just now
            config.write_text(text)
        return ["train", "--config", config, *options]

    def launch(self, ranks, model, query, *options, launch_options=()):
        job = Launched("--ranks", ranks, *launch_options, "--", *self.command(model, query, *options),
                       env={**CLEAN, "EMBLEM_THREADS": "1"})
        self.addCleanup(job.kill)
        return job

    def train(self, ranks, model, query="until=now", *options):
        """Trains to the end of the topic; 0: in a process without ranks."""
        if ranks == 0:
            done = run(*self.command(model, query, *options))
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stderr.splitlines()
        job = self.launch(ranks, model, query, *options)
        self.assertEqual(job.wait(), 0, job.errors)
        return job.errors

    def start_ranks(self, ranks, model, query, *options):
        """Each with an output of its own."""
        port = free_port()
        started = [Rank({**torchrun_variables(rank, ranks, port), "EMBLEM_THREADS": "1"}, *self.command(model, query, *options))
                   for rank in range(ranks)]
        for rank in started:
            self.addCleanup(rank.kill)
        return started

    def checkpoint(self, model):
        found = sorted((self.folder / model).glob("model.ckpt-*"), key=lambda path: int(path.name.rpartition("-")[2]))
        return found[-1] if found else None

    def position(self, model):
        """Of the last checkpoint; one that is being removed is looked for again."""
        while self.checkpoint(model):
            try:
                return json.loads((self.checkpoint(model) / "manifest.json").read_text())["data_position"]
            except FileNotFoundError:
                pass
        return {"rows_in_epoch": 0, "stream": []}

    def trained(self, model):
        return self.position(model)["rows_in_epoch"]

    def counts(self, model):
        """How often each row of the last checkpoint was trained on, by key."""
        counts = {}
        for keys in self.checkpoint(model).glob("tables/event_emb/**/key"):
            values = [[value for value, in struct.iter_unpack("<q", (keys.parent / name).read_bytes())]
                      for name in ("key", "score")]
            for key, count in zip(*values, strict=True):
                self.assertNotIn(key, counts)
                counts[key] = count
        return counts

    def expect_all_once(self, model):
        counts = self.counts(model)
        self.assertEqual(len(counts), self.sent)
        self.assertEqual(set(counts.values()), {1})
        self.assertEqual(self.trained(model), self.sent)
        self.assertIn("all verified", run("inspect", self.checkpoint(model)).stdout)

    # ---- exactly once ----

    def test_a_bounded_topic_is_trained_on_once(self):
        for partitions, ranks in itertools.product((4, 1), (2, 3)):
            with self.subTest(partitions=partitions, ranks=ranks):
                self.make_topic(partitions, f"-{ranks}")
                self.send(200)
                model = f"bounded-{partitions}-{ranks}"
                errors = self.train(ranks, model)
                self.expect_all_once(model)
                self.assertEqual([each["partition"] for each in self.position(model)["stream"]], list(range(partitions)))
                said = [line for line in errors if "ranks read" in line]
                idle = ranks - partitions
                expected = f"emblem: kafka: topic {self.topic} has 1 partition; {idle} of {ranks} ranks " \
                           f"read{'s' if idle == 1 else ''} none"
                self.assertEqual(said, [expected] if idle > 0 else [])
                log = [json.loads(line) for line in (self.folder / model / "train_log.jsonl").read_text().splitlines()]
                self.assertEqual(sum(line.get("progressive/rows", 0) for line in log), self.sent)
                self.assertEqual(log[-1]["stream/lag_messages"], 0)

    def test_mpi(self):
        require_mpirun()
        self.make_topic(4)
        self.send(100)
        done = subprocess.run([*MPIRUN, "-n", "3", EMBLEM,
                               *map(str, self.command("mpi", "until=now")), "--transport", "mpi"],
                              capture_output=True, text=True, timeout=600, env={**CLEAN, "EMBLEM_THREADS": "1"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.expect_all_once("mpi")

    def test_other_numbers_of_ranks_continue(self):
        self.make_topic(4)
        self.send(300)
        for steps, ranks in enumerate((2, 3, 0, 5, 1), 1):
            before = self.trained("resumed")
            self.train(ranks, "resumed", "until=now", "--resume", "--max-steps", 2 * steps)
            self.assertGreater(self.trained("resumed"), before)
            self.assertEqual(len(self.counts("resumed")), self.trained("resumed"))
        self.assertLess(self.trained("resumed"), self.sent)
        self.send(10)
        self.train(2, "resumed", "until=now", "--resume")
        self.expect_all_once("resumed")

    def test_a_rank_that_is_killed(self):
        self.make_topic(4)
        for victim in range(3):
            before = self.trained("killed")
            ranks = self.start_ranks(3, "killed", "max_wait_ms=20", "--resume")
            self.send(100)
            self.assertTrue(becomes_true(lambda: self.trained("killed") > before or any(rank.ended for rank in ranks)))
            self.assertEqual([rank.ended for rank in ranks], [None] * 3, [rank.errors for rank in ranks])
            self.send(100)
            ranks[victim].process.kill()
            for number, rank in enumerate(ranks):
                self.assertEqual(rank.wait(), -signal.SIGKILL if number == victim else 1)
                if number != victim:
                    self.assertRegex(rank.errors[-1], rf"^emblem: rank {victim} \(host {HOST}\): connection closed")
        self.train(2, "killed", "until=now", "--resume")
        self.expect_all_once("killed")

    def test_restarts(self):
        self.make_topic(2)
        job = self.launch(2, "restarted", "max_wait_ms=20", launch_options=("--restarts", 3))
        self.send(100)
        self.assertTrue(becomes_true(lambda: self.trained("restarted") > 0 and len(job.ranks()) == 2
                                     or job.process.poll() is not None))
        self.assertIsNone(job.process.poll(), job.errors)
        pid = job.ranks()[1]
        subprocess.run(["kill", "-9", str(pid)], check=True)
        self.assertTrue(becomes_true(lambda: "restart 1: " in "\n".join(job.errors)))
        self.send(100)
        self.assertTrue(becomes_true(lambda: self.trained("restarted") >= self.sent - 64 or job.process.poll() is not None))
        job.process.send_signal(signal.SIGTERM)
        job.wait()
        self.train(3, "restarted", "until=now", "--resume")
        self.expect_all_once("restarted")

    # ---- a stream that has no end ----

    def test_an_idle_topic_waits_for_messages_and_for_signals(self):
        self.make_topic(3)
        every_step = ("--set", "train_config.save_checkpoints_steps=1", "--set", "train_config.delta_steps=1000")
        ranks = self.start_ranks(2, "idle", "max_wait_ms=20", *every_step)
        deltas = self.folder / "idle/deltas"
        for turn in range(3):  # partition 1, which rank 1 reads, has nothing at first
            self.send(50, [0, 2] if turn == 0 else None)
            self.assertTrue(becomes_true(lambda: self.trained("idle") == self.sent or any(rank.ended for rank in ranks)))
            # Servers get what was learned although delta_steps is far away.
            self.assertTrue(becomes_true(lambda: len(list(deltas.glob("delta-*"))) > turn))
        self.assertEqual([rank.ended for rank in ranks], [None] * 2, [rank.errors for rank in ranks])
        ranks[1].process.send_signal(signal.SIGTERM)  # the other one ends as well
        self.assertEqual({rank.wait() for rank in ranks} - {128 + signal.SIGTERM, 130}, set(), [rank.errors for rank in ranks])
        self.assertIn("continue with --resume", ranks[0].output)
        self.expect_all_once("idle")
        last = json.loads((sorted(deltas.glob("delta-*"))[-1] / "manifest.json").read_text())
        self.assertEqual(last["stream_offsets"], [each["offset"] for each in self.position("idle")["stream"]])

    # ---- faults ----

    def test_brokers_that_go_away_are_reported_once(self):
        self.make_topic(4)
        job = self.launch(3, "away", "max_wait_ms=20&reconnect.backoff.max.ms=100", "--set",
                          "train_config.save_checkpoints_steps=1")
        self.send(50)
        self.assertTrue(becomes_true(lambda: self.trained("away") == self.sent or job.process.poll() is not None), job.errors)
        self.brokers.ask("stop")
        self.assertTrue(becomes_true(lambda: "trying again" in "\n".join(job.errors)), job.errors)
        self.brokers.ask("start")
        self.send(50)
        self.assertTrue(becomes_true(lambda: self.trained("away") == self.sent or job.process.poll() is not None), job.errors)
        self.assertTrue(becomes_true(lambda: "is read again" in "\n".join(job.errors)), job.errors)
        job.process.send_signal(signal.SIGTERM)
        job.wait()
        warnings = [line for line in job.errors if "kafka" in line]
        self.assertEqual(len(warnings), 2, warnings)
        self.assertRegex(warnings[0], f"^emblem: warning: kafka: topic {self.topic}: .*; trying again$")
        self.assertEqual(warnings[1], f"emblem: kafka: topic {self.topic} is read again")
        self.expect_all_once("away")

    def test_no_broker_at_the_start(self):
        ranks = self.start_ranks(2, "nobroker", "", "--train-input", "kafka://127.0.0.1:9/t?timeout_ms=300")
        for rank in ranks:
            self.assertEqual(rank.wait(), 1)
            lines = [line for line in rank.errors if "kafka" in line]
            self.assertEqual(len(lines), 1, rank.errors)
            self.assertRegex(lines[0], "^emblem: (rank . [^:]*: )?kafka: no answer about topic t from 127.0.0.1:9 within 300 ms")
        self.assertFalse((self.folder / "nobroker").exists())

    def test_a_bad_message(self):
        self.make_topic(2)
        self.send(50)
        self.brokers.send(self.topic, ["{"], 1)
        ranks = self.start_ranks(2, "bad", "until=now")
        for rank in ranks:
            self.assertEqual(rank.wait(), 1, rank.errors)
        line = f"topic {self.topic}, partition 1, offset 17, row 1: is not valid JSON"
        self.assertIn(f"emblem: {line}", ranks[1].errors[-1])
        self.assertIn(f"emblem: rank 1 (host {HOST}): {line}", ranks[0].errors[-1])


if __name__ == "__main__":
    unittest.main()
