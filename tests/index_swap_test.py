"""Items that are added, replaced and removed, and versions that are swapped, while clients search: every answer is that of an
offline search of the same version after the same change; none is wrong, none is lost.

EMBLEM_SWAP_SECONDS is for how long; tests/index_swap_slow_test.py takes minutes."""

import http.client
import itertools
import os
import tempfile
import threading
import time
import unittest

from python_package import use_package

use_package()
from harness import Server, use_test_clients

use_test_clients("tritonclient")
import emblem
import numpy as np
import tritonclient.grpc as triton_grpc
from index_test import Retrieval, outputs_of, post
from matching_test import CONFIG
from ranked_retrieval_test import triton_inputs
from torcheasyrec import STEPS

TOP_K, QUERIES, IDS = 10, 8, 30
KINDS = (["--kind", "flat"], ["--kind", "ivf_flat", "--lists", "8", "--probes", "2"], ["--dtype", "int8"])


class Swap(unittest.TestCase):
    seconds = float(os.environ.get("EMBLEM_SWAP_SECONDS", 3))
    pause, pause_of_swaps = 0.0, 0.0  # between the calls of a client

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        one = self.one = Retrieval(CONFIG, folder.name, divide=100)
        one.make_data()
        one.train("model", STEPS // 4)
        one.write_users()
        self.users = one.tower("model", "user_tower_emb", one.folder / "users.csv")[:QUERIES].astype(np.float32)
        self.repository = one.folder / "models"
        self.stop = threading.Event()
        self.problems, self.answers, self.changes = [], [], []
        self.version = 0
        self.write_version()

    def write_version(self):
        """Each version has a kind and ids of its own."""
        self.version += 1
        items = self.one.write_items("items.csv", self.first_id(self.version))
        self.one.succeed("index", "--checkpoint", self.one.folder / "model", "--items", items, "--id", "sku", "--attributes",
                         "new", "--out", self.repository / "rec", *KINDS[self.version % len(KINDS)])

    @staticmethod
    def first_id(version):
        return 1000 * version

    def client(self, act):
        """A thread that acts until the end; the first error ends all."""
        def work():
            connection = http.client.HTTPConnection(self.server.http, timeout=120)
            grpc = triton_grpc.InferenceServerClient(self.server.grpc)
            try:
                for number in itertools.count():
                    if self.stop.is_set():
                        return
                    act(connection, grpc, number)
                    self.stop.wait(self.pause)
            except Exception as error:  # any error is a lost request
                self.problems.append(error)
                self.stop.set()
            finally:
                connection.close()
                grpc.close()
        return threading.Thread(target=work)

    def search(self, connection, grpc, number):
        query, filters = number % QUERIES, "new" if number % 3 == 0 else ""
        tensor = {"name": "user_vector", "datatype": "FP32", "shape": [1, self.users.shape[1]],
                  "data": self.users[query].tolist()}
        parameters = {"top_k": TOP_K, "filter": filters}
        if number % 2:
            status, answer = post(connection, "/v2/models/rec/infer", {"inputs": [tensor], "parameters": parameters})
            assert status == 200, answer
            found, seen = outputs_of(answer), answer["parameters"]
        else:
            answer = grpc.infer("rec", triton_inputs([tensor]), parameters=parameters)
            found = {name: answer.as_numpy(name) for name in ("ids", "scores")}
            seen = {name: value.int64_param for name, value in answer.get_response().parameters.items()}
        self.answers.append((seen["index_version"], seen["index_change"], query, filters, found["ids"][0],
                             found["scores"][0].astype(np.float32)))

    def change(self, connection, grpc, number):
        draw = np.random.default_rng(number)
        ids = draw.choice(IDS, size=3, replace=False)
        removed = bool(number % 4 == 3)
        tensors = [{"name": "ids", "datatype": "INT64", "shape": [3], "data": ids.tolist()}]
        vectors = (self.users[draw.choice(QUERIES, size=3)] + draw.normal(scale=0.1, size=(3, self.users.shape[1])))
        vectors, attributes = vectors.astype(np.float32), draw.choice([False, True], size=3)
        if not removed:
            tensors += [{"name": "vectors", "datatype": "FP32", "shape": list(vectors.shape), "data": vectors.flatten().tolist()},
                        {"name": "attributes", "datatype": "BYTES", "shape": [3],
                         "data": ["new" if has else "" for has in attributes]}]
        if number % 2:
            path = "/v2/models/rec/items" + ("/remove" if removed else "")
            status, answer = post(connection, path, {"inputs": tensors})
            if status == 404 and removed:
                return  # the version has no such items
            assert status == 200, answer
            version, count = int(answer["model_version"]), answer["change"]
        else:
            try:
                answer = grpc.infer("rec", triton_inputs(tensors), parameters={"change_items": "remove" if removed else "put"})
            except triton_grpc.InferenceServerException as error:
                if removed and "NOT_FOUND" in str(error.status()):
                    return
                raise
            response = answer.get_response()
            version, count = int(response.model_version), response.parameters["change"].int64_param
        self.changes.append((version, count, removed, ids, vectors, attributes))

    def swap(self, connection, _, number):
        self.stop.wait(self.pause_of_swaps)
        self.write_version()
        status, answer = post(connection, "/v2/repository/models/rec/load", {})
        assert status == 200, answer

    def test_answers_are_those_of_an_offline_search(self):
        self.server = Server(self.repository, "--allow-item-changes", "--model-control-mode", "explicit", "--load-model", "rec")
        clients = [self.client(act) for act in (self.search, self.search, self.change, self.swap)]
        try:
            for client in clients:
                client.start()
            deadline = time.monotonic() + self.seconds
            # Even the shortest run has a swap, and answers after it.
            while not self.stop.wait(0.1):
                swapped = {answer[0] for answer in self.answers[-1:]} - {1}
                if time.monotonic() > deadline and swapped and self.changes:
                    break
        finally:
            self.stop.set()
            for client in clients:
                client.join()
            self.assertEqual(self.server.stop(), 0)
        self.assertEqual(self.problems, [])
        wrong, versions = self.check()
        print(f"{len(self.answers)} answers of {len(versions)} versions, {len(self.changes)} changes, {wrong} wrong", flush=True)
        self.assertEqual(wrong, 0)
        self.assertGreater(len(versions), 1)

    def check(self):
        """How many answers differ from offline searches, and the versions that gave them."""
        wrong, versions = 0, sorted({answer[0] for answer in self.answers})
        for version in versions:
            index = emblem.Index.load(self.repository / f"rec/{version}/index", threads=1)
            changes = sorted((change for change in self.changes if change[0] == version), key=lambda change: change[1])
            self.assertEqual([change[1] for change in changes], list(range(1, len(changes) + 1)))
            answers = {}
            for answer in self.answers:
                if answer[0] == version:
                    answers.setdefault(answer[1], []).append(answer)
            self.assertLessEqual(max(answers), len(changes))
            for number, change in enumerate([None, *changes]):
                if change is not None:
                    _, _, removed, ids, vectors, attributes = change
                    if removed:
                        index.remove(ids)
                    else:
                        index.add(vectors, ids, attributes={"new": attributes}, replace=True)
                for _, _, query, filters, found, scores in answers.get(number, []):
                    ids, expected = index.search(self.users[query:query + 1], TOP_K, filter=[filters] if filters else [])
                    wrong += not (np.array_equal(found, ids[0]) and np.array_equal(scores, expected[0]))
        return wrong, versions


if __name__ == "__main__":
    unittest.main()
