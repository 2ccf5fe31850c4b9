"""Answers of a server are the predictions of the model, for columns of all kinds."""
import datetime
import decimal
import http.server
import json
import os
import struct
import subprocess
import threading
import unittest

import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet

import emblem
from emblem import _runtime
from folder import Folder
import rows
import test_index
from test_data import FEATURES, ROWS, click, draw, id_feature, pipeline, raw_feature, times

FORMS = {"arrow": lambda table: table, "pandas": lambda table: table.to_pandas(), "polars": polars.from_arrow,
         "dict": lambda table: {name: table[name].to_pylist() for name in table.column_names if name != "click"}}


def with_gaps(values, share=0.2):
    gone = draw().random(len(values)) < share
    return [None if lost else one for one, lost in zip(values, gone)]


class ColumnsTest(Folder):
    """A model whose features read the columns answers for each form of a table what it predicts for the table."""

    def expect_predictions(self, features, columns, forms=("arrow", "pandas", "polars", "dict")):
        table = pyarrow.table({**columns, "click": click()})
        settings = {"data_config.shuffle": False}
        model = emblem.train(table, pipeline(*features), settings=settings, progress=False)
        expected = model.predict(table)
        self.assertGreater(len(np.unique(expected)), 5)
        with emblem.serve(model) as server:
            for name in forms:
                with self.subTest(name):
                    answer = server.client().predict("model", FORMS[name](table))
                    np.testing.assert_array_equal(answer["probability"][:, 0], expected)

    def test_text_with_gaps(self):
        cities = with_gaps([f"c{one}é" for one in draw().integers(0, 20, ROWS)])
        cities[7] = ""
        self.expect_predictions([id_feature("city"), id_feature("kind")], {
            "city": cities, "kind": pyarrow.array(with_gaps(["a", "b"] * (ROWS // 2))).dictionary_encode()})

    def test_integers_with_gaps(self):
        users = draw().integers(0, 90, ROWS)
        self.expect_predictions(
            [id_feature("user"), raw_feature("count", default_value='"0.5"'), id_feature("flag"), id_feature("code"),
             'feature_configs { id_feature { feature_name: "level" num_buckets: 9 embedding_dim: 4 } }'],
            {"user": with_gaps(users.tolist()), "count": pyarrow.array(with_gaps((users % 7).tolist()), pyarrow.int8()),
             "flag": with_gaps((users % 3 == 1).tolist()), "code": [int(one) + (1 << 53) + 1 for one in users],
             "level": pyarrow.array(with_gaps((users % 9).tolist()), pyarrow.int32())}, ("arrow", "polars", "dict"))
        table = pandas.DataFrame({"user": pandas.array(with_gaps(users.tolist()), "Int64"), "click": click()})
        model = emblem.train(table, pipeline(id_feature("user")), progress=False)
        with emblem.serve(model) as server:
            np.testing.assert_array_equal(server.client().predict("model", table)["probability"][:, 0], model.predict(table))

    def test_numbers_with_gaps(self):
        prices = draw().normal(size=ROWS)
        prices[3] = np.inf
        self.expect_predictions(
            [raw_feature("price", default_value='"0.5"'), raw_feature("share"), id_feature("rate"), id_feature("part")],
            {"price": with_gaps(prices.tolist()), "share": pyarrow.array(prices.astype(np.float32)),
             "rate": pyarrow.array(np.round(prices, 1).astype(np.float32)), "part": with_gaps(np.round(prices, 1).tolist())},
            ("arrow", "pandas", "polars"))

    def test_times(self):
        at = times().astype("M8[us]")
        self.expect_predictions(
            [id_feature("at"), id_feature("day"), id_feature("clock")],
            {"at": pyarrow.array(with_gaps(at.tolist()), pyarrow.timestamp("us")),
             "day": pyarrow.array(with_gaps(times().tolist()), pyarrow.date32()),
             "clock": [datetime.time(int(one), 30) for one in draw().integers(0, 24, ROWS)]})
        zoned = pyarrow.array(at.tolist(), pyarrow.timestamp("us", "Asia/Tokyo"))
        self.expect_predictions([id_feature("at")], {"at": zoned})

    def test_lists_and_vectors(self):
        sizes = draw().integers(0, 4, ROWS)
        tags = [[f"t{one}" for one in draw().integers(0, 30, size)] for size in sizes]
        tags[3] = None
        numbers = [draw().integers(0, 30, size).tolist() for size in sizes]
        vectors = draw().normal(size=(ROWS, 3)).astype(np.float32)
        self.expect_predictions(
            [id_feature("tags"), id_feature("numbers"), id_feature("rates"), raw_feature("vector", value_dim=3)],
            {"tags": tags, "numbers": numbers,
             "rates": pyarrow.array([[one / 10 for one in row] for row in numbers], pyarrow.list_(pyarrow.float32())),
             "vector": pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.reshape(-1)), 3)}, ("arrow", "pandas", "polars"))

    def test_structs_weighted_bags_and_decimals(self):
        users = [{"age": int(age), "city": f"c{age % 7}"} for age in draw().integers(10, 80, ROWS)]
        tags = [[{"key": f"t{one}", "weight": 0.5} for one in draw().integers(0, 30, size)]
                for size in draw().integers(1, 4, ROWS)]
        self.expect_predictions(
            ['feature_configs { id_feature { feature_name: "age" expression: "item:user.age" hash_bucket_size: 99 embedding_dim: 4 } }',
             id_feature("user.city"), id_feature("tags", weighted="true"), id_feature("keys"), id_feature("price")],
            {"user": users, "tags": tags, "keys": tags,
             "price": [decimal.Decimal(int(one)) / 4 for one in draw().integers(0, 50, ROWS)]})

    def test_whole_numbers_above_2_to_63(self):
        users = (draw().integers(0, 50, ROWS).astype(np.uint64) + np.uint64((1 << 63) + 7))
        self.expect_predictions([id_feature("user")], {"user": users}, ("arrow", "pandas", "polars"))

    def test_what_has_no_form_in_a_request_is_named(self):
        table = pyarrow.table({"wait": pyarrow.array([5] * ROWS, pyarrow.duration("us")), "user": list(range(ROWS)), "click": click()})
        model = emblem.train(table, pipeline(id_feature("wait"), id_feature("user")), progress=False)
        with emblem.serve(model) as server:
            with self.assertRaisesRegex(emblem.Error, "column 'wait' holds .*; give numbers or text"):
                server.client().predict("model", table)
            with self.assertRaisesRegex(emblem.Error, "rows are a int; expected a dict"):
                server.client().predict("model", 5)

    def test_sequences(self):
        sizes = draw().integers(0, 5, ROWS)
        items = [draw().integers(0, 30, size).tolist() for size in sizes]
        words = [[f"w{one}" for one in row] for row in items]
        text = f"""
train_config {{ sparse_optimizer {{ adagrad_optimizer {{ lr: 0.1 }} }} dense_optimizer {{ adam_optimizer {{ lr: 0.01 }} }} num_epochs: 1 }}
data_config {{ dataset_type: ParquetDataset label_fields: "click" batch_size: 50 fg_mode: FG_DAG }}
feature_configs {{ id_feature {{ feature_name: "item" num_buckets: 30 embedding_dim: 4 }} }}
feature_configs {{ id_feature {{ feature_name: "word" hash_bucket_size: 99 embedding_dim: 4 }} }}
feature_configs {{ sequence_feature {{ sequence_name: "seen" sequence_length: 4 sequence_delim: ";"
  features {{ id_feature {{ feature_name: "item" expression: "item:item" num_buckets: 30 embedding_dim: 4 }} }}
  features {{ id_feature {{ feature_name: "word" expression: "item:word" hash_bucket_size: 99 embedding_dim: 4 }} }} }} }}
model_config {{ feature_groups {{ group_name: "all" feature_names: ["item", "word"]
    sequence_groups {{ group_name: "seen" feature_names: ["item", "word", "seen__item", "seen__word"] }}
    sequence_encoders {{ din_encoder {{ input: "seen" attn_mlp {{ hidden_units: 8 }} }} }} }}
  dnn {{ deep {{ hidden_units: [8] }} }} metrics {{ auc {{}} }} }}
"""
        table = pyarrow.table({"item": draw().integers(0, 30, ROWS), "word": [f"w{one}" for one in draw().integers(0, 30, ROWS)],
                               "seen__item": items, "seen__word": words, "click": click()})
        model = emblem.train(table, text, progress=False)
        with emblem.serve(model) as server:
            for form in FORMS.values():
                np.testing.assert_array_equal(server.client().predict("model", form(table))["probability"][:, 0], model.predict(table))


class Answer(http.server.BaseHTTPRequestHandler):
    """Answers with what the test has set, and keeps what it was sent."""

    def do_GET(self):
        self.reply(200, b'{"inputs": []}')

    def do_POST(self):
        self.server.sent.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.reply(*self.server.answer)

    def reply(self, status, body, json_bytes=None):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if json_bytes is not None:
            self.send_header("Inference-Header-Content-Length", str(json_bytes))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class AnswerTest(unittest.TestCase):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.server.sent = []
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.client = emblem.Client(f"http://127.0.0.1:{self.server.server_port}")

    def test_outputs_keep_their_types(self):
        ids = np.array([[(1 << 24) + 1, (1 << 62) + 1]], np.int64)
        text = b"".join(struct.pack("<I", len(one)) + one for one in ("é".encode(), b""))
        data = {"ids": ("INT64", [1, 2], ids.tobytes()), "names": ("BYTES", [2], text), "half": ("BF16", [1], b"\x80\x3f"),
                "ok": ("BOOL", [2], b"\x01\x00"), "score": ("FP64", [1], np.array([0.1]).tobytes())}
        head = json.dumps({"outputs": [{"name": name, "datatype": one[0], "shape": one[1], "parameters": {
            "binary_data_size": len(one[2])}} for name, one in data.items()] + [
                {"name": "plain", "datatype": "INT64", "shape": [1, 1], "data": [(1 << 53) + 1]}]}).encode()
        self.server.answer = 200, head + b"".join(one[2] for one in data.values()), len(head)
        found = self.client.predict("m", {"x": [1.0]})
        np.testing.assert_array_equal(found["ids"], ids)
        self.assertEqual(found["ids"].dtype, np.int64)
        self.assertEqual(found["names"].tolist(), ["é", ""])
        self.assertEqual((found["half"].tolist(), found["ok"].tolist(), found["score"].tolist()), ([1.0], [True, False], [0.1]))
        self.assertEqual(found["plain"].tolist(), [[(1 << 53) + 1]])

    def test_columns_that_are_no_columns_are_named(self):
        for value, kind in (("a", "str"), (5, "int"), (b"a", "bytes"), (iter([1]), "list_iterator")):
            with self.assertRaisesRegex(emblem.Error, f"column 'x' is a {kind}; expected values, one per row"):
                self.client.predict("m", {"x": value})

    def test_statuses_are_codes(self):
        for status, code in {400: "invalid_argument", 401: "unauthenticated", 403: "permission_denied", 404: "not_found",
                             413: "invalid_argument", 499: "cancelled", 500: "internal", 501: "unsupported",
                             503: "unavailable", 504: "unavailable"}.items():
            self.server.answer = status, b'{"error": "why"}'
            with self.assertRaisesRegex(emblem.Error, "^why$") as raised:
                self.client.predict("m", {"x": [1.0]})
            self.assertEqual(raised.exception.code, code, status)

    def test_outputs_and_parameters_are_asked_for(self):
        self.server.answer = 200, b'{"outputs": []}'
        self.client.predict("m", {"x": [1.0]}, outputs=["ids"], parameters={"top_k": 3, "filter": "new"})
        sent, _ = json.JSONDecoder().raw_decode(self.server.sent[0].decode("latin-1"))
        self.assertEqual(sent["outputs"], [{"name": "ids"}])
        self.assertEqual((sent["parameters"]["top_k"], sent["parameters"]["filter"]), (3, "new"))


class ServerTest(Folder):
    def test_a_model_is_served_under_a_name_from_a_copy(self):
        model = self.train()
        with emblem.serve(model, name="ctr") as server:
            copy = server.folder.name
            answer = server.client().predict("ctr", pandas.DataFrame(rows.make(20)))
            np.testing.assert_array_equal(answer["probability"][:, 0], model.predict(rows.make(20)))
            with self.assertRaisesRegex(emblem.Error, "unexpected inference input 'click'"):
                server.client().predict("ctr", rows.make(20))
            self.assertTrue(os.path.isdir(copy))
        del server
        self.assertFalse(os.path.exists(copy))

    def test_columns_of_one_tensor_come_from_a_frame(self):
        text = FEATURES.replace("FEATURES", " ".join(
            f'feature_configs {{ raw_feature {{ feature_name: "I{at}" }} }} '
            f'feature_configs {{ id_feature {{ feature_name: "C{at}" num_buckets: 40 embedding_dim: 4 }} }}' for at in (1, 2))).replace(
                "NAMES", '"I1", "C1", "I2", "C2"').replace("ParquetDataset", "CriteoTsvDataset").replace('"click"', '"label"')
        lines = ["\t".join([str(at % 2), *["" if one > 2 else str(at * one % 9) for one in range(1, 14)],
                            *[f"{at * one % 40:x}" for one in range(1, 27)]]) for at in range(300)]
        (self.folder / "rows.tsv").write_text("\n".join(lines) + "\n")
        model = emblem.train(str(self.folder / "rows.tsv"), text, progress=False)
        frame = polars.DataFrame({"I1": [at % 9 for at in range(300)], "I2": [at * 2 % 9 for at in range(300)],
                                  "C1": [at % 40 for at in range(300)], "C2": [at * 2 % 40 for at in range(300)]})
        with emblem.serve(model) as server:
            np.testing.assert_array_equal(server.client().predict("model", frame)["probability"][:, 0],
                                          model.predict(str(self.folder / "rows.tsv")))

    def test_a_model_with_an_index_gives_ids_above_2_to_24(self):
        base = (1 << 53) + 1
        draw = np.random.default_rng(3)
        model = emblem.train({"user": draw.integers(0, 40, 500), "item": draw.integers(0, 60, 500), "seen__item": ["1"] * 500,
                              "click": np.ones(500, np.int64)}, test_index.PIPELINE.format(model=test_index.DSSM), epochs=1,
                             progress=False)
        items = pyarrow.table({"sku": np.arange(60) + base, "item": np.arange(60), "new": np.arange(60) < 30})
        pyarrow.parquet.write_table(items, self.folder / "items.parquet")
        subprocess.run([_runtime.PROGRAM, "index", "--checkpoint", model.checkpoint, "--items", self.folder / "items.parquet", "--id",
                        "sku", "--attributes", "new", "--out", self.folder / "models/rec"], check=True, capture_output=True)
        model.index_items({"item": np.arange(60)}, ids=np.arange(60) + base, attributes={"new": np.arange(60) < 30})
        users, exclude = {"user": [3, 4, 5]}, [[base + 1, base + 2], [base + 7], []]
        expected, _ = model.recommend(users, 4, exclude=exclude, filter=["new"])
        with emblem.serve(self.folder / "models") as server:
            answer = server.client().predict("rec", {**users, "exclude": exclude}, parameters={"top_k": 4, "filter": "new"},
                                             outputs=["ids"])
        self.assertEqual(list(answer), ["ids"])
        self.assertEqual(answer["ids"].dtype, np.int64)
        np.testing.assert_array_equal(answer["ids"], expected)

    def test_the_last_lines_of_the_log_are_kept(self):
        program = self.folder / "emblem"
        program.write_text("#!/bin/sh\nfor at in $(seq 1 500); do echo line $at >&2; done\necho http x\necho ready\nexec sleep 600\n")
        program.chmod(0o755)
        server = emblem.serve("models", program=program)
        server.close()
        self.assertEqual(server.lines, [f"line {at}" for at in range(451, 501)])


if __name__ == "__main__":
    unittest.main()
