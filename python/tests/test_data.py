"""Rows in all forms: the predictions of a model are byte by byte those of a Parquet file with the same columns."""
import datetime
import decimal
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

import duckdb
import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet

import emblem

ROWS = 400

FEATURES = """
train_config { sparse_optimizer { adagrad_optimizer { lr: 0.1 } } dense_optimizer { adam_optimizer { lr: 0.01 } } num_epochs: 1 }
data_config { dataset_type: ParquetDataset label_fields: "click" batch_size: 50 fg_mode: FG_DAG }
FEATURES
model_config { feature_groups { group_name: "deep" feature_names: [NAMES] } dnn { deep { hidden_units: [8] } } metrics { auc {} } }
"""


def id_feature(column, **settings):
    more = " ".join(f"{name}: {value}" for name, value in settings.items())
    return f'feature_configs {{ id_feature {{ feature_name: "{column}" hash_bucket_size: 1000 embedding_dim: 4 {more} }} }}'


def raw_feature(column, **settings):
    more = " ".join(f"{name}: {value}" for name, value in settings.items())
    return f'feature_configs {{ raw_feature {{ feature_name: "{column}" {more} }} }}'


def pipeline(*features):
    names = ", ".join('"' + feature.split('"')[1] + '"' for feature in features)
    return FEATURES.replace("FEATURES", "\n".join(features)).replace("NAMES", names)


def draw():
    return np.random.default_rng(3)


def click():
    return (draw().random(ROWS) < 0.4).astype(np.int64)


def times():
    return np.datetime64("2026-03-01") + draw().integers(0, 50, ROWS).astype("m8[D]")


class FormsTest(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory(prefix="emblem-test-")
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)

    def expect_the_same(self, features, forms, table):
        """`forms` are the rows of `table`, an Arrow table; models trained on the file and on each form predict the same."""
        path = self.folder / "rows.parquet"
        pyarrow.parquet.write_table(table, path)
        text = pipeline(*features)
        settings = {"data_config.shuffle": False}
        model = emblem.train(str(path), text, settings=settings, progress=False)
        expected = model.predict(str(path))
        self.assertGreater(len(np.unique(expected)), 5)
        for name, form in {"arrow": table, **forms}.items():
            with self.subTest(name):
                made = form() if callable(form) else form
                np.testing.assert_array_equal(model.predict(made), expected)
                made = form() if callable(form) else form
                own = emblem.train(made, text, settings=settings, progress=False)
                np.testing.assert_array_equal(own.predict(str(path)), expected)

    def test_categories_and_numbers(self):
        data = {"city": np.array([f"c{one}" for one in draw().integers(0, 20, ROWS)]), "user": draw().integers(0, 90, ROWS),
                "price": draw().normal(size=ROWS), "share": draw().random(ROWS).astype(np.float32),
                "flag": draw().random(ROWS) < 0.5, "click": click()}
        frame = pandas.DataFrame(data)
        table = pyarrow.table(data)
        self.expect_the_same(
            [id_feature("city"), id_feature("user"), raw_feature("price"), raw_feature("share"), id_feature("flag")],
            {"dict": data, "pandas": frame, "polars": polars.DataFrame(data),
             "categories": frame.astype({"city": "category"}), "polars categories": polars.DataFrame(data).with_columns(
                 polars.col("city").cast(polars.Categorical)),
             "duckdb": lambda: duckdb.connect().from_arrow(table),
             "lists": {name: values.tolist() for name, values in data.items()},
             "batches": lambda: iter(table.to_batches(max_chunksize=90)),
             "frames": [frame.iloc[:100], frame.iloc[100:]],
             "another index": frame.set_index(pandas.Index(range(7, 7 + ROWS))),
             "record array": frame.drop(columns="city").assign(city=data["city"].astype("U4")).to_records(index=False),
             }, table)

    def test_nullable_types(self):
        gone = draw().random(ROWS) < 0.2
        user = pandas.array([None if lost else int(one) for one, lost in zip(draw().integers(0, 90, ROWS), gone)], dtype="Int64")
        price = pandas.array([None if lost else one for one, lost in zip(draw().normal(size=ROWS), gone)], dtype="Float64")
        flag = pandas.array([None if lost else one > 0.5 for one, lost in zip(draw().random(ROWS), gone)], dtype="boolean")
        city = pandas.array([None if lost else f"c{one}" for one, lost in zip(draw().integers(0, 9, ROWS), gone)], dtype="string")
        frame = pandas.DataFrame({"user": user, "price": price, "flag": flag, "city": city, "click": click()})
        table = pyarrow.Table.from_pandas(frame, preserve_index=False)
        self.expect_the_same(
            [id_feature("user"), raw_feature("price", default_value='"0.5"'), id_feature("flag"), id_feature("city")],
            {"pandas": frame, "polars": polars.from_arrow(table), "columns of pandas": {name: frame[name] for name in frame},
             "objects": {name: frame[name].astype(object).tolist() for name in frame}}, table)

    def test_times(self):
        data = {"at": times().astype("M8[us]"), "day": times(), "click": click()}
        data["at"][5] = np.datetime64("NaT")
        table = pyarrow.table({name: pyarrow.array(values) for name, values in data.items()})
        frame = pandas.DataFrame({"at": pandas.Series(data["at"], dtype="M8[us]"), "click": data["click"]})
        frame["day"] = pandas.Series([value.item() for value in data["day"]], dtype=object)
        self.expect_the_same(
            [id_feature("at"), id_feature("day")],
            {"dict": data, "pandas": frame, "polars": polars.from_arrow(table), "dates": {
                "at": data["at"], "day": [value.item() for value in data["day"]], "click": data["click"]}}, table)

    def test_times_with_a_zone_are_the_same_without_pyarrow(self):
        frame = pandas.DataFrame({"at": pandas.Series(times().astype("M8[us]")).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"),
                                  "click": click()})
        table = pyarrow.Table.from_pandas(frame, preserve_index=False)

        def without_pyarrow():
            with mock.patch.dict(sys.modules, {"pyarrow": None}):
                return emblem.Data(frame)
        self.expect_the_same([id_feature("at")], {"pandas": frame, "without pyarrow": without_pyarrow}, table)

    def test_lists_and_vectors(self):
        bags = [[f"t{one}" for one in draw().integers(0, 30, size)] for size in draw().integers(0, 4, ROWS)]
        vectors = draw().normal(size=(ROWS, 3)).astype(np.float32)
        table = pyarrow.table({"tags": pyarrow.array(bags, pyarrow.list_(pyarrow.string())),
                               "vector": pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.reshape(-1)), 3),
                               "click": click()})
        self.expect_the_same(
            [id_feature("tags"), raw_feature("vector", value_dim=3)],
            {"dict": {"tags": bags, "vector": vectors, "click": click()},
             "pandas": pandas.DataFrame({"tags": bags, "vector": list(vectors), "click": click()}),
             "polars": polars.from_arrow(table)}, table)

    def test_lists_of_one_length_are_bags(self):
        pairs = [[f"t{one}", f"t{one + 1}"] for one in draw().integers(0, 30, ROWS)]
        table = pyarrow.table({"tags": pairs, "click": click()})
        self.expect_the_same([id_feature("tags")], {"dict": {"tags": pairs, "click": click()}}, table)

    def test_structs_and_weighted_bags(self):
        users = [{"age": int(age), "city": f"c{age % 7}"} for age in draw().integers(10, 80, ROWS)]
        tags = [[{"key": f"t{one}", "weight": 0.5} for one in draw().integers(0, 30, size)]
                for size in draw().integers(1, 4, ROWS)]
        table = pyarrow.table({"user": users, "tags": tags, "click": click()})
        named = 'feature_configs { id_feature { feature_name: "age" expression: "item:user.age" hash_bucket_size: 99 embedding_dim: 4 } }'
        self.expect_the_same(
            [named, id_feature("user.city"), id_feature("tags", weighted="true")],
            {"dict": {"user": users, "tags": tags, "click": click()},
             "pandas": pandas.DataFrame({"user": users, "tags": tags, "click": click()}),
             "polars": polars.from_arrow(table)}, table)

    def test_keys_above_2_to_63_keep_their_bits(self):
        user = draw().integers(1 << 63, 1 << 64, ROWS, dtype=np.uint64)
        table = pyarrow.table({"user": user, "click": click()})
        self.expect_the_same([id_feature("user")], {"dict": {"user": user, "click": click()}}, table)

    def test_decimals_are_read_where_pyarrow_is_installed(self):
        price = [decimal.Decimal(int(one)) for one in draw().integers(0, 50, ROWS)]
        self.expect_the_same([id_feature("price")], {"dict": {"price": price, "click": click()}},
                             pyarrow.table({"price": price, "click": click()}))
        with mock.patch.dict(sys.modules, {"pyarrow": None}):
            with self.assertRaisesRegex(emblem.Error, "column 'price' holds values of type Decimal; install pyarrow"):
                emblem.Data({"price": price})

    def test_what_cannot_be_read_is_named(self):
        for message, source in [("complex64", {"x": np.zeros(2, np.complex64)}), ("column 'x' cannot be read", {"x": [object()]}),
                                ("'a' twice", pandas.DataFrame([[1, 2]], columns=["a", "a"])),
                                ("1 rows|has 1 values", {"x": [1, 2], "at": [datetime.timedelta(1)]}),
                                ("no parts", []), ("expected a path", 5)]:
            with self.assertRaisesRegex(emblem.Error, message) as raised:
                emblem.Data(source)
            self.assertNotIn("\n", str(raised.exception))

    def test_columns_of_arrow_and_numpy_are_not_copied(self):
        rows = 10_000_000
        columns = {"x": np.arange(rows), "y": np.zeros(rows)}  # 160 MB
        for source in (columns, pyarrow.table(columns), pandas.DataFrame(columns), polars.DataFrame(columns)):
            before = resident_megabytes()
            data = emblem.Data(source)
            self.assertLess(resident_megabytes() - before, 40, type(source))
            self.assertEqual(data.rows, rows)
            del data


def resident_megabytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


if __name__ == "__main__":
    unittest.main()
