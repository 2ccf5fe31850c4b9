"""Folders of TorchEasyRec's create_faiss_index (docs/retrieval.md), with faiss itself on the other side."""

import csv
import http.client
import json
import tempfile
import unittest

from harness import Server, run, use_test_clients

use_test_clients("numpy", "faiss")
import faiss
import numpy as np
from index_test import ITEMS, Retrieval, outputs_of, post
from matching_test import CONFIG
from torcheasyrec import STEPS

DIM, K = 64, 20


def read_folder(folder):
    """The index, and the ids of its items in the order of faiss."""
    return faiss.read_index(str(folder / "faiss_index")), np.loadtxt(folder / "id_mapping", dtype=np.int64, ndmin=1)


def write_folder(folder, index, ids):
    folder.mkdir()
    faiss.write_index(index, str(folder / "faiss_index"))
    (folder / "id_mapping").write_text("".join(f"{i}\n" for i in ids))


def index_with_lists(vectors, lists):
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(vectors.shape[1]), vectors.shape[1], lists, faiss.METRIC_INNER_PRODUCT)
    index.train(vectors)
    index.add(vectors)
    return index


class FaissFolders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        one = cls.one = Retrieval(CONFIG, cls.temporary.name, divide=100)
        one.make_data()
        one.train("model", STEPS // 4)
        one.write_users()
        cls.items = one.write_items("items.csv", 1000)
        cls.vectors = one.tower("model", "item_tower_emb", cls.items).astype(np.float32)
        cls.users = one.tower("model", "user_tower_emb", one.folder / "users.csv").astype(np.float32)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def index(self, items, name, *options):
        return run("index", "--checkpoint", self.one.folder / "model", "--items", items, "--out", self.one.folder / name / "rec",
                   *options)

    def found(self, name):
        """Ids and scores that a server finds in the index of a version, for the vectors of users."""
        server = Server(self.one.folder / name)
        try:
            connection = http.client.HTTPConnection(server.http, timeout=120)
            self.addCleanup(connection.close)
            vectors = {"name": "user_vector", "datatype": "FP32", "shape": list(self.users.shape),
                       "data": self.users.flatten().tolist()}
            status, answer = post(connection, "/v2/models/rec/infer", {"inputs": [vectors], "parameters": {"top_k": K}})
            self.assertEqual(status, 200, answer)
            found = outputs_of(answer)
            return found["ids"], found["scores"]
        finally:
            server.stop()

    def expect_same(self, ids, scores, wanted_ids, wanted_scores):
        """Equal ids, except where scores are equal within rounding."""
        np.testing.assert_allclose(scores, wanted_scores, rtol=1e-4, atol=1e-5)
        differ = ids != wanted_ids
        gaps = np.abs(np.diff(wanted_scores, axis=1))
        near = np.minimum(np.pad(gaps, ((0, 0), (1, 0)), constant_values=1), np.pad(gaps, ((0, 0), (0, 1)), constant_values=1))
        self.assertTrue((near[differ] < 1e-5).all())

    def test_faiss_opens_what_is_written_and_finds_the_same_items(self):
        for kind, options in (("flat", []), ("ivf_flat", ["--lists", "7", "--probes", "3"])):
            with self.subTest(kind):
                folder = self.one.folder / f"faiss_{kind}"
                made = self.index(self.items, f"of_{kind}", "--id", "sku", "--kind", kind, *options, "--faiss-out", folder)
                self.assertEqual(made.returncode, 0, made.stderr)
                self.assertIn(f"wrote {folder}, a faiss index", made.stdout)
                index, ids = read_folder(folder)
                self.assertEqual((index.ntotal, index.d, index.metric_type), (ITEMS, DIM, faiss.METRIC_INNER_PRODUCT))
                if kind == "ivf_flat":
                    self.assertEqual((index.nlist, index.nprobe), (7, 3))
                scores, numbers = index.search(self.users, K)
                self.expect_same(ids[numbers], scores, *self.found(f"of_{kind}"))

    def test_what_faiss_wrote_is_searched_to_the_same_items(self):
        flat = faiss.IndexFlatIP(DIM)
        flat.add(self.vectors)
        lists, sparse = index_with_lists(self.vectors, 6), index_with_lists(self.vectors, 150)
        lists.nprobe, sparse.nprobe = 2, 90
        ids = np.random.default_rng(1).permutation(ITEMS) + 1000
        for name, index in (("flat", flat), ("lists", lists), ("sparse", sparse)):
            with self.subTest(name):
                folder = self.one.folder / f"written_{name}"
                write_folder(folder, index, ids)
                made = self.index(folder, f"from_{name}")
                self.assertEqual(made.returncode, 0, made.stderr)
                self.assertIn(f"index: {ITEMS} items of {DIM} elements, {'flat' if name == 'flat' else 'ivf_flat'}", made.stdout)
                scores, numbers = index.search(self.users, K)
                self.expect_same(*self.found(f"from_{name}"), ids[numbers], scores)
        made = self.index(self.one.folder / "written_lists", "as_flat", "--kind", "flat")
        self.assertEqual(made.returncode, 0, made.stderr)
        scores, numbers = flat.search(self.users, K)
        self.expect_same(*self.found("as_flat"), ids[numbers], scores)

    def test_an_evaluation_over_a_faiss_folder_is_that_of_the_encoded_items(self):
        ids = np.arange(ITEMS) + 1000
        folder, choices, out = self.one.folder / "evaluated", self.one.folder / "chosen.csv", self.one.folder / "full.json"
        write_folder(folder, index_with_lists(self.vectors, 5), ids)
        draw = np.random.default_rng(2)
        with open(self.one.folder / "users.csv") as users, open(choices, "w", newline="") as file:
            for i, row in enumerate(csv.reader(users)):
                csv.writer(file).writerow([*row, "sku" if i == 0 else draw.choice(ids[:40])])
        metrics = []
        for items in (folder, self.items):
            made = run("eval", "--checkpoint", self.one.folder / "model", "--input", choices, "--items", items, "--item-id", "sku",
                       "--k", "20,100", "--json", out)
            self.assertEqual(made.returncode, 0, made.stderr)
            metrics.append({name: value for name, value in json.loads(out.read_text()).items() if "@" in name})
        self.assertEqual(metrics[0], metrics[1])
        self.assertGreater(metrics[0]["hitrate@100"], metrics[0]["hitrate@20"])

    def test_folders_of_something_else_are_one_clear_line(self):
        ids = np.arange(ITEMS) + 1000
        l2 = faiss.IndexFlatL2(DIM)
        graph = faiss.IndexHNSWFlat(DIM, 8, faiss.METRIC_INNER_PRODUCT)
        narrow, flat = faiss.IndexFlatIP(DIM // 2), faiss.IndexFlatIP(DIM)
        for index in (l2, graph, flat):
            index.add(self.vectors)
        narrow.add(np.ascontiguousarray(self.vectors[:, :DIM // 2]))
        for name, index, words, options in (
                ("l2", l2, 'of kind "IxF2", expected "IxFI" or "IwFl"', []),
                ("graph", graph, 'of kind "IHNf"', []),
                ("narrow", narrow, "vectors of 32 elements, but the towers of the model give 64", []),
                ("short", flat, f"has {ITEMS - 1} ids", []),
                ("id", flat, "omit --id", ["--id", "sku"])):
            with self.subTest(name):
                folder = self.one.folder / f"other_{name}"
                write_folder(folder, index, ids[name == "short":])
                made = self.index(folder, f"refused_{name}", *options)
                self.assertEqual(made.returncode, 1)
                self.assertIn(words, made.stderr)
                self.assertFalse((self.one.folder / f"refused_{name}").exists())


if __name__ == "__main__":
    unittest.main()
