"""Trees of items: made, trained with, searched."""

import csv
import json
import pathlib
import random
import tempfile
import unittest

from harness import run, use_test_clients

use_test_clients("numpy")
from torcheasyrec import learned_files

ITEMS, CATEGORIES, USERS = 60, 6, 40
LAST = "model.ckpt-240"  # 4 epochs of 1200 rows, 20 at a time
SAMPLES = [0, 1, 2, 3, 4, 5, 8]  # of levels with 1, 2, 4, 8, 16, 32 and 60 nodes

CONFIG = """
train_input_path: "FOLDER/train.csv" eval_input_path: "FOLDER/test.csv" model_dir: "FOLDER/model"
train_config { sparse_optimizer { adagrad_optimizer { lr: 0.1 } } dense_optimizer { adam_optimizer { lr: 0.003 } }
  num_epochs: 4 save_checkpoints_steps: 0 }
data_config {
  dataset_type: CsvDataset with_header: true fg_mode: FG_DAG batch_size: 20 label_fields: "clk" shuffle: true
  tdm_sampler { item_input_path: "FOLDER/tree/node_table.txt" edge_input_path: "FOLDER/tree/edge_table.txt"
    attr_fields: "cate" attr_fields: "price" item_id_field: "item" attr_delimiter: ","
    layer_num_sample: SAMPLES }
}
feature_configs { id_feature { feature_name: "item" num_buckets: 200 embedding_dim: 8 embedding_name: "items" } }
feature_configs { id_feature { feature_name: "cate" num_buckets: 10 embedding_dim: 8 embedding_name: "cates" } }
feature_configs { raw_feature { feature_name: "price" } }
feature_configs { id_feature { feature_name: "user" num_buckets: 1000 embedding_dim: 4 } }
feature_configs { sequence_feature { sequence_name: "seq" sequence_length: 5 sequence_delim: "|"
  features { id_feature { feature_name: "item" num_buckets: 200 embedding_dim: 8 embedding_name: "items" } }
  features { id_feature { feature_name: "cate" num_buckets: 10 embedding_dim: 8 embedding_name: "cates" } } } }
model_config {
  feature_groups { group_name: "seq" group_type: SEQUENCE feature_names: ["seq__item", "seq__cate", "item", "cate"] }
  feature_groups { group_name: "rest" feature_names: ["user", "price"] }
  tdm { multiwindow_din { windows_len: [1, 2, 2] attn_mlp { hidden_units: 16 } } final { hidden_units: [32, 16] } }
  num_class: 2 losses { softmax_cross_entropy {} } metrics { auc {} }
}
"""


def category(item):
    return item % CATEGORIES


def write(path, names, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([names, *rows])


class Trees(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kept = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.kept.name)
        draw = random.Random(1)
        cls.history = ["seq__item", "seq__cate"]
        of_category = [[item for item in range(ITEMS) if category(item) == c] for c in range(CATEGORIES)]

        def user(number):  # what was chosen before, all of one category
            items = draw.sample(of_category[number % CATEGORIES], 3)
            return ["|".join(map(str, items)), "|".join(str(category(item)) for item in items)]

        def choice(number):
            item = draw.choice(of_category[number % CATEGORIES])
            return [1, number, item, category(item), item / 10, *user(number)]

        names = ["clk", "user", "item", "cate", "price", *cls.history]
        cls.chosen = [choice(number) for number in range(USERS)]
        write(cls.folder / "train.csv", names, [choice(draw.randrange(900)) for _ in range(1200)])
        write(cls.folder / "test.csv", names, cls.chosen)
        items = [[item, category(item), item / 10] for item in range(ITEMS)]
        draw.shuffle(items)
        write(cls.folder / "items.csv", ["item", "cate", "price"], items)
        cls.config = cls.folder / "tdm.config"
        cls.config.write_text(CONFIG.replace("FOLDER", str(cls.folder)).replace("SAMPLES", str(SAMPLES)))
        cls.said = cls.succeed("tree", "--items", cls.folder / "items.csv", "--id", "item", "--category", "cate",
                               "--attributes", "cate", "--mean-attributes", "price", "--out", cls.folder / "tree")
        cls.succeed("train", "--config", cls.config)

    @classmethod
    def tearDownClass(cls):
        cls.kept.cleanup()

    @classmethod
    def succeed(cls, *arguments):
        done = run(*arguments)
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout

    def fail_with(self, words, *arguments):
        done = run(*arguments)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(words, done.stderr)
        errors = [line for line in done.stderr.splitlines() if not line.startswith("emblem: read ")]
        self.assertEqual(len(errors), 1, done.stderr)

    def search(self, *options):
        out = self.folder / "found.json"
        self.succeed("eval", "--checkpoint", self.folder / "model", "--input", self.folder / "test.csv", "--tree",
                     self.folder / "tree", "--json", out, *options)
        return json.loads(out.read_text())

    def predicted(self, checkpoint):
        """The items of each user of the test, best first, by the scores of all of them."""
        pairs = [[user, item, category(item), item / 10, *histories]
                 for _, user, _, _, _, *histories in self.chosen for item in range(ITEMS)]
        write(self.folder / "pairs.csv", ["user", "item", "cate", "price", *self.history], pairs)
        self.succeed("predict", "--checkpoint", checkpoint, "--input", self.folder / "pairs.csv", "--out",
                     self.folder / "scores.csv")
        with open(self.folder / "scores.csv") as file:
            scores = [float(row["probs1"]) for row in csv.DictReader(file)]
        return [sorted(range(ITEMS), key=lambda item: (-scores[user * ITEMS + item], item)) for user in range(USERS)]

    def test_a_tree_has_the_files_of_torcheasyrec(self):
        self.assertIn(f"{ITEMS} items, 123 nodes on 7 levels", self.said)
        self.assertIn("nodes of levels: 1, 2, 4, 8, 16, 32, 60", self.said)
        nodes = (self.folder / "tree/node_table.txt").read_text().splitlines()
        self.assertEqual(len(nodes), 125)
        self.assertEqual(nodes[0], "id:int64\tweight:float\tfeature:string")
        self.assertEqual(nodes[1].replace("-1", "60", 1).replace("\t-1,", "\t0,"), nodes[2])
        self.assertEqual(len((self.folder / "tree/edge_table.txt").read_text().splitlines()), 1 + ITEMS * 5)
        self.assertEqual(len((self.folder / "tree/predict_edge_table.txt").read_text().splitlines()), 1 + 123)

    def test_a_search_with_a_wide_beam_finds_what_the_scores_of_all_items_say(self):
        found = self.search("--k", "5,10,40")  # begins with the leaves
        order = self.predicted(self.folder / "model")
        for k in (5, 10, 40):
            hits = sum(row[2] in items[:k] for row, items in zip(self.chosen, order))
            self.assertAlmostEqual(found[f"full_recall@{k}"], hits / USERS, delta=1.01 / USERS)
        self.assertEqual(found["rows"], USERS)

    def test_planted_tastes_are_found_down_the_tree(self):
        found = self.search("--k", "5,10")
        self.assertGreater(found["full_recall@10"], 0.7)  # by chance .17; at best 1
        self.assertGreater(found["full_recall@5"], 0.3)   # by chance .08; at best .5 is expected
        narrow = self.search("--k", "2")
        self.assertGreater(narrow["full_recall@2"], 0.1)  # by chance .03; at best .2 is expected

    def test_seen_items_are_not_found(self):
        with open(self.folder / "test.csv") as file:
            names = next(csv.reader(file))
        order = self.predicted(self.folder / "model")
        write(self.folder / "seen.csv", names,
              [[1, row[1], item, category(item), item / 10, *row[5:]]
               for row, items in zip(self.chosen, order) for item in items[:40] if item != row[2]])
        found = self.search("--k", "1", "--user-id", "user", "--seen", self.folder / "seen.csv")
        everything = self.search("--k", "1", "--user-id", "user")
        self.assertGreater(found["full_recall@1"], everything["full_recall@1"])

    def test_a_resumed_run_ends_with_the_same_model(self):
        common = ["train", "--config", self.config, "--model-dir", self.folder / "parts"]
        self.succeed(*common, "--max-steps", "100")
        self.succeed(*common, "--resume")
        of_parts = learned_files(self.folder / "parts" / LAST)
        self.assertTrue(of_parts)
        self.assertEqual(of_parts, learned_files(self.folder / "model" / LAST))

    def test_a_tree_of_vectors(self):
        write(self.folder / "vectors.csv", ["item", "x", "y"],
              [[item, float(category(item) == 1), category(item) * 10 + item / 1000] for item in range(ITEMS)])
        self.succeed("tree", "--items", self.folder / "items.csv", "--id", "item", "--vectors", self.folder / "vectors.csv",
                     "--attributes", "cate", "--clusters", "6", "--out", self.folder / "learned")
        parents = {}
        for line in (self.folder / "learned/predict_edge_table.txt").read_text().splitlines()[2:]:
            parent, child, _ = line.split("\t")
            parents[int(child)] = int(parent)
        below_root = {}  # the node on level 1 above each item
        for item in range(ITEMS):
            node = item
            while parents[parents[node]] in parents:
                node = parents[node]
            below_root.setdefault(parents[node] if parents[node] in parents else node, set()).add(category(item))
        self.assertEqual(sorted(map(len, below_root.values())), [1] * CATEGORIES)

    def test_an_export_scores_rows_without_the_sampler(self):
        self.succeed("export", "--checkpoint", self.folder / "model", "--out", self.folder / "served/tdm")
        stored = "".join(path.read_text() for path in (self.folder / "served/tdm").rglob("pipeline.config"))
        self.assertIn("tdm {", stored)
        self.assertNotIn("tdm_sampler", stored)
        self.fail_with("tdm", "index", "--checkpoint", self.folder / "model", "--items", self.folder / "items.csv", "--id", "item",
                       "--out", self.folder / "served/index")

    def test_bad_input_is_one_clear_line(self):
        items, out = self.folder / "items.csv", self.folder / "no_tree"
        make = ["tree", "--items", items, "--id", "item", "--out", out]
        self.fail_with("--category", *make)
        self.fail_with("colour", *make, "--category", "colour")
        self.fail_with("expected the id of an item", "tree", "--items", items, "--id", "price", "--category", "cate", "--out", out)
        write(self.folder / "few.csv", ["item", "x"], [[0, 1]])
        self.fail_with("has no vector in", *make, "--vectors", self.folder / "few.csv")
        self.assertFalse(out.exists())
        self.fail_with("layer_num_sample has 2 numbers, but the tree in", "train", "--config", self.config, "--model-dir",
                       self.folder / "never", "--set", "data_config.tdm_sampler.layer_num_sample=[0, 1]")
        common = ["eval", "--checkpoint", self.folder / "model", "--input", self.folder / "test.csv"]
        self.fail_with("node_table.txt", *common, "--tree", self.folder)
        self.fail_with("--items or --tree", *common, "--k", "3")
        self.fail_with("below 1", *common, "--tree", self.folder / "tree", "--k", "0")


if __name__ == "__main__":
    unittest.main()
