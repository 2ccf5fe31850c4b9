"""Items searched by their vectors: beside plain NumPy, changed, saved, misused; recommendations of matching models."""
import threading
import unittest

import numpy as np

import emblem
from folder import Folder

ITEMS, USERS = 60, 40

PIPELINE = """
train_config {{ sparse_optimizer {{ adagrad_optimizer {{ lr: 0.1 }} }} dense_optimizer {{ adam_optimizer {{ lr: 0.01 }} }}
               num_epochs: 6 save_checkpoints_steps: 0 }}
data_config {{ dataset_type: ParquetDataset label_fields: "click" batch_size: 50 shuffle: true fg_mode: FG_DAG }}
feature_configs {{ id_feature {{ feature_name: "user" num_buckets: 40 embedding_dim: 8 }} }}
feature_configs {{ id_feature {{ feature_name: "item" num_buckets: 60 embedding_dim: 8 }} }}
feature_configs {{ sequence_feature {{ sequence_name: "seen" sequence_length: 5 sequence_delim: "|"
  features {{ id_feature {{ feature_name: "item" num_buckets: 60 embedding_dim: 8 }} }} }} }}
model_config {{
  feature_groups {{ group_name: "users" feature_names: "user" }}
  feature_groups {{ group_name: "items" feature_names: "item" }}
  {model}
  losses {{ softmax_cross_entropy {{}} }} metrics {{ recall_at_k {{ top_k: 1 }} }} }}
"""
DSSM = """dssm { user_tower { input: "users" mlp { hidden_units: 8 } } item_tower { input: "items" mlp { hidden_units: 8 } }
                 output_dim: 6 similarity: COSINE in_batch_negative: true temperature: 0.1 }"""
MIND = """feature_groups { group_name: "seen" feature_names: "seen__item" group_type: SEQUENCE }
          mind { user_tower { input: "users" history_input: "seen" user_mlp { hidden_units: 8 } hist_seq_mlp { hidden_units: 8 }
                   concat_mlp { hidden_units: 8 } capsule_config { max_k: 3 high_dim: 8 num_iters: 2 const_caps_num: false } }
                 item_tower { input: "items" mlp { hidden_units: 8 } } output_dim: 6 similarity: COSINE in_batch_negative: true }"""


def best(vectors, ids, queries, k, allowed=None, cosine=False):
    """What a search finds, by sorting: no scores are equal."""
    if cosine:
        vectors, queries = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (vectors, queries))
    scores = queries @ vectors.T
    if allowed is not None:
        scores = np.where(allowed, scores, -np.inf)
    order = np.argsort(-scores, axis=1)[:, :k]
    return np.asarray(ids)[order], np.take_along_axis(scores, order, 1)


def events(rows):
    """Users of four kinds click items of the same kind, mostly."""
    draw = np.random.default_rng(3)
    user, item = draw.integers(0, USERS, rows), draw.integers(0, ITEMS, rows)
    user = np.where(draw.random(rows) < 0.95, user // 4 * 4 + item % 4, user)
    seen = ["|".join(str(one) for one in range(kind % 4, 20, 4)) for kind in user]
    return {"user": user, "item": item, "seen__item": seen, "click": np.ones(rows, np.int64)}


class IndexTest(Folder):
    def setUp(self):
        super().setUp()
        draw = np.random.default_rng(1)
        self.vectors = draw.normal(size=(500, 7)).astype(np.float32)
        self.ids = draw.permutation(10_000)[:500].astype(np.int64) - 5000
        self.queries = draw.normal(size=(20, 7)).astype(np.float32)

    def assert_best(self, found, expected):
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-5, atol=1e-5)

    def test_the_best_items_are_found(self):
        for similarity in ("inner_product", "cosine"):
            index = emblem.Index(self.vectors, self.ids, similarity=similarity)
            self.assert_best(index.search(self.queries, 9), best(self.vectors, self.ids, self.queries, 9, cosine=similarity == "cosine"))
        self.assertEqual((len(index), index.dim, index.bytes > 500 * 7 * 4), (500, 7, True))
        numbered = emblem.Index(self.vectors)
        self.assert_best(numbered.search(self.queries, 3), best(self.vectors, np.arange(500), self.queries, 3))

    def test_all_lists_of_an_ivf_give_what_the_exact_index_gives(self):
        index = emblem.Index(self.vectors, self.ids, kind="ivf_flat", lists=10)
        self.assert_best(index.search(self.queries, 9, probes=10), best(self.vectors, self.ids, self.queries, 9))
        few = index.search(self.queries, 9, probes=1)[0]
        self.assertLess(np.mean(few == best(self.vectors, self.ids, self.queries, 9)[0]), 1)

    def test_excluded_ids_and_attributes(self):
        draw = np.random.default_rng(2)
        new, cheap = draw.random(500) < 0.5, draw.random(500) < 0.5
        index = emblem.Index(self.vectors, self.ids, attributes={"new": new, "cheap": cheap.astype(int)})
        self.assertEqual(index.attributes, ["new", "cheap"])
        self.assert_best(index.search(self.queries, 5, filter=["cheap", "new"]),
                         best(self.vectors, self.ids, self.queries, 5, new & cheap))
        excluded = [draw.choice(self.ids, 100, replace=False) for _ in self.queries]
        allowed = np.array([~np.isin(self.ids, one) & new for one in excluded])
        self.assert_best(index.search(self.queries, 5, exclude=excluded, filter=["new"]),
                         best(self.vectors, self.ids, self.queries, 5, allowed))

    def test_allowed_ids_alone_are_found(self):
        draw = np.random.default_rng(3)
        new = draw.random(500) < 0.5
        allow = [draw.choice(self.ids, 60) for _ in self.queries]  # some twice
        excluded = [draw.choice(self.ids, 300, replace=False) for _ in self.queries]
        there = np.array([np.isin(self.ids, one) for one in allow])
        filtered = there & np.array([~np.isin(self.ids, one) & new for one in excluded])
        for kind in ("flat", "ivf_flat"):
            index = emblem.Index(self.vectors, self.ids, attributes={"new": new}, kind=kind)
            unknown = [np.append(one, 20_000) for one in allow]
            self.assert_best(index.search(self.queries, 20, allow=unknown, probes=1),
                             best(self.vectors, self.ids, self.queries, 20, there))
            ids, scores = index.search(self.queries, 9, allow=allow, exclude=excluded, filter=["new"])
            for row, (found, worth) in enumerate(zip(*best(self.vectors, self.ids, self.queries, 9, filtered))):
                count = np.isfinite(worth).sum()
                self.assertEqual(ids[row].tolist(), found[:count].tolist() + [-1] * (9 - count))
                self.assertTrue(np.isnan(scores[row][count:]).all())
            self.assertTrue((index.search(self.queries, 3, allow=[[]] * 20)[0] == -1).all())

    def test_fewer_items_than_asked_for(self):
        index = emblem.Index(self.vectors[:3], [5, 6, 7])
        ids, scores = index.search(self.queries, 10, exclude=[[5, 6]] + [[]] * 19)
        self.assertEqual(ids.shape, (20, 3))
        self.assertEqual(ids[0].tolist(), [7, -1, -1])
        self.assertEqual(np.isnan(scores[0]).tolist(), [False, True, True])
        empty = emblem.Index(np.zeros((0, 4)))
        self.assertEqual(empty.search(np.ones((2, 4)))[0].shape, (2, 0))
        self.assertEqual(index.search(np.ones((0, 7)))[0].shape[0], 0)

    def test_changes_are_seen_and_saved(self):
        index = emblem.Index(self.vectors[:300], self.ids[:300], attributes={"even": self.ids[:300] % 2 == 0})
        index.add(self.vectors[300:], self.ids[300:], attributes={"even": self.ids[300:] % 2 == 0})
        index.remove(self.ids[100:200])
        index.add(self.vectors[:10] * 2, self.ids[:10], attributes={"even": self.ids[:10] % 2 == 0}, replace=True)
        vectors = self.vectors.copy()
        vectors[:10] *= 2
        there = np.ones(500, bool)
        there[100:200] = False
        expected = best(vectors, self.ids, self.queries, 8, there)
        even = best(vectors, self.ids, self.queries, 8, there & (self.ids % 2 == 0))
        self.assert_best(index.search(self.queries, 8), expected)
        self.assert_best(index.search(self.queries, 8, filter=["even"]), even)
        index.save(self.folder / "index")
        again = emblem.Index.load(self.folder / "index")
        index.rebuild()
        for one in (index, again):
            self.assertEqual(len(one), 400)
            self.assert_best(one.search(self.queries, 8), expected)
            self.assert_best(one.search(self.queries, 8, filter=["even"]), even)

    def test_searches_and_changes_of_several_threads(self):
        index = emblem.Index(self.vectors, self.ids)
        problems = []

        def search():
            for _ in range(50):
                ids = index.search(self.queries, 5)[0]
                if not np.isin(ids, np.append(self.ids, 9999)).all():
                    problems.append(ids)
        threads = [threading.Thread(target=search) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(50):
            index.add(np.ones((1, 7)), [9999])
            index.remove([9999])
        for thread in threads:
            thread.join()
        self.assertEqual((problems, len(index)), ([], 500))

    def test_misuse(self):
        index = emblem.Index(self.vectors, self.ids, attributes={"new": np.ones(500, bool)})
        flat = self.vectors
        for call, code, said in [
                (lambda: emblem.Index(flat, self.ids, similarity="l2"), "invalid_argument", "expected one of inner_product, cosine"),
                (lambda: emblem.Index(flat, self.ids, kind="hnsw"), "invalid_argument", "expected one of flat, ivf_flat"),
                (lambda: emblem.Index(flat, self.ids[:4]), "invalid_argument", "expected a vector for each id"),
                (lambda: emblem.Index(flat[:2], [1, 1]), "invalid_argument", "1"),
                (lambda: emblem.Index([[np.nan]], [1]), "invalid_argument", "NaN"),
                (lambda: emblem.Index(flat[0]), "invalid_argument", "1 dimensions; expected 2"),
                (lambda: emblem.Index(np.zeros((3, 0))), "invalid_argument", "dim of 0"),
                (lambda: emblem.Index(np.zeros((1, 3)), similarity="cosine"), "invalid_argument", "all zeros"),
                (lambda: emblem.Index([["a"]]), "invalid_argument", "expected numbers"),
                (lambda: index.add(flat[:1], self.ids[:1]), "invalid_argument", "in the index already"),
                (lambda: index.add(flat[:1], [1 << 63]), "invalid_argument", "outside of"),
                (lambda: index.add(np.ones((1, 3)), [9999]), "invalid_argument", "vectors have 3 elements"),
                (lambda: index.add(flat[:1], [9999], attributes={"old": [1]}), "invalid_argument", "unknown attribute 'old'"),
                (lambda: index.add(flat[:1], [9999], attributes={"new": [2]}), "invalid_argument", "not 1 bools"),
                (lambda: index.remove([1 << 40]), "not_found", "is not in the index"),
                (lambda: index.search(np.ones((1, 3))), "invalid_argument", "queries have 3 elements"),
                (lambda: index.search(self.queries, 0), "invalid_argument", "k is 0"),
                (lambda: index.search(self.queries, probes=0), "invalid_argument", "probes is 0"),
                (lambda: index.search(self.queries, exclude=[[1]]), "invalid_argument", "1 lists of excluded ids for 20"),
                (lambda: index.search(self.queries, allow=[[1]]), "invalid_argument", "1 lists of allowed ids for 20"),
                (lambda: index.search(self.queries, filter=["old"]), "invalid_argument", "unknown attribute"),
                (lambda: index.search(self.queries, filter="new"), "invalid_argument", "expected a list"),
                (lambda: index.search(np.full((1, 7), np.inf)), "invalid_argument", "infinite"),
                (lambda: emblem.Index.load(self.folder / "nothing"), "not_found", "nothing")]:
            with self.assertRaises(emblem.Error) as raised:
                call()
            self.assertEqual(raised.exception.code, code, raised.exception)
            self.assertIn(said, str(raised.exception))
        self.assertEqual(len(index), 500)
        with self.assertRaises(TypeError):
            index.search(self.queries, 1.5)


class RecommendTest(Folder):
    """A user of a planted kind clicks the items of the same kind."""

    def train_matching(self, model):
        return emblem.train(events(6000), PIPELINE.format(model=model), progress=False)

    def check(self, model):
        users = {"user": np.arange(USERS), "seen__item": ["|".join(str(one) for one in range(user % 4, 20, 4)) for user in range(USERS)]}
        items = {"item": np.arange(ITEMS), "in_stock": np.arange(ITEMS) % 3 > 0}
        with self.assertRaisesRegex(emblem.Error, "index_items"):
            model.recommend(users)
        index = model.index_items(items, ids=np.arange(ITEMS) + 1000, attributes=["in_stock"])
        self.assertEqual((len(index), index.core.similarity), (ITEMS, "cosine"))
        ids, scores = model.recommend(users, 10)
        self.assertEqual(ids.shape, (USERS, 10))
        self.assertGreater(np.mean((ids - 1000) % 4 == np.arange(USERS)[:, None] % 4), 0.9)
        self.assertTrue((np.diff(scores, axis=1) <= 0).all())
        others = model.recommend(users, 10, exclude=ids[:, :4].tolist(), filter=["in_stock"])[0]
        for user in range(USERS):
            self.assertFalse(set(others[user]) & set(ids[user, :4]))
            self.assertTrue(((others[user] - 1000) % 3 > 0).all())
        allowed = model.recommend(users, 10, allow=ids[:, 3:9].tolist(), exclude=ids[:, 3:4].tolist())[0]
        self.assertEqual(allowed[:, :5].tolist(), ids[:, 4:9].tolist())
        self.assertTrue((allowed[:, 5:] == -1).all())
        some = model.similar_items([1001, 1002], 5, allow=[[1001, 1007], [1009, 9999]])[0]
        self.assertEqual(some[:, :2].tolist(), [[1007, -1], [1009, -1]])
        like = model.similar_items([1001, 1002], 5)[0]
        self.assertEqual(((like - 1000) % 4).tolist(), [[1] * 5, [2] * 5])
        self.assertNotIn(1001, like[0])
        return users, items

    def test_recommendations_of_two_towers(self):
        model = self.train_matching(DSSM)
        users, items = self.check(model)
        by_hand = best(model.vectors(items, "item"), np.arange(ITEMS) + 1000, model.vectors(users, "user"), 10, cosine=True)
        np.testing.assert_allclose(model.recommend(users, 10)[1], by_hand[1], rtol=1e-5, atol=1e-5)
        for call, said in [(lambda: model.index_items(items, ids=[1, 2]), "2 ids for 60 items"),
                           (lambda: model.recommend(users, exclude=[[1]]), "1 lists for 40 users"),
                           (lambda: model.recommend(users, allow=[[1]]), "allow has 1 lists for 40 users"),
                           (lambda: model.similar_items([5]), "item 5 is not in the index"),
                           (lambda: model.vectors(users, "users"), "expected")]:
            with self.assertRaisesRegex(emblem.Error, said):
                call()

    def test_recommendations_of_several_vectors(self):
        model = self.train_matching(MIND)
        users, items = self.check(model)
        of_users, of_items = model.vectors(users, "user"), model.vectors(items, "item")
        self.assertEqual(of_users.shape, (USERS, 3, 6))
        there = np.any(of_users != 0, axis=2)
        scores = np.einsum("uvd,id->uvi", of_users, of_items) / np.maximum(np.linalg.norm(of_users, axis=2), 1e-9)[:, :, None]
        scores = np.where(there[:, :, None], scores / np.linalg.norm(of_items, axis=1), -np.inf).max(axis=1)
        ids, found = model.recommend(users, 10)
        np.testing.assert_allclose(found, -np.sort(-scores, axis=1)[:, :10], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(np.take_along_axis(scores, ids - 1000, 1), found, rtol=1e-4, atol=1e-4)

    def test_models_without_towers_say_so(self):
        with self.assertRaisesRegex(emblem.Error, "no towers of users and items"):
            self.train().index_items({"user": [1]}, ids=[1])


if __name__ == "__main__":
    unittest.main()
