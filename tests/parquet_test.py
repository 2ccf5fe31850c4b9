"""Parquet, ORC and Arrow IPC end to end: files of other writers, the same model from every format, resume, bad files."""

import csv
import datetime
import decimal
import pathlib
import shutil
import tempfile
import unittest

from harness import SOURCE, learned_files, run, use_arrow, use_test_clients

use_arrow()
use_test_clients("pyarrow", "polars", "duckdb")

import duckdb
import numpy
import polars
import pyarrow
import pyarrow.compute
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet

from object_server import ObjectServer
import remote_data_test  # sets the environment

PIPELINE = """
train_input_path: "{data}"
model_dir: "{model}"
train_config {{
  sparse_optimizer {{ adagrad_optimizer {{ lr: 0.02 }} }}
  dense_optimizer {{ adam_optimizer {{ lr: 0.001 }} }}
  num_epochs: 1
  save_checkpoints_steps: 0
  seed: 7
}}
data_config {{ dataset_type: {type} fg_mode: FG_DAG label_fields: "label" batch_size: 256 num_workers: 2 shuffle: false {settings} }}
feature_configs {{ raw_feature {{ feature_name: "I{{1..13}}" normalizer: "method=log,offset=3" }} }}
feature_configs {{ id_feature {{ feature_name: "C{{1..26}}" embedding_dim: 4 {ids} }} }}
model_config {{
  feature_groups {{ group_name: "dense" feature_names: "I{{1..13}}" }}
  feature_groups {{ group_name: "sparse" feature_names: "C{{1..26}}" }}
  dlrm {{ dense_mlp {{ hidden_units: [16, 4] }} final {{ hidden_units: [16] }} }}
  metrics {{ log_loss {{}} }}
}}
"""

TYPES = {"tsv": "CriteoTsvDataset", "csv": "CsvDataset", "raw": "RawDataset", "split": "SplitDataset",
         "parquet": "ParquetDataset", "orc": "OrcDataset", "arrow": "ArrowDataset"}


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def succeed(self, process):
        self.assertEqual(process.returncode, 0, process.stderr)
        return process

    def fail_with(self, process, *texts):
        self.assertNotEqual(process.returncode, 0)
        lines = process.stderr.strip().splitlines()
        self.assertTrue(lines)
        for text in texts:
            self.assertIn(text, lines[-1])

    def rows_of(self, path):
        """What `emblem convert` reads, as lists of texts by column."""
        out = self.folder / "as-csv"
        self.succeed(run("convert", "--from", path, "--to", out, "--format", "csv", "--force"))
        with open(out / "part-00000.csv", newline="") as file:
            rows = list(csv.reader(file))
        return {name: [row[i] for row in rows[1:]] for i, name in enumerate(rows[0])}


class Writers(Folder):
    """Files of pyarrow, Polars, DuckDB, and with Spark's conventions."""

    def table(self):
        when = datetime.datetime(2026, 11, 16, 12, 30, tzinfo=datetime.timezone.utc)
        return pyarrow.table({
            "flag": pyarrow.array([True, False, None]),
            "tiny": pyarrow.array([-128, 127, None], pyarrow.int8()),
            "byte": pyarrow.array([0, 255, None], pyarrow.uint8()),
            "short": pyarrow.array([-32768, 32767, None], pyarrow.int16()),
            "word": pyarrow.array([1, 4294967295, None], pyarrow.uint32()),
            "int": pyarrow.array([-2147483648, 2147483647, None], pyarrow.int32()),
            "long": pyarrow.array([-2**63, 2**63 - 1, None], pyarrow.int64()),
            "ulong": pyarrow.array([1, 2**63 - 1, None], pyarrow.uint64()),
            "half": pyarrow.array(numpy.array([0.5, -2.0, 65504.0], numpy.float16)),
            "float": pyarrow.array([0.25, -1e30, None], pyarrow.float32()),
            "double": pyarrow.array([0.125, 3.0, None], pyarrow.float64()),
            "whole_decimal": pyarrow.array([decimal.Decimal(12345), decimal.Decimal(-7), None], pyarrow.decimal128(20, 0)),
            "decimal": pyarrow.array([decimal.Decimal("1.25"), decimal.Decimal("-0.50"), None], pyarrow.decimal128(9, 2)),
            "date": pyarrow.array([datetime.date(1970, 1, 11), datetime.date(1969, 12, 31), None]),
            "time": pyarrow.array([when, when, None], pyarrow.timestamp("us")),
            "text": pyarrow.array(["a", "bc", None]),
            "words": pyarrow.array(["x", "y", "x"]).dictionary_encode(),
            "bytes": pyarrow.array([b"q", b"rs", None], pyarrow.binary()),
            "bag": pyarrow.array([[1, 2], [], None], pyarrow.list_(pyarrow.int64())),
            "texts": pyarrow.array([["a", "b"], ["c"], []], pyarrow.list_(pyarrow.string())),
            "vector": pyarrow.array([[1.0, 2.0], [3.0, 4.5], None], pyarrow.list_(pyarrow.float32(), 2)),
            "weights": pyarrow.array([[("k", 0.5), ("l", 2.0)], [], None], pyarrow.map_(pyarrow.string(), pyarrow.float32())),
            "pairs": pyarrow.array([[{"key": 4, "weight": 1.5}], [], [{"key": 5, "weight": 0.5}]],
                                   pyarrow.list_(pyarrow.struct([("key", pyarrow.int64()), ("weight", pyarrow.float32())]))),
            "user": pyarrow.array([{"age": 30, "city": "x"}, None, {"age": 40, "city": None}],
                                  pyarrow.struct([("age", pyarrow.int32()), ("city", pyarrow.string())])),
        })

    EXPECTED = {
        "flag": ["1", "0", ""], "tiny": ["-128", "127", ""], "byte": ["0", "255", ""], "short": ["-32768", "32767", ""],
        "word": ["1", "4294967295", ""], "int": ["-2147483648", "2147483647", ""],
        "long": [str(-2**63), str(2**63 - 1), ""], "ulong": ["1", str(2**63 - 1), ""], "half": ["0.5", "-2", "65504"],
        "float": ["0.25", "-1e+30", ""], "double": ["0.125", "3", ""], "whole_decimal": ["12345", "-7", ""],
        "decimal": ["1.25", "-0.50", ""], "date": ["1970-01-11", "1969-12-31", ""], "time": ["2026-11-16 12:30:00"] * 2 + [""],
        "text": ["a", "bc", ""], "words": ["x", "y", "x"], "bytes": ["q", "rs", ""],
        "bag": ["1\x1d2", "", ""], "texts": ["a\x1db", "c", ""], "vector": ["1\x1d2", "3\x1d4.5", ""],
        "weights": ["k:0.5\x1dl:2", "", ""], "pairs": ["4:1.5", "", "5:0.5"],
        "user.age": ["30", "", "40"], "user.city": ["x", "", ""],
    }

    def check(self, path, expected=None):
        found = self.rows_of(path)
        for name, values in (expected or self.EXPECTED).items():
            self.assertEqual(found.get(name), values, name)

    def test_types_and_encodings_of_pyarrow(self):
        path = self.folder / "a.parquet"
        for options in ({}, {"use_dictionary": False}, {"data_page_version": "2.0", "compression": "zstd"},
                        {"compression": "none", "row_group_size": 2, "write_page_checksum": True},
                        {"use_compliant_nested_type": False, "compression": "brotli", "data_page_size": 1},
                        {"store_decimal_as_integer": True, "compression": "lz4"}):
            with self.subTest(options):
                pyarrow.parquet.write_table(self.table(), path, **options)
                self.check(path)

    def test_delta_and_byte_stream_split_encodings(self):
        path = self.folder / "a.parquet"
        table = pyarrow.table({"n": list(range(1000)), "x": pyarrow.array([i / 8 for i in range(1000)], pyarrow.float32()),
                               "s": [f"value {i % 37}" for i in range(1000)]})
        pyarrow.parquet.write_table(table, path, use_dictionary=False, column_encoding={
            "n": "DELTA_BINARY_PACKED", "x": "BYTE_STREAM_SPLIT", "s": "DELTA_BYTE_ARRAY"})
        found = self.rows_of(path)
        self.assertEqual(found["n"], [str(i) for i in range(1000)])
        self.assertEqual([float(x) for x in found["x"]], [i / 8 for i in range(1000)])
        self.assertEqual(found["s"], [f"value {i % 37}" for i in range(1000)])

    def test_arrow_ipc(self):
        for name, options in (("a.arrow", {"compression": "uncompressed"}), ("b.arrow", {"compression": "zstd", "chunksize": 2})):
            pyarrow.feather.write_feather(self.table(), self.folder / name, **options)
            self.check(self.folder / name)

    def test_orc(self):
        table = self.table().drop_columns(["half", "byte", "word", "ulong", "words", "vector", "user"])
        pyarrow.orc.write_table(table, self.folder / "a.orc", compression="zlib")
        expected = {name: values for name, values in self.EXPECTED.items() if name in table.column_names}
        self.check(self.folder / "a.orc", expected)

    def test_lists_longer_than_a_page_and_lists_of_lists(self):
        chance = numpy.random.default_rng(5)
        bags = [[int(x) for x in chance.integers(0, 50, chance.integers(0, 30))] for _ in range(3000)]
        nested = [[bag[:3], [], bag[3:5]][:i % 4] for i, bag in enumerate(bags)]
        table = pyarrow.table({"bag": pyarrow.array(bags, pyarrow.list_(pyarrow.int32())),
                               "texts": pyarrow.array([[str(x) for x in bag] for bag in bags], pyarrow.list_(pyarrow.string())),
                               "nested": pyarrow.array(nested, pyarrow.list_(pyarrow.list_(pyarrow.int64())))})
        for dictionary in (True, False):
            pyarrow.parquet.write_table(table, self.folder / "a.parquet", use_dictionary=dictionary, data_page_size=256,
                                        row_group_size=1100)
            copy = self.folder / "copy"
            self.succeed(run("convert", "--from", self.folder / "a.parquet", "--to", copy, "--format", "parquet", "--force",
                             "--row-group-rows", "700", "--compression", "zstd"))
            found = pyarrow.parquet.read_table(copy / "part-00000.parquet")
            self.assertEqual(found["bag"].to_pylist(), bags)
            self.assertEqual(found["texts"].to_pylist(), [[str(x) for x in bag] for bag in bags])
            self.assertEqual(found["nested"].to_pylist(), nested)

    def exact_table(self):
        """Values that 32-bit floats and signed integers do not hold."""
        when = datetime.datetime(2026, 11, 18, 4, 30, 0, 123456)
        return pyarrow.table({
            "label": pyarrow.array([0.0, 1.0, 1.0]),
            "double": pyarrow.array([53346166043.0, 0.123456789012, 0.10000000149011612]),
            "unsigned": pyarrow.array([2**64 - 1, 5, None], pyarrow.uint64()),
            "price": pyarrow.array([decimal.Decimal("1234567.89"), decimal.Decimal("-0.50"), None], pyarrow.decimal128(12, 2)),
            "wide": pyarrow.array([decimal.Decimal("12345678901234567890.123"), None, None], pyarrow.decimal128(38, 3)),
            "time": pyarrow.array([when, None, when], pyarrow.timestamp("us")),
            "zoned": pyarrow.array([when, None, when], pyarrow.timestamp("ms", tz="UTC")),
            "date": pyarrow.array([datetime.date(2026, 11, 18), None, datetime.date(1969, 12, 31)]),
            "text": pyarrow.array(["NA", "007", "a,b"]),
            "vector": pyarrow.array([[0.1, None], [], [53346166043.0, 3.0]], pyarrow.list_(pyarrow.float64())),
            "nested": pyarrow.array([[["a", "b"], ["c"]], [], [["d"]]], pyarrow.list_(pyarrow.list_(pyarrow.string()))),
            "weights": pyarrow.array([[("k", 0.5), ("l", 2.0)], [], [("m", 1.0)]],
                                     pyarrow.map_(pyarrow.string(), pyarrow.float32())),
            "bytes": pyarrow.array([b"\xff\x00\n", b"rs", None], pyarrow.binary()),
        })

    def check_exact(self, found, table, names):
        for name in names:
            expected = table[name].to_pylist()
            if name == "weights":
                expected = [[{"key": key, "weight": weight} for key, weight in row] for row in expected]
            if name == "price":
                expected = [None if value is None else float(value) for value in expected]
            if name == "wide":
                expected = [None if value is None else str(value) for value in expected]
            self.assertEqual(found[name].to_pylist(), expected, name)

    def test_copies_keep_types_and_values(self):
        table = self.exact_table()
        pyarrow.parquet.write_table(table, self.folder / "a.parquet", version="2.6")
        pyarrow.feather.write_feather(table, self.folder / "a.arrow", compression="uncompressed")
        readers = {"parquet": pyarrow.parquet.read_table, "arrow": pyarrow.feather.read_table}
        for form in readers:
            for copied, read in readers.items():
                self.succeed(run("convert", "--from", self.folder / f"a.{form}", "--to", self.folder / "copy",
                                 "--format", copied, "--force"))
                found = read(self.folder / f"copy/part-00000.{copied}")
                self.check_exact(found, table, table.column_names)
                for name in ("double", "unsigned", "time", "zoned", "date", "bytes", "vector"):
                    self.assertEqual(found.schema.field(name).type, table.schema.field(name).type, name)

    def test_what_a_format_cannot_hold_is_refused_by_name(self):
        table = self.exact_table().select(["label", "unsigned", "bytes"])
        pyarrow.parquet.write_table(table, self.folder / "a.parquet")
        convert = ["convert", "--from", self.folder / "a.parquet", "--to", self.folder / "copy", "--format"]
        self.fail_with(run(*convert, "orc"), "unsigned", str(2**64 - 1), "write parquet or arrow")
        self.fail_with(run(*convert, "csv"), "row 1, column bytes", "not UTF-8", "write parquet")
        pyarrow.parquet.write_table(table.drop_columns(["bytes"]), self.folder / "a.parquet")
        self.succeed(run(*convert, "csv"))
        self.assertEqual((self.folder / "copy/part-00000.csv").read_text(), f"label,unsigned\n0,{2**64 - 1}\n1,5\n1,\n")

    def test_kept_columns_keep_types_and_values(self):
        table = self.exact_table()
        pyarrow.parquet.write_table(table, self.folder / "a.parquet", version="2.6")
        config = self.folder / "p.config"
        config.write_text(f"""
            train_input_path: "{self.folder}/a.parquet" model_dir: "{self.folder}/model"
            train_config {{ sparse_optimizer {{ adagrad_optimizer {{ lr: 0.02 }} }} dense_optimizer {{ adam_optimizer {{ lr: 0.001 }} }}
                           num_epochs: 1 }}
            data_config {{ dataset_type: ParquetDataset fg_mode: FG_DAG label_fields: "label" batch_size: 4 }}
            feature_configs {{ id_feature {{ feature_name: "text" hash_bucket_size: 10 embedding_dim: 4 }} }}
            model_config {{ feature_groups {{ group_name: "deep" feature_names: "text" }} dnn {{ deep {{ hidden_units: 4 }} }} }}""")
        self.succeed(run("train", "--config", config))
        names = [name for name in table.column_names if name != "label"]
        predict = ["predict", "--checkpoint", self.folder / "model", "--input", self.folder / "a.parquet"]
        self.succeed(run(*predict, "--keep", ",".join(names), "--out", self.folder / "out.parquet"))
        self.check_exact(pyarrow.parquet.read_table(self.folder / "out.parquet"), table, names)
        self.fail_with(run(*predict, "--keep", "double,bytes", "--out", self.folder / "out.csv"), "bytes", "not UTF-8")
        self.succeed(run(*predict, "--keep", "double,unsigned,price,wide", "--out", self.folder / "out.csv"))
        first = (self.folder / "out.csv").read_text().splitlines()[1]
        self.assertTrue(first.startswith(f"53346166043,{2**64 - 1},1234567.89,12345678901234567890.123,"), first)

    def test_spark_conventions(self):
        table = pyarrow.table({"time": pyarrow.array([datetime.datetime(2026, 11, 16, 12, 30), None], pyarrow.timestamp("ns")),
                               "bag": pyarrow.array([[1, 2], None], pyarrow.list_(pyarrow.int64())),
                               "price": pyarrow.array([decimal.Decimal("9.99"), None], pyarrow.decimal128(10, 2))})
        # INT96 timestamps, lists called "bag.array" in old files, decimals as fixed bytes.
        pyarrow.parquet.write_table(table, self.folder / "a.parquet", flavor="spark", use_deprecated_int96_timestamps=True,
                                    use_compliant_nested_type=False)
        self.check(self.folder / "a.parquet", {"time": ["2026-11-16 12:30:00", ""], "bag": ["1\x1d2", ""], "price": ["9.99", ""]})

    def test_folders_of_spark(self):
        """Marks of a finished job and checksums are skipped; folders of partitions are read in their order."""
        folder = self.folder / "rows.parquet"
        for day in (2, 1):
            part = folder / f"day={day}" / "part-00000-5d2c9a.c000.snappy.parquet"
            part.parent.mkdir(parents=True)
            pyarrow.parquet.write_table(pyarrow.table({"n": [day, day + 10]}), part)
            (part.parent / f".{part.name}.crc").write_bytes(b"crc\0\1\2\3\4")
        for name in ("_SUCCESS", "._SUCCESS.crc"):
            (folder / name).write_bytes(b"")
        self.check(folder, {"n": ["1", "11", "2", "12"]})
        self.check(folder / "day=2", {"n": ["2", "12"]})
        self.check(f"{folder}/day=*", {"n": ["1", "11", "2", "12"]})

    def test_lists_of_two_levels(self):
        # As parquet-avro and Hive wrote them: the repeated field is the element.
        self.check(SOURCE / "tests/data/two_level_list.parquet", {"id": ["1", "2", "3"], "bag": ["10\x1d20", "", "30"]})

    def test_polars(self):
        frame = polars.DataFrame({"n": [1, None, 3], "s": ["a", None, "c"], "bag": [[1, 2], [], None], "x": [0.5, None, 1.5],
                                  "words": polars.Series(["u", "v", "u"], dtype=polars.Categorical)})
        expected = {"n": ["1", "", "3"], "s": ["a", "", "c"], "bag": ["1\x1d2", "", ""], "x": ["0.5", "", "1.5"],
                    "words": ["u", "v", "u"]}
        frame.write_parquet(self.folder / "a.parquet")
        self.check(self.folder / "a.parquet", expected)
        frame.write_ipc(self.folder / "a.arrow")
        self.check(self.folder / "a.arrow", expected)

    def test_duckdb(self):
        duckdb.sql(f"""COPY (SELECT i AS n, i / 4.0 AS x, 'v' || (i % 3) AS s, [i, i + 1] AS bag, MAP {{'k': i}} AS m
                       FROM range(5) t(i)) TO '{self.folder}/a.parquet' (FORMAT parquet, ROW_GROUP_SIZE 2048)""")
        self.check(self.folder / "a.parquet", {
            "n": ["0", "1", "2", "3", "4"], "x": ["0", "0.25", "0.5", "0.75", "1"], "s": ["v0", "v1", "v2", "v0", "v1"],
            "bag": [f"{i}\x1d{i + 1}" for i in range(5)], "m": [f"k:{i}" for i in range(5)]})

    def test_others_read_what_emblem_writes(self):
        for form, ending in (("parquet", "parquet"), ("orc", "orc"), ("arrow", "arrow")):
            out = self.folder / form
            self.succeed(run("synth", "--rows", "3000", "--test-rows", "10", "--out", out, "--format", form))
            path = out / f"train/part-00000.{ending}"
            table = {"parquet": pyarrow.parquet.read_table, "orc": pyarrow.orc.read_table,
                     "arrow": pyarrow.feather.read_table}[form](path)
            self.assertEqual(table.num_rows, 3000)
            self.assertEqual(table.num_columns, 40)
            self.assertGreater(table["I1"].null_count, 0)
        path = self.folder / "parquet/train/part-00000.parquet"
        self.assertEqual(polars.read_parquet(path).shape, (3000, 40))
        self.assertEqual(duckdb.sql(f"SELECT count(*) FROM '{path}'").fetchall(), [(3000,)])
        self.assertTrue(pyarrow.parquet.read_table(path, page_checksum_verification=True))


class Models(Folder):
    """The same rows give the same model, whatever their format."""

    rows = 6000

    def setUp(self):
        super().setUp()
        self.raw = self.folder / "raw"
        self.succeed(run("synth", "--rows", self.rows, "--test-rows", "10", "--out", self.raw, "--format", "raw", "--scale", "0.001"))

    def data(self, form, *options):
        if form == "raw":
            return self.raw / "train"
        out = self.folder / f"data-{form}"
        self.succeed(run("convert", "--from", self.raw / "train", "--to", out, "--format", form, "--force", *options))
        return out

    def train(self, form, data, model, *options, ids="dynamicemb { max_capacity: 2000 }", settings=""):
        if form == "csv":
            settings += " with_header: true"
        config = self.folder / "pipeline.config"
        config.write_text(PIPELINE.format(data=data, model=model, type=TYPES[form], ids=ids, settings=settings))
        return run("train", "--config", config, *options)

    def learned(self, model):
        return learned_files(max(pathlib.Path(model).glob("model.ckpt-*"), key=lambda path: int(path.name.split("-")[1])))

    def test_every_format_gives_the_same_model(self):
        for ids in ("dynamicemb { max_capacity: 2000 }", "hash_bucket_size: 1000"):
            expected = None
            for form in TYPES:
                options = ["--row-group-rows", "1000"] if form in ("parquet", "orc", "arrow") else []
                model = self.folder / "model"
                shutil.rmtree(model, ignore_errors=True)
                # CSV reads ids as text unless told: both are hashed alike.
                types = " ".join(f'input_fields {{ input_name: "C{i}" input_type: INT64 }}' for i in range(1, 27))
                self.succeed(self.train(form, self.data(form, *options), model, ids=ids, settings=types if form == "csv" else ""))
                found = self.learned(model)
                expected = expected or found
                self.assertEqual(expected, found, f"{form}, {ids}")

    def test_every_format_of_a_store_gives_the_same_model(self):
        expected = None
        types = " ".join(f'input_fields {{ input_name: "C{i}" input_type: INT64 }}' for i in range(1, 27))
        with ObjectServer() as store:
            for form in TYPES:
                data = self.data(form, *(["--row-group-rows", "1000"] if form in ("parquet", "orc", "arrow") else []))
                store.put_folder("data", f"{form}/", data)
                for where in (data, f"s3://data/{form}/", f"gs://data/{form}/"):
                    model = self.folder / "model"
                    shutil.rmtree(model, ignore_errors=True)
                    self.succeed(self.train(form, where, model, "--endpoint", store.url, "--cache-dir", self.folder / "cache",
                                            settings=types if form == "csv" else ""))
                    expected = expected or self.learned(model)
                    self.assertEqual(expected, self.learned(model), where)

    def test_text_keys_are_hashed_as_those_of_csv(self):
        table = pyarrow.parquet.read_table(self.data("parquet") / "part-00000.parquet")
        for i in range(1, 27):
            name = f"C{i}"
            table = table.set_column(table.column_names.index(name), name, table[name].cast(pyarrow.string()))
        text = self.folder / "text.csv"
        polars.from_arrow(table).write_csv(text)
        expected = None
        for name, options in (("plain", {"use_dictionary": False}), ("codes", {}), ("mixed", {"dictionary_pagesize_limit": 300})):
            path = self.folder / f"{name}.parquet"
            pyarrow.parquet.write_table(table, path, row_group_size=1700, **options)
            model = self.folder / f"model-{name}"
            self.succeed(self.train("parquet", path, model, ids="hash_bucket_size: 1000"))
            expected = expected or self.learned(model)
            self.assertEqual(expected, self.learned(model), name)
        self.succeed(self.train("csv", text, self.folder / "model-csv", ids="hash_bucket_size: 1000"))
        self.assertEqual(expected, self.learned(self.folder / "model-csv"))

    def test_resume_in_the_middle_of_a_row_group(self):
        data = self.data("parquet", "--row-group-rows", "2500")
        for shuffle in ("false", "true"):
            settings = "sample_ratio: 0.9 shuffle_buffer_size: 3"
            options = ["--set", f"data_config.shuffle={shuffle}", "--set", "train_config.num_epochs=3"]
            whole, parts = self.folder / f"whole-{shuffle}", self.folder / f"parts-{shuffle}"
            self.succeed(self.train("parquet", data, whole, "--max-steps", "30", *options, settings=settings))
            self.succeed(self.train("parquet", data, parts, "--max-steps", "13", *options, settings=settings))
            self.succeed(self.train("parquet", data, parts, "--max-steps", "30", "--resume", *options, settings=settings))
            self.assertEqual(learned_files(whole / "model.ckpt-30"), learned_files(parts / "model.ckpt-30"))

    def test_filters_read_the_rows_that_fulfil_them(self):
        path = self.data("parquet", "--row-group-rows", "500") / "part-00000.parquet"
        table = pyarrow.parquet.read_table(path)
        limit = sorted(table["I1"].to_pylist())[len(table) // 2]
        kept = table.filter(pyarrow.compute.greater_equal(table["I1"], limit))
        pyarrow.parquet.write_table(kept, self.folder / "kept.parquet")
        self.succeed(self.train("parquet", path, self.folder / "filtered", settings=f'filters: "I1 >= {limit}"'))
        self.succeed(self.train("parquet", self.folder / "kept.parquet", self.folder / "kept"))
        self.assertEqual(self.learned(self.folder / "filtered"), self.learned(self.folder / "kept"))

    def test_predictions_as_parquet(self):
        data = self.data("parquet")
        self.succeed(self.train("parquet", data, self.folder / "model"))
        for name in ("out.csv", "out.parquet"):
            self.succeed(run("predict", "--checkpoint", self.folder / "model", "--input", data, "--out", self.folder / name,
                             "--keep", "C1,label"))
        table = pyarrow.parquet.read_table(self.folder / "out.parquet")
        with open(self.folder / "out.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([str(table.schema.field(name).type) for name in ("C1", "label", "prediction")],
                         ["int64", "float", "float"])
        self.assertEqual(table["C1"].to_pylist(), [int(row["C1"]) for row in rows])
        self.assertEqual(table["prediction"].to_pylist(), [numpy.float32(row["prediction"]) for row in rows])

    def test_synthetic_data_of_a_pipeline_with_sequences(self):
        models = {}
        for form in ("csv", "parquet"):
            out = self.folder / f"synth-{form}"
            config = SOURCE / "configs/taobao/multi_tower_din.config"
            self.succeed(run("synth", "--for", config, "--rows", "2000", "--out", out, "--format", form, "--divide-tables", "1000"))
            overrides = ["--set", f"data_config.dataset_type={TYPES[form]}"]
            self.succeed(run("train", "--config", config, "--model-dir", self.folder / f"model-{form}",
                             "--set", f"train_input_path={out}/train", "--set", f"eval_input_path={out}/test",
                             "--set", "data_config.batch_size=256", "--set", "data_config.shuffle=false",
                             "--divide-tables", "1000", *overrides))
            models[form] = self.learned(self.folder / f"model-{form}")
        self.assertEqual(models["csv"], models["parquet"])
        schema = pyarrow.parquet.read_schema(self.folder / "synth-parquet/train/part-00000.parquet")
        self.assertTrue(any(pyarrow.types.is_list(field.type) for field in schema), schema)


class Starters(Folder):
    def test_a_pipeline_for_typed_columns_trains(self):
        chance = numpy.random.default_rng(3)
        rows = 600
        ages = [int(age) for age in chance.integers(18, 80, rows)]
        labels = [int(age + chance.normal(0, 10) > 45) for age in ages]
        day = datetime.date(2026, 1, 1)
        columns = {
            "label": labels,
            "age": [None if i % 7 == 0 else age for i, age in enumerate(ages)],
            "bag": [[None, 1, 2][:i % 4] + ages[i:i + 2] for i in range(rows)],
            "words": [["a", "b", None][:i % 4] for i in range(rows)],
            "vector": pyarrow.array([None if i % 50 == 0 else [age / 3, 0.5, None] for i, age in enumerate(ages)],
                                    pyarrow.list_(pyarrow.float32())),
            "uneven": [[0.5] * (1 + i % 3) for i in range(rows)],
            "nested": [[["a"], ["b", "c"]]] * rows,
            "date": [day + datetime.timedelta(days=age) for age in ages],
            "time": [datetime.datetime(2026, 1, 1) + datetime.timedelta(seconds=37 * age) for age in ages],
            "bytes": [bytes([200, 10, age]) for age in ages],
            "ascii": [b"x" if age % 2 else b"y" for age in ages],
            "large": pyarrow.array([2**64 - 1 - age % 40 for age in ages], pyarrow.uint64()),
        }
        path = self.folder / "a.parquet"
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
        config = self.folder / "p.config"
        shown = self.succeed(run("init", path, "--label", "label", "--out", config, "--model-dir", self.folder / "model")).stdout
        lines = {line.split()[0]: line for line in shown.splitlines() if line}
        for name, text in {"age": "number", "bag": "category", "words": "category", "vector": "3 numbers",
                           "uneven": "skipped: lists of 1 to 3 numbers", "nested": "skipped: list of lists",
                           "date": "days, weekday", "time": "skipped: one date", "bytes": "skipped: binary", "ascii": "category",
                           "large": "category"}.items():
            self.assertIn(text, lines[name])
        self.assertIn("14.3 %", lines["age"])
        self.assertRegex(lines["bag"], r" - +[0-9]")
        self.assertIn("value_dim: 3", config.read_text())
        self.succeed(run("train", "--config", config))
        self.fail_with(run("init", path, "--label", "label", "--out", "-", "--categories", "bytes"), "bytes", "binary")
        self.fail_with(run("init", path, "--label", "age", "--out", "-"), "age")


class BadFiles(Folder):
    def inspect(self, path):
        return run("inspect", path)

    def test_truncated_files_and_corrupt_pages(self):
        path = self.folder / "a.parquet"
        table = pyarrow.table({"label": [0.0, 1.0] * 5000, "C1": list(range(10000))})
        pyarrow.parquet.write_table(table, path, write_page_checksum=True, use_dictionary=False)
        whole = path.read_bytes()
        path.write_bytes(whole[:len(whole) // 2])
        self.fail_with(self.inspect(path), "a.parquet")
        path.write_bytes(b"PAR1")
        self.fail_with(self.inspect(path), "a.parquet")
        damaged = bytearray(whole)
        damaged[len(damaged) // 2] ^= 4
        path.write_bytes(damaged)
        self.fail_with(self.inspect(path), "a.parquet: row group 1, column", "CRC")

    def test_damaged_lengths_of_lists_and_texts(self):
        # Made by parquet_fuzz_slow_test.py: reading them crashed in Arrow's ORC reader.
        for name in ("damaged_list.orc", "damaged_text.orc"):
            self.fail_with(self.inspect(SOURCE / "tests/data" / name), f"{name}: stripe 1", "the file is damaged")

    def test_types_that_do_not_fit(self):
        config = self.folder / "pipeline.config"
        config.write_text("""model_dir: "%s/model" train_config { num_epochs: 1 sparse_optimizer { sgd_optimizer { lr: 0.1 } }
            dense_optimizer { sgd_optimizer { lr: 0.1 } } }
            data_config { dataset_type: ParquetDataset fg_mode: FG_DAG batch_size: 4 label_fields: "label" }
            feature_configs { id_feature { feature_name: "id" num_buckets: 100 embedding_dim: 4 } }
            model_config { feature_groups { group_name: "all" feature_names: "id" } dnn { deep { hidden_units: [4] } } }""" % self.folder)
        path = self.folder / "a.parquet"

        def train(column, label=None):
            label = label or [0.0, 1.0] * 4
            pyarrow.parquet.write_table(pyarrow.table({"label": label, "id": column}), path)
            shutil.rmtree(self.folder / "model", ignore_errors=True)
            return run("train", "--config", config, "--train-input", path)

        self.succeed(train([1, 2] * 4))
        self.succeed(train(["1", "2"] * 4))
        self.succeed(train([1.0, None] * 4))  # as pandas has ids with missing values
        self.succeed(train([[1], []] * 4))
        self.succeed(train([1, 2] * 4, [[0], [1]] * 4))  # labels in lists of one
        self.fail_with(train(["1"] * 6 + ["x", "1"]), "a.parquet: row 7", "column id", "not an integer")
        self.fail_with(train([1.0] * 5 + [1.5] * 3), "a.parquet: row 6", "column id", "1.5 is not an integer")
        self.fail_with(train([1, 2] * 4, [[0], [1, 1]] * 4), "a.parquet: row 2", "column label", "a list of 2 values")
        self.fail_with(train([[[1]], [[2]]] * 4), "a.parquet: column \"id\" is list<list<int64>>")
        self.fail_with(train([1, 200] * 4), "a.parquet: row 2", "id 200 is outside")

    def test_schemas_that_change_between_files(self):
        config = self.folder / "pipeline.config"
        config.write_text("""model_dir: "none" train_config { num_epochs: 1 sparse_optimizer { sgd_optimizer { lr: 0.1 } }
            dense_optimizer { sgd_optimizer { lr: 0.1 } } }
            data_config { dataset_type: ParquetDataset fg_mode: FG_DAG batch_size: 4 label_fields: "label" }
            feature_configs { id_feature { feature_name: "id" num_buckets: 100 embedding_dim: 4 } }
            model_config { feature_groups { group_name: "all" feature_names: "id" } dnn { deep { hidden_units: [4] } } }""")
        data = self.folder / "data"
        data.mkdir()

        def train(**columns):
            for name, table in (("a", {"label": [0.0, 1.0], "id": [1, 2]}), ("b", columns)):
                pyarrow.parquet.write_table(pyarrow.table(table), data / f"{name}.parquet")
            return run("train", "--config", config, "--train-input", data, "--model-dir", tempfile.mkdtemp(dir=self.folder))

        self.succeed(train(more=["x", "y"], id=[3, 4], label=[0.0, 1.0]))  # others, and another order
        self.fail_with(train(label=[0.0, 1.0], id=["3", "4"]), 'b.parquet: column "id" is string, but it is int64 in', "a.parquet",
                       "expected the same types in all files")
        self.fail_with(train(label=[0.0, 1.0], user=[3, 4]), 'b.parquet has no column "id"', "a.parquet")
        self.fail_with(train(label=[0, 1], id=[3, 4]), 'b.parquet: column "label" is int64, but it is double in')

    def test_inspect(self):
        path = self.folder / "a.parquet"
        pyarrow.parquet.write_table(pyarrow.table({"label": [0, 1, 1, None], "s": ["a", "b", "a", None],
                                                   "bag": [[1, 2], [2], [], None]}), path, row_group_size=2)
        text = self.succeed(self.inspect(path)).stdout
        for part in ("ParquetDataset", "rows     4", "2 row groups of up to 2 rows", "list<int64>", "string", "25.00%",
                     "2 rows are 1"):
            self.assertIn(part, text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
