"""An index of items beside the tower of users: written, served, replaced."""

import csv
import http.client
import json
import tempfile
import threading
import unittest

from harness import SOURCE, Server, run, use_test_clients

use_test_clients("numpy")
import numpy as np
from matching_test import CONFIG, SampledRun, vectors
from torcheasyrec import STEPS, tensor_of

ITEM_COLUMNS = ["adgroup_id", "cate_id", "campaign_id", "customer", "brand", "price"]  # attr_fields of all taobao pipelines
ITEMS, USERS, SECOND_IDS = 200, 30, 1_000_000


class Retrieval(SampledRun):
    """The commands of a user who has trained the pipeline `model`; `delimiter` is between the attributes of its sampler."""

    delimiter = ":"

    def write_items(self, name, first_id):
        """Items of the sampler's file, under ids of their own; every other one is new."""
        lines = (self.folder / "data/items.txt").read_text().split("\n")[1:ITEMS + 1]
        self.items = [line.split("\t")[2].split(self.delimiter) for line in lines]
        self.ids = np.arange(first_id, first_id + len(self.items))
        with open(self.folder / name, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["sku", *ITEM_COLUMNS, "new"])
            for i, (sku, item) in enumerate(zip(self.ids, self.items)):
                writer.writerow([sku, *item, i % 2])
        return self.folder / name

    def write_users(self):
        """The first rows of the test data, without labels and columns of items."""
        rows = self.test_rows(USERS)
        columns = [name for name in rows[0] if name not in ITEM_COLUMNS and name != "clk"]
        with open(self.folder / "users.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, columns, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)
        return rows

    def tower(self, model, tower, data):
        out = self.folder / "vectors.csv"
        self.succeed("predict", "--checkpoint", self.folder / model, "--input", data, "--outputs", tower, "--out", out)
        lines = out.read_text().splitlines()
        values = np.array([[float(value) for value in line.split(",")] for line in lines[1:]])
        return vectors(dict(zip(lines[0].split(","), values.T)), tower)

    def scores(self, model, items):
        """Of all users and items, from the vectors that `predict` gives: of several of a user the best."""
        of_items = self.tower(model, "item_tower_emb", items)
        of_users = self.tower(model, "user_tower_emb", self.folder / "users.csv").reshape(USERS, -1, of_items.shape[1])
        scores = np.where((of_users == 0).all(axis=2, keepdims=True), -np.inf, of_users @ of_items.T)
        return scores.max(axis=1)


def post(connection, path, body, headers={}):
    connection.request("POST", path, json.dumps(body), headers)
    response = connection.getresponse()
    text = response.read()
    return response.status, json.loads(text) if text else {}


def features(metadata, rows):
    return [tensor_of(i["name"], i["datatype"], [row[i["name"]] for row in rows]) for i in metadata["inputs"]]


def outputs_of(answer):
    return {o["name"]: np.array(o["data"]).reshape(o["shape"]) for o in answer["outputs"]}


def expect_best(found, scores, k, first_id=1):
    """Whether ids and scores of rows are those of the k highest of `scores`."""
    assert found["ids"].shape == (len(scores), k)
    assert (found["count"] == k).all()
    best = -np.sort(-scores, axis=1)[:, :k]
    np.testing.assert_allclose(found["scores"], best, rtol=1e-4, atol=1e-5)
    of_ids = np.take_along_axis(scores, found["ids"] - first_id, axis=1)
    np.testing.assert_allclose(of_ids, best, rtol=1e-4, atol=1e-5)
    assert all(len(set(row)) == k for row in found["ids"])


class Index(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        one = cls.one = Retrieval(CONFIG, cls.folder.name, divide=100)
        one.make_data()
        one.train("first", STEPS)
        one.train("second", STEPS // 2)
        cls.rows = one.write_users()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def index(self, repository, model="first", first_id=1, *options):
        items = self.one.write_items(f"{model}.csv", first_id)
        said = self.one.succeed("index", "--checkpoint", self.one.folder / model, "--items", items, "--id", "sku",
                                "--attributes", "new", "--out", repository / "rec", *options)
        self.assertIn(f"{ITEMS} items of 64 elements", said)
        return self.one.scores(model, items)

    def test_served_answers_are_the_best_of_all_items(self):
        repository = self.one.folder / "served"
        scores = self.index(repository)
        server = Server(repository)
        try:
            metadata = json.loads(server.get("/v2/models/rec")[1])
            self.assertFalse({i["name"] for i in metadata["inputs"]} & set(ITEM_COLUMNS))
            connection = http.client.HTTPConnection(server.http, timeout=120)
            self.addCleanup(connection.close)
            inputs = features(metadata, self.rows)

            def ask(parameters, *more, of=inputs):
                return post(connection, "/v2/models/rec/infer", {"inputs": [*of, *more], "parameters": parameters})

            status, answer = ask({"top_k": 20})
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["parameters"], {"index_version": 1, "index_change": 0})
            found = outputs_of(answer)
            expect_best(found, scores, 20)
            # Items that were found are excluded: the next ones follow.
            seen = {"name": "exclude", "datatype": "INT64", "shape": [USERS, 20],
                    "data": found["ids"].flatten().tolist()}
            rest = scores.copy()
            np.put_along_axis(rest, found["ids"] - 1, -np.inf, axis=1)
            expect_best(outputs_of(ask({"top_k": 20}, seen)[1]), rest, 20)
            # Items 2, 4, ... are new.
            only_new = np.where(np.arange(ITEMS) % 2 == 1, scores, -np.inf)
            expect_best(outputs_of(ask({"top_k": 20, "filter": "new"})[1]), only_new, 20)
            users = self.one.tower("first", "user_tower_emb", self.one.folder / "users.csv")
            of_vectors = [{"name": "user_vector", "datatype": "FP32", "shape": list(users.shape),
                           "data": users.flatten().tolist()}]
            expect_best(outputs_of(ask({"top_k": 20}, of=of_vectors)[1]), scores, 20)
            allow = {"name": "allow", "datatype": "INT64", "shape": [USERS, 20], "data": found["ids"].flatten().tolist()}
            some = np.full_like(scores, -np.inf)
            np.put_along_axis(some, found["ids"] - 1, found["scores"], axis=1)
            expect_best(outputs_of(ask({"top_k": 7}, allow)[1]), some, 7)
            self.assertEqual(post(connection, "/v2/models/rec/items", {"inputs": []})[0], 503)
            for parameters, words in (({"top_k": 0}, "1 to 10000"), ({"filter": "old"}, 'unknown attribute \\"old\\"'),
                                      ({"top_k": "many"}, "")):
                status, answer = ask(parameters)
                self.assertEqual(status, 400, answer)
                self.assertIn(words, json.dumps(answer))
        finally:
            self.assertEqual(server.stop(), 0)

    def test_items_of_a_served_index_are_put_and_removed(self):
        repository = self.one.folder / "changed"
        scores = self.index(repository, "first", 1, "--kind", "ivf_flat", "--lists", "8", "--recall", "0.9")
        manifest = json.loads((repository / "rec/1/index/manifest.json").read_text())
        self.assertGreaterEqual(manifest["recall"], 0.9)
        self.assertTrue(1 <= manifest["probes"] <= 8)
        users = self.one.tower("first", "user_tower_emb", self.one.folder / "users.csv")
        server = Server(repository, "--allow-item-changes", "--control-token", "change")
        connection = http.client.HTTPConnection(server.http, timeout=60)
        self.addCleanup(connection.close)
        ids, dim = [9001, 9002, 3], users.shape[1]
        vectors = np.concatenate([users[:2], -users[:1]])  # cosines of 1 with the first two users
        put = {"inputs": [{"name": "ids", "datatype": "INT64", "shape": [3], "data": ids},
                          {"name": "vectors", "datatype": "FP32", "shape": [3, dim], "data": vectors.flatten().tolist()},
                          {"name": "attributes", "datatype": "BYTES", "shape": [3], "data": ["new", "", "new"]}]}

        def change(path, body, token="change"):
            return post(connection, "/v2/models/rec/" + path, body, {"Authorization": f"Bearer {token}"})

        def best(**parameters):
            status, answer = post(connection, "/v2/models/rec/infer", {"parameters": {"top_k": 3, **parameters}, "inputs": [
                {"name": "user_vector", "datatype": "FP32", "shape": [2, dim], "data": users[:2].flatten().tolist()}]})
            self.assertEqual(status, 200, answer)
            return outputs_of(answer)["ids"], answer["parameters"]["index_change"]

        try:
            before = best()[0]
            self.assertEqual(change("items", put, "wrong")[0], 401)
            self.assertEqual(best()[1], 0)
            self.assertEqual(change("items", put), (200, {"model_name": "rec", "model_version": "1", "change": 1,
                                                          "items": ITEMS + 2}))
            found, number = best()
            self.assertEqual((found[:, 0].tolist(), number), ([9001, 9002], 1))
            self.assertEqual(best(filter="new")[0][0, 0], 9001)
            self.assertNotIn(9002, best(filter="new")[0])
            gone = {"inputs": [{"name": "ids", "datatype": "INT64", "shape": [2], "data": [9001, 9002]}]}
            self.assertEqual(change("items/remove", gone)[1]["items"], ITEMS)
            self.assertEqual(change("items/remove", gone)[0], 404)
            if 3 not in before:
                self.assertEqual(best()[0].tolist(), before.tolist())
        finally:
            self.assertEqual(server.stop(), 0)

    def test_a_version_is_replaced_under_load_without_a_failed_request(self):
        repository = self.one.folder / "replaced"
        scores = {1: self.index(repository)}
        server = Server(repository, "--model-control-mode", "explicit", "--load-model", "rec")
        metadata = json.loads(server.get("/v2/models/rec")[1])
        request = {"inputs": features(metadata, self.rows), "parameters": {"top_k": 5}}
        stop, failures, answers = threading.Event(), [], {1: [], 2: []}
        has_answer = {version: threading.Event() for version in answers}

        def ask():
            connection = http.client.HTTPConnection(server.http, timeout=120)
            self.addCleanup(connection.close)
            while not stop.is_set():
                try:
                    status, answer = post(connection, "/v2/models/rec/infer", request)
                    assert status == 200, answer
                    version = answer["parameters"]["index_version"]
                    assert str(version) == answer["model_version"], answer
                    answers[version].append(outputs_of(answer))
                    has_answer[version].set()
                except Exception as error:  # any error is a failed request
                    failures.append(error)
                    return

        clients = [threading.Thread(target=ask) for _ in range(2)]
        try:
            for client in clients:
                client.start()
            self.assertTrue(has_answer[1].wait(120))
            scores[2] = self.index(repository, "second", SECOND_IDS)
            control = http.client.HTTPConnection(server.http, timeout=120)
            self.addCleanup(control.close)
            status, answer = post(control, "/v2/repository/models/rec/load", {})
            self.assertEqual(status, 200, answer)
            self.assertTrue(has_answer[2].wait(120))
            stop.set()
            for client in clients:
                client.join()
            self.assertEqual(failures, [])
            # The tower and the items of an answer are of one version.
            for version, first_id in ((1, 1), (2, SECOND_IDS)):
                for found in (answers[version][0], answers[version][-1]):
                    expect_best(found, scores[version], 5, first_id)
        finally:
            stop.set()
            self.assertEqual(server.stop(), 0)

    def test_every_kind_of_index_can_be_written(self):
        repository = self.one.folder / "kinds"
        for options in (["--dtype", "int8"], ["--kind", "ivf_flat", "--lists", "8"], ["--dtype", "bf16"]):
            self.index(repository, "first", 1, *options)
        self.assertEqual(sorted(path.name for path in (repository / "rec").iterdir()), ["1", "2", "3", "config.pbtxt"])

    def choices(self, name, ids):
        """The users' rows, of seven people, each with the item that was chosen."""
        with open(self.one.folder / "users.csv") as file, open(self.one.folder / name, "w", newline="") as out:
            writer = csv.writer(out)
            for i, row in enumerate(csv.reader(file)):
                writer.writerow([*row, "sku" if i == 0 else ids[i - 1], "person" if i == 0 else f"p{(i - 1) % 7}"])
        return self.one.folder / name

    def test_evaluations_over_all_items_are_those_of_a_sorted_list(self):
        items = self.one.write_items("first.csv", 1)
        scores = self.one.scores("first", items)
        draw = np.random.default_rng(1)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :8] + 1
        chosen = np.array([draw.choice(best[i % 7]) for i in range(USERS)])
        chosen[3] = 999  # is no item
        before = np.array([draw.choice(best[i % 7]) for i in range(USERS)])
        common = ["eval", "--checkpoint", self.one.folder / "first", "--input", self.choices("chosen.csv", chosen), "--items", items,
                  "--item-id", "sku"]

        def expected(queries, wanted, hidden, k):
            sums, found, chosen = np.zeros(4), 0, 0
            for query, want, hide in zip(queries, wanted, hidden):
                order = [i + 1 for i in np.argsort(-scores[query], kind="stable") if i + 1 not in hide - want][:k]
                hits = [rank for rank, item in enumerate(order, 1) if item in want]
                ideal = sum(1 / np.log2(rank + 1) for rank in range(1, min(k, len(want)) + 1))
                sums += [len(hits) / len(want), bool(hits), sum(1 / np.log2(rank + 1) for rank in hits) / ideal,
                         1 / hits[0] if hits else 0]
                found, chosen = found + len(hits), chosen + len(want)
            means = dict(zip(("full_recall", "full_hit_rate", "full_ndcg", "full_mrr"), sums / len(queries)))
            return means | {"hitrate": found / chosen}

        def measured(*options):
            made = run(*common, "--k", "3,10", "--json", self.one.folder / "full.json", *options)
            self.assertEqual(made.returncode, 0, made.stderr)
            return json.loads((self.one.folder / "full.json").read_text()), made.stderr

        people = [range(p, USERS, 7) for p in range(7)]
        found, said = measured()
        self.assertIn("1 of 30 chosen items are not in", said)
        self.assertEqual(found["rows"], USERS)
        by_person = measured("--user-id", "person")[0]
        unseen = measured("--user-id", "person", "--seen", self.choices("seen.csv", before))[0]
        wanted = [{chosen[i] for i in of} for of in people]
        for k in (3, 10):
            rows = expected(range(USERS), [{item} for item in chosen], [set()] * USERS, k)
            whole = expected(range(7), wanted, [set()] * 7, k)
            rest = expected(range(7), wanted, [{before[i] for i in of} for of in people], k)
            for name in rows:
                for values, plain in ((found, rows), (by_person, whole), (unseen, rest)):
                    self.assertAlmostEqual(values[f"{name}@{k}"], plain[name], 5, (name, k))
        self.assertNotEqual(by_person, unseen)
        for options, words in ((["--item-id", "sku", "--k", "0"], "below 1"), (["--item-id", "nothing"], "nothing"),
                               (["--item-id", "sku", "--seen", "x"], "--user-id"), ([], "--item-id"),
                               (["--item-id", "new"], "duplicate item")):
            made = run(*common[:-2], *options)
            self.assertNotEqual(made.returncode, 0)
            self.assertIn(words, made.stderr)

    def test_planted_tastes_are_found_among_all_items(self):
        data, model = self.one.folder / "planted", self.one.folder / "planted_model"
        self.one.succeed("synth", "--preset", "retrieval", "--rows", "60k", "--test-rows", "3000", "--cardinalities", "2000,5000,100",
                         "--out", data)
        best = json.loads((data / "metadata.json").read_text())["best"]["full_recall@50"]
        self.one.succeed("train", "--config", SOURCE / "configs/retrieval/dssm.config", "--train-input", data / "train",
                         "--eval-input", data / "test", "--model-dir", model, "--set", "data_config.batch_size=256", "--set",
                         "train_config.num_epochs=4")
        out = self.one.folder / "planted.json"
        self.one.succeed("eval", "--checkpoint", model, "--input", data / "test", "--items", data / "items", "--item-id", "item",
                         "--k", "50", "--json", out)
        self.assertGreater(json.loads(out.read_text())["full_recall@50"], 0.96 * best)

    def test_bad_items_are_one_clear_line_and_nothing_is_written(self):
        def refusal(text, *options):
            items, out = self.one.folder / "bad.csv", self.one.folder / "nothing/rec"
            items.write_text(text)
            done = run("index", "--checkpoint", self.one.folder / "first", "--items", items, "--id", "sku", "--out", out,
                       *options)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertFalse(out.exists())
            return [line for line in done.stderr.splitlines() if line.startswith("emblem: ")][-1]

        header = ",".join(["sku", *ITEM_COLUMNS]) + "\n"
        self.assertIn("bad.csv has no rows", refusal(header))
        self.assertIn("duplicate item 5; ids must be unique", refusal(header + "5,1,2,3,4,5,6\n" * 2))
        self.assertIn("price", refusal(header.replace(",price", "") + "5,1,2,3,4,5\n"))
        self.assertIn("sku", refusal(header + "x,1,2,3,4,5,6\n"))
        for option, value in (("--lists", "4"), ("--probes", "2"), ("--recall", ".9")):
            self.assertIn(f"{option} needs --kind ivf_flat", refusal(header + "5,1,2,3,4,5,6\n", option, value))
        self.assertIn("give it or --probes", refusal(header + "5,1,2,3,4,5,6\n", "--kind", "ivf_flat", "--probes", "2",
                                                     "--recall", ".9"))


if __name__ == "__main__":
    unittest.main()
