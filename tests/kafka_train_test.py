"""Online training from a topic of Kafka (librdkafka's mock brokers): exact resume after kill -9, deltas, faults."""

import http.client
import json
import random
import signal
import subprocess
import unittest

from harness import EMBLEM, Server, arrow_problem, becomes_true, run
from kafka_brokers import KafkaTest

PIPELINE = """
train_input_path: "{address}"
model_dir: "{model}"
train_config {{
  sparse_optimizer {{ adagrad_optimizer {{ lr: 0.3 }} }}
  dense_optimizer {{ adam_optimizer {{ lr: 0.001 }} }}
  save_checkpoints_steps: 10
  log_step_count_steps: 5
  progressive_eval_rows: 1000
  seed: 7
}}
data_config {{
  dataset_type: KafkaDataset stream_format: JSON_ROWS label_fields: "click"
  fg_mode: FG_NORMAL batch_size: 100 num_workers: 2
}}
feature_configs {{ raw_feature {{ feature_name: "price" expression: "user:price" }} }}
feature_configs {{
  id_feature {{ feature_name: "user" expression: "user:user" embedding_dim: 8 dynamicemb {{ max_capacity: 10000 }} }}
}}
feature_configs {{
  id_feature {{ feature_name: "tags" expression: "item:tags" separator: "|" hash_bucket_size: 1000 embedding_dim: 8 }}
}}
model_config {{
  feature_groups {{ group_name: "deep" feature_names: ["price", "user", "tags"] group_type: DEEP }}
  dnn {{ deep {{ hidden_units: [16] dropout_ratio: 0.1 }} }}
  metrics {{ auc {{}} }}
}}
"""


def rows(count, seed):
    """The label follows from the user, most of the time."""
    draw = random.Random(seed)
    for _ in range(count):
        user = draw.randrange(500)
        yield {"user": f"u{user}", "price": round(draw.uniform(0, 9), 2), "tags": draw.sample(range(50), draw.randrange(4)),
               "click": int(user % 3 == 0 or draw.random() < 0.05)}


class KafkaTrain(KafkaTest):
    def topic(self, partitions=1):
        name = self.id().split(".")[-1]
        self.brokers.ask("topic", name, partitions)
        return name

    def address(self, topic, query):
        return f"kafka://{self.brokers.address}/{topic}?fetch.wait.max.ms=10&{query}"

    def command(self, address, model, *options):
        config = self.folder / f"{model}.config"
        config.write_text(PIPELINE.format(address=address, model=self.folder / model))
        return ["train", "--config", config, *options]

    def train(self, address, model, *options):
        return run(*self.command(address, model, *options))

    def start(self, address, model, *options):
        log = open(self.folder / f"{model}.log", "a+")
        process = subprocess.Popen([EMBLEM, *map(str, self.command(address, model, *options))], stdout=log, stderr=log)
        self.addCleanup(log.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def log_of(self, model):
        return (self.folder / f"{model}.log").read_text()

    def checkpoints(self, model):
        return sorted((int(path.name.split("-")[1]), path) for path in (self.folder / model).glob("model.ckpt-*"))

    def position(self, model):
        return json.loads((self.checkpoints(model)[-1][1] / "manifest.json").read_text())["data_position"]

    def weights(self, model):
        """All files of the last checkpoint but those that hold times and paths."""
        last = self.checkpoints(model)[-1][1]
        return {str(path.relative_to(last)): path.read_bytes() for path in last.rglob("*")
                if path.is_file() and path.name not in ("manifest.json", "pipeline.config")}

    def succeed(self, process):
        self.assertEqual(process.returncode, 0, process.stderr)
        return process

    def fail_with(self, process, *parts):
        self.assertEqual(process.returncode, 1, process.stderr + process.stdout)
        error = process.stderr.splitlines()[-1]
        self.assertTrue(error.startswith("emblem: "), process.stderr)
        for part in parts:
            self.assertIn(part, error)

    # ---- exactly once ----

    def test_killed_and_resumed_is_as_undisturbed(self):
        topic = self.topic()
        self.brokers.send(topic, rows(6000, 1), per_message=7)  # batches end within messages
        whole = self.address(topic, "until=now&max_wait_ms=0")
        self.succeed(self.train(whole, "undisturbed"))
        self.assertEqual(self.position("undisturbed")["rows_in_epoch"], 6000)
        self.assertEqual(self.position("undisturbed")["stream"], [{"partition": 0, "offset": 858, "row": 0}])

        endless = self.address(topic, "max_wait_ms=0")
        for _ in range(2):  # the second time it continues
            before = self.checkpoints("killed")[-1][0] if self.checkpoints("killed") else 0
            process = self.start(endless, "killed", "--resume")
            self.assertTrue(becomes_true(lambda: self.checkpoints("killed") and self.checkpoints("killed")[-1][0] > before
                                         or process.poll() is not None))
            process.send_signal(signal.SIGKILL)
            self.assertEqual(process.wait(), -signal.SIGKILL, self.log_of("killed"))
        self.succeed(self.train(whole, "killed", "--resume"))
        self.assertEqual(self.position("killed"), self.position("undisturbed"))
        self.assertEqual(self.weights("killed"), self.weights("undisturbed"))

    def send_as_arrow(self, table, topic):
        self.succeed(run("convert", "--from", table, "--with-header", "--format", "arrow", "--to", self.folder / "arrow"))
        self.brokers.ask("topic", topic, 1)
        for file in sorted((self.folder / "arrow").rglob("*.arrow")):
            message = self.folder / "message"
            message.write_bytes(file.read_bytes()[8:])  # a file is a mark of 8 bytes, a stream and an index
            self.brokers.ask("send", topic, 0, message, 0)

    def test_every_format_of_messages_learns_what_a_file_with_the_rows_does(self):
        topic = self.topic()
        data = list(rows(1000, 3))
        lines = [f'{row["user"]},{row["price"]},{"|".join(map(str, row["tags"]))},{row["click"]}' for row in data]
        table = self.folder / "rows.csv"
        table.write_text("\n".join(["user,price,tags,click", *lines]) + "\n")
        fields = [word for name in ["user", "price", "tags", "click"]
                  for word in ("--set", f"data_config.input_fields[+]={{input_name: '{name}'}}")]
        self.succeed(self.train(table, "file", "--set", "data_config.dataset_type=CsvDataset", "--set",
                                "data_config.with_header=true", "--set", "train_config.num_epochs=1"))
        self.brokers.send(topic, data, per_message=3)
        self.brokers.ask("topic", topic + "_csv", 1)
        self.brokers.send(topic + "_csv", lines, per_message=7)
        formats = [("", "JSON_ROWS", []), ("_csv", "CSV_ROWS", fields)]
        if not arrow_problem():
            self.send_as_arrow(table, topic + "_arrow")
            formats.append(("_arrow", "ARROW_BATCH", []))
        for name, format, options in formats:
            with self.subTest(format):
                self.succeed(self.train(self.address(topic + name, "until=now&max_wait_ms=0"), "formats" + name, "--set",
                                        f"data_config.stream_format={format}", *options))
                self.assertEqual(self.position("formats" + name)["rows_in_epoch"], 1000)
                self.assertEqual(self.weights("formats" + name), self.weights("file"))

    def test_several_partitions_lose_and_repeat_nothing(self):
        topic = self.topic(3)
        for partition in range(3):
            self.brokers.send(topic, rows(1000 + partition, partition), partition, per_message=3)
        whole = self.address(topic, "until=now")
        self.succeed(self.train(whole, "partitions", "--max-steps", 11))
        self.assertEqual(self.position("partitions")["rows_in_epoch"], 1100)
        self.succeed(self.train(whole, "partitions", "--resume"))
        position = self.position("partitions")
        self.assertEqual(position["rows_in_epoch"], 3003)
        self.assertEqual([each["offset"] for each in position["stream"]], [334, 334, 334])

    # ---- online ----

    def test_endless_run_with_progressive_validation_deltas_and_a_clean_stop(self):
        topic = self.topic()
        process = self.start(self.address(topic, "max_wait_ms=50"), "online", "--set", "train_config.delta_steps=5")
        for seed in range(5):
            self.brokers.send(topic, rows(1500, seed))
            self.assertTrue(becomes_true(lambda: process.poll() is not None or self.progressive("online") > seed),
                            self.log_of("online"))
        deltas = self.folder / "online/deltas"
        self.assertTrue(becomes_true(lambda: list(deltas.glob("delta-*"))))
        self.brokers.send(topic, rows(30, 9))  # fewer than a batch, and the stream is idle afterwards
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(120), 128 + signal.SIGTERM, self.log_of("online"))
        self.assertIn("continue with --resume", self.log_of("online"))
        lines = [json.loads(line) for line in (self.folder / "online/train_log.jsonl").read_text().splitlines()]
        validated = [line for line in lines if "progressive/auc" in line]
        windows = [line for line in validated if line["progressive/rows"] >= 1000]
        self.assertGreaterEqual(len(windows), 5, validated)
        self.assertGreater(windows[-1]["progressive/auc"], 0.7)  # the model has not seen the rows
        self.assertIn("stream/lag_messages", lines[-1])
        self.assertIn("stream/lag_seconds", lines[-1])
        trained = self.position("online")["rows_in_epoch"]
        self.succeed(self.train(self.address(topic, "until=now"), "online", "--resume"))
        self.assertEqual(self.position("online")["rows_in_epoch"], 7530)
        self.assertLessEqual(trained, 7530)

    def test_what_is_learned_is_served(self):
        topic = self.topic()
        self.brokers.send(topic, rows(1000, 1))
        delta = ["--set", "train_config.delta_steps=1"]
        self.succeed(self.train(self.address(topic, "until=now"), "served", *delta))
        self.succeed(run("export", "--checkpoint", self.folder / "served", "--out", self.folder / "repository/clicks"))
        server = Server(self.folder / "repository", "--deltas", f"clicks={self.folder / 'served/deltas'}")
        self.addCleanup(server.stop)
        before = self.predict(server, "newcomer")
        self.assertEqual(before, self.predict(server, "nobody"))
        process = self.start(self.address(topic, "max_wait_ms=20"), "served", "--resume", *delta)
        self.brokers.send(topic, [{"user": "newcomer", "price": 1, "tags": [], "click": 1}])
        self.assertTrue(becomes_true(lambda: self.predict(server, "newcomer") != before), self.log_of("served"))
        self.assertEqual(self.predict(server, "nobody"), before)
        last = json.loads((sorted((self.folder / "served/deltas").glob("delta-*"))[-1] / "manifest.json").read_text())
        self.assertEqual(last["stream_offsets"], [1001])
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(120), 128 + signal.SIGTERM, self.log_of("served"))

    def predict(self, server, user):
        inputs = [{"name": "user", "shape": [1, 1], "datatype": "BYTES", "data": [user]},
                  {"name": "price", "shape": [1, 1], "datatype": "FP32", "data": [2]},
                  {"name": "tags", "shape": [1, 1], "datatype": "BYTES", "data": [""]}]
        connection = http.client.HTTPConnection(server.http, timeout=120)
        connection.request("POST", "/v2/models/clicks/infer", json.dumps({"inputs": inputs}))
        answer = json.loads(connection.getresponse().read())
        connection.close()
        self.assertIn("outputs", answer)
        return answer["outputs"][0]["data"]

    def progressive(self, model):
        return self.log_of(model).count("progressive validation of")

    # ---- faults ----

    def test_no_broker_at_the_start(self):
        address = "kafka://127.0.0.1:9/t?timeout_ms=300"
        self.fail_with(self.train(address, "nobroker"), "no answer about topic t from 127.0.0.1:9 within 300 ms")

    def test_a_topic_that_does_not_exist(self):
        topic = self.topic()
        self.fail_with(self.train(self.address(topic + "s", ""), "notopic"), f'no topic "{topic}s"',
                       f'did you mean "{topic}"?')

    def test_an_empty_topic(self):
        topic = self.topic()
        self.fail_with(self.train(self.address(topic, "until=now"), "empty"), "no rows to train on in kafka://")

    def test_brokers_that_go_away_are_waited_for(self):
        topic = self.topic()
        self.brokers.send(topic, rows(500, 1))
        process = self.start(self.address(topic, "max_wait_ms=20&reconnect.backoff.max.ms=100"), "away", "--set",
                             "train_config.save_checkpoints_steps=1")
        self.assertTrue(becomes_true(lambda: self.checkpoints("away") and self.position("away")["rows_in_epoch"] == 500))
        self.brokers.ask("stop")
        self.assertTrue(becomes_true(lambda: "trying again" in self.log_of("away")), self.log_of("away"))
        self.brokers.ask("start")
        self.brokers.send(topic, rows(500, 2))
        self.assertTrue(becomes_true(lambda: self.position("away")["rows_in_epoch"] == 1000), self.log_of("away"))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(120), 128 + signal.SIGTERM, self.log_of("away"))

    def test_bad_messages_are_bad_rows(self):
        topic = self.topic()
        self.brokers.send(topic, rows(250, 1))
        self.brokers.send(topic, ['{"user": ', '{"user": "u1", "price": "cheap", "click": 1}', '{"user": "u1", "price": 1}'])
        self.brokers.send(topic, rows(250, 2))
        whole = self.address(topic, "until=now&max_wait_ms=0")
        self.fail_with(self.train(whole, "bad"), f"topic {topic}, partition 0, offset 250, row 1: is not valid JSON")
        self.assertEqual(self.position("bad")["rows_in_epoch"], 200)  # what came before is kept
        done = self.succeed(self.train(whole, "bad", "--resume", "--max-bad-rows", 3))
        self.assertIn("skipped     3 bad rows", done.stdout)
        self.assertEqual(self.position("bad")["rows_in_epoch"], 500)

    def test_a_label_that_is_renamed_is_noticed(self):
        topic = self.topic()
        self.brokers.send(topic, [json.dumps(row).replace("click", "clicked") for row in rows(10, 1)])
        self.fail_with(self.train(self.address(topic, "until=now"), "schema"), "offset 0, row 1: ", "click")

    def test_messages_that_were_deleted_meanwhile(self):
        topic = self.topic()
        self.brokers.send(topic, rows(300, 1))
        whole = self.address(topic, "until=now")
        self.succeed(self.train(whole, "gap"))
        filler = "x" * 100000
        for seed in range(6):  # mock brokers keep 5 MB
            self.brokers.send(topic, [{**row, "filler": filler} for row in rows(20, seed)])
        self.fail_with(self.train(whole, "gap", "--resume"), "were deleted before they were read", "retention_gap=skip")
        done = self.succeed(self.train(whole + "&retention_gap=skip", "gap", "--resume"))
        self.assertIn("were deleted before they were read; skipped", done.stderr)
        self.assertLess(self.position("gap")["rows_in_epoch"], 420)
        self.assertEqual(self.position("gap")["stream"][0]["offset"], 420)

    def test_another_topic_cannot_be_resumed(self):
        topic = self.topic()
        self.brokers.send(topic, rows(200, 1))
        self.brokers.ask("topic", topic + "2", 1)
        self.succeed(self.train(self.address(topic, "until=now"), "other"))
        self.fail_with(self.train(self.address(topic + "2", "until=now"), "other", "--resume"), "train_input_path is")

    def test_commands_that_read_no_topics_say_so(self):
        topic = self.topic()
        for command in (("inspect", self.address(topic, "")), ("convert", "--from", self.address(topic, ""), "--to",
                                                               self.folder / "none", "--format", "csv")):
            self.fail_with(run(*command), "is a topic of Kafka, which can only be trained on")

    def test_settings_of_tls_and_sasl_reach_the_client(self):
        topic = self.topic()
        secrets = self.folder / "client.properties"
        secrets.write_text("sasl.username=someone\nsasl.password=hunter2\n")
        sasl = f"security.protocol=sasl_plaintext&sasl.mechanism=PLAIN&properties={secrets}&timeout_ms=500"
        for settings, parts in (
                ("security.protocol=tls", ("security.protocol",)),
                ("security.protocol=ssl&ssl.ca.location=/nowhere/ca.pem", ("ssl.ca.location failed",)),
                ("security.protocol=ssl&timeout_ms=500", ("within 500 ms", "SSL")),
                ("security.protocol=sasl_plaintext&sasl.mechanism=NONE", ("Unsupported SASL mechanism: NONE",)),
                (sasl, ("within 500 ms",))):
            with self.subTest(settings):
                failed = self.train(self.address(topic, settings), "tls")
                self.fail_with(failed, *parts)
                self.assertNotIn("hunter2", failed.stderr)

    def test_freshness_is_measured_by_stage(self):
        out = self.folder / "freshness.json"
        done = self.succeed(run("bench", "freshness", "--probes", 5, "--in-flight", 2, "--events", 100, "--requests", 10, "--json",
                                out))
        self.assertIn("event to answer", done.stdout)
        value = {name: metric["value"] for name, metric in json.loads(out.read_text())["metrics"].items()}
        stages = ("queue", "train", "delta", "load")
        self.assertEqual(set(value), {"p50", "p95", "p99"} | {f"{stage}_{p}" for stage in stages for p in ("p50", "p95", "p99")})
        self.assertGreater(value["p50"], 0)
        self.assertLessEqual(value["p50"], value["p99"])
        for stage in stages:
            self.assertLessEqual(value[f"{stage}_p50"], value["p99"])

    def test_secrets_are_not_accepted_in_an_address(self):
        failed = self.train("kafka://127.0.0.1:9/t?sasl.password=hunter2", "secret")
        self.fail_with(failed, "sasl.password is a secret", "properties=FILE")
        self.assertNotIn("hunter2", failed.stderr)


if __name__ == "__main__":
    unittest.main()
