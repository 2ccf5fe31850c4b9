"""Columns of every type (52), written by pandas, Polars, DuckDB and pyarrow in each format that they have, and as CSV: a
model that was trained on one of these files predicts the same bytes on all others, or refuses the file by column."""

import datetime
import decimal
import math
import pathlib
import shutil
import tempfile
import unittest

from harness import SMALL_PIPELINE, run, use_arrow, use_test_clients

use_arrow()
use_test_clients("pyarrow", "pandas", "polars", "duckdb")
import duckdb
import pandas
import polars
import pyarrow
import pyarrow.csv
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet

ROWS = 300
READERS = {"csv": "CsvDataset", "parquet": "ParquetDataset", "orc": "OrcDataset", "arrow": "ArrowDataset"}
DAY = datetime.date(2026, 11, 16)
TIME = datetime.datetime(2026, 11, 16, 12, 30)


def repeated(values, gap=None):
    """The values over and over, None in every row that `gap` divides."""
    return [None if gap and row % gap == 0 else values[row % len(values)] for row in range(ROWS)]


def scalars():
    """Columns of one value per row, which every pair of files agrees on."""
    p = pyarrow
    price = [decimal.Decimal(text) for text in ("1.50", "12.25", "0.00", "100.00")]
    columns = {
        "label": p.array([int(row % 7 in (1, 2, 4)) for row in range(ROWS)]),
        "int8": p.array(repeated([-128, 0, 127]), p.int8()),
        "int16": p.array(repeated([-32768, 5, 32767]), p.int16()),
        "int32": p.array(repeated([-2**31, 9, 2**31 - 1]), p.int32()),
        "int64": p.array(repeated([9, -9, 0, 1000]), p.int64()),
        "largest": p.array(repeated([2**63 - 1, -2**63 + 1, 2**53 + 1]), p.int64()),
        "smallest": p.array(repeated([-2**63, 7, 8]), p.int64()),
        "uint8": p.array(repeated([0, 255]), p.uint8()),
        "uint16": p.array(repeated([1, 65535]), p.uint16()),
        "uint32": p.array(repeated([2, 2**32 - 1]), p.uint32()),
        "gaps": p.array(repeated([9, 10, 11], 5), p.int64()),
        "small_gaps": p.array(repeated([1, 2, 3], 7), p.int16()),
        "bool": p.array(repeated([True, False, True])),
        "bool_gaps": p.array(repeated([True, False], 5)),
        "float": p.array(repeated([0.1, 2.5, -3.25]), p.float32()),
        "whole_float": p.array(repeated([9, 10, 12]), p.float32()),
        "double": p.array(repeated([0.1, 1 / 3, -2.25])),
        "whole_double": p.array(repeated([9.0, 10.0, -12.0])),
        "double_gaps": p.array(repeated([9.0, 0.5, 1.25], 5)),
        "decimal": p.array(repeated(price), p.decimal128(10, 2)),
        "whole_decimal": p.array(repeated([decimal.Decimal(9), decimal.Decimal(-10)]), p.decimal128(12, 0)),
        "words": p.array(repeated(["web", "app", "desktop"])),
        "word_gaps": p.array(repeated(["red", "green", "blue"], 4)),
        "digits": p.array(repeated(["9", "10", "11"])),
        "points": p.array(repeated(["9.0", "10.0"])),
        "zip": p.array(repeated(["00501", "10001", "94105"])),
        "versions": p.array(repeated(["1.1", "1.10", "2.0"])),
        "truth": p.array(repeated(["yes", "no"])),
        "capitals": p.array(repeated(["True", "False"])),
        "unicode": p.array(repeated(["Zürich", "東京", "naïve"])),
        "quotes": p.array(repeated(['a "b"', "c, d", "e;f"])),
        "long_text": p.array(repeated(["x" * 300, "y" * 299])),
        "category": p.array(repeated(["north", "south", "east"])).dictionary_encode(),
        "date": p.array(repeated([DAY, DAY + datetime.timedelta(1), datetime.date(1969, 12, 31)])),
        "date_gaps": p.array(repeated([DAY, DAY + datetime.timedelta(9)], 6)),
    }
    return p.table(columns)


def times():
    """Times, whose text differs between writers of CSV."""
    p = pyarrow
    later = [TIME + datetime.timedelta(seconds=3601 * i) for i in range(4)]
    return p.table({
        "label": p.array([int(row % 4 in (1, 2)) for row in range(ROWS)]),
        "timestamp": p.array(repeated(later), p.timestamp("us")),
        "milliseconds": p.array(repeated([time + datetime.timedelta(milliseconds=5) for time in later]), p.timestamp("ms")),
        "nanoseconds": p.array(repeated(later), p.timestamp("ns")),
        "zoned": p.array(repeated(later), p.timestamp("us", tz="UTC")),
        "time": p.array(repeated([datetime.time(1, 2, 3), datetime.time(23, 59, 59)]), p.time64("us")),
    })


def extremes():
    """Numbers whose text differs between writers of CSV, and that ORC or pandas does not have."""
    p = pyarrow
    wide = [decimal.Decimal("12345678901234567890.12"), decimal.Decimal("1.10")]
    return p.table({
        "label": p.array([int(row % 3 == 1) for row in range(ROWS)]),
        "uint64": p.array(repeated([2**64 - 1, 2**63, 5]), p.uint64()),
        "infinite": p.array(repeated([math.inf, -math.inf, 1.5])),
        "nan": p.array(repeated([math.nan, 1.5, 2.0])),
        "huge": p.array(repeated([1e20, 1e300, -1e16])),
        "tiny": p.array(repeated([1e-7, 2.5e-300, 3.0])),
        "whole": p.array(repeated([2.0**53, 2.0**60, 1e15])),
        "minus_zero": p.array(repeated([-0.0, 1.0])),
        "wide_decimal": p.array(repeated(wide), p.decimal128(38, 2)),
        "wide_float": p.array(repeated([16777217.0, 3e38, 0.1]), p.float32()),
        "nothing": p.array([None] * ROWS, p.string()),
    })


def lists():
    """Lists, which no CSV file of these writers holds."""
    p = pyarrow
    return p.table({
        "label": p.array([int(row % 3 == 1) for row in range(ROWS)]),
        "integers": p.array(repeated([[1, 2], [3], [2, 3, 4]]), p.list_(p.int64())),
        "texts": p.array(repeated([["a", "b"], ["c"], []]), p.list_(p.string())),
        "doubles": p.array(repeated([[1.0, 0.5], [2.0], [3.0]]), p.list_(p.float64())),
    })


def write_pandas(table, folder):
    frame = table.to_pandas()
    frame.to_csv(folder / "pandas.csv", index=False)
    frame.to_parquet(folder / "pandas.parquet", index=False)
    frame.to_feather(folder / "pandas.arrow", compression="uncompressed")
    for column, type in frame.dtypes.items():  # ORC has neither
        if str(type).startswith("uint"):
            frame[column] = frame[column].astype("int64")
        if str(type) == "category":
            frame[column] = frame[column].astype(str)
    frame.to_orc(folder / "pandas.orc", index=False)


def write_polars(table, folder):
    frame = polars.from_arrow(table)
    frame.write_csv(folder / "polars.csv")
    frame.write_parquet(folder / "polars.parquet")
    frame.write_ipc(folder / "polars.arrow")


def write_duckdb(table, folder):
    connection = duckdb.connect()
    connection.register("rows", table)
    connection.execute(f"copy rows to '{folder}/duckdb.csv' (header)")
    connection.execute(f"copy rows to '{folder}/duckdb.parquet'")


def write_pyarrow(table, folder):
    pyarrow.parquet.write_table(table, folder / "pyarrow.parquet")
    pyarrow.feather.write_feather(table, folder / "pyarrow.arrow", compression="uncompressed")
    signed = [field.with_type(pyarrow.int64() if pyarrow.types.is_unsigned_integer(field.type)
                              else pyarrow.string() if pyarrow.types.is_dictionary(field.type) else field.type)
              for field in table.schema]
    flat = table.cast(pyarrow.schema(signed))
    pyarrow.csv.write_csv(flat, folder / "pyarrow.csv")
    pyarrow.orc.write_table(flat, folder / "pyarrow.orc")


WRITERS = (write_pandas, write_polars, write_duckdb, write_pyarrow)
HASHED = 'id_feature {{ feature_name: "{}" embedding_dim: 4 hash_bucket_size: 20000 }}'


class RoundTrips(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def write(self, table, writers):
        for write in writers:
            write(table, self.folder)
        return sorted(path for path in self.folder.iterdir() if path.suffix[1:] in READERS)

    def train(self, path, columns, kinds={}):
        """`kinds` has the text of features that are not hashed."""
        problem = self.problem_of_training(path, columns, kinds)
        self.assertEqual(problem, "", path.name)

    def problem_of_training(self, path, columns, kinds={}):
        config = self.folder / f"{path.name}.config"
        shutil.rmtree(self.folder / f"of-{path.name}", ignore_errors=True)
        config.write_text(SMALL_PIPELINE.format(
            epochs=2, data=path, model=self.folder / f"of-{path.name}", type=READERS[path.suffix[1:]],
            features="".join(f"feature_configs {{ {kinds.get(column, HASHED).format(column)} }}\n" for column in columns),
            names=" ".join(f'feature_names: "{column}"' for column in columns)))
        process = run("train", "--config", config)
        return "" if process.returncode == 0 else process.stderr

    def predict(self, trained_on, path):
        """The predictions; or the message where the file is refused."""
        out = self.folder / "predictions.txt"
        process = run("predict", "--checkpoint", self.folder / f"of-{trained_on.name}", "--input", path, "--out", out,
                      "--set", f"data_config.dataset_type={READERS[path.suffix[1:]]}")
        return (out.read_text(), "") if process.returncode == 0 else ("", process.stderr)

    def check(self, table, writers, kinds={}):
        files = self.write(table, writers)
        columns = [name for name in table.column_names if name != "label"]
        for trained_on in files:
            self.train(trained_on, columns, kinds)
            expected, problem = self.predict(trained_on, trained_on)
            self.assertEqual(problem, "", trained_on.name)
            header, *values = expected.splitlines()
            self.assertGreater(len(set(values)), 1, f"{trained_on.name}: the columns make no difference")
            for path in files:
                found, problem = self.predict(trained_on, path)
                with self.subTest(trained_on=trained_on.name, predicts=path.name):
                    self.assertEqual(problem, "")
                    self.assertEqual(found, expected)
        return files

    def test_one_value_a_row(self):
        files = self.check(scalars(), WRITERS)
        self.assertEqual(len(files), 13)

    def test_numbers_dynamic_tables_and_vocabularies(self):
        table = scalars()
        numbers = ("int8", "int64", "uint32", "gaps", "float", "whole_double", "double_gaps", "decimal")
        dynamic = ("int32", "largest", "small_gaps", "bool_gaps", "words", "word_gaps", "digits", "zip", "category")
        words = {"unicode": ["Zürich", "東京"], "uint8": ["0"], "whole_decimal": ["9", "-10"], "truth": ["yes"]}
        kinds = {column: 'raw_feature {{ feature_name: "{}" default_value: "0" }}' for column in numbers}
        kinds |= {column: 'id_feature {{ feature_name: "{}" embedding_dim: 4 dynamicemb {{ max_capacity: 1000 }} }}'
                  for column in dynamic}
        kinds |= {column: 'id_feature {{ feature_name: "{}" embedding_dim: 4 '
                          + " ".join(f'vocab_list: "{word}"' for word in known) + " }}"
                  for column, known in words.items()}
        self.check(table.select(["label", *kinds]), WRITERS, kinds)

    def test_rare_types_are_read_or_refused_by_name(self):
        p = pyarrow
        label = p.array([int(row % 3 == 1) for row in range(ROWS)])
        columns = {
            "pairs": p.array(repeated([[[1, 2], [3]], [[4]], [[5], [6]]]), p.list_(p.list_(p.int64()))),
            "lasted": p.array(repeated([datetime.timedelta(seconds=5), datetime.timedelta(hours=2)]), p.duration("ms")),
            "half": p.array([value for value in repeated([0.5, 2.0, 3.0])], p.float32()).cast(p.float16()),
            "bytes": p.array(repeated([b"ab", b"cd"]), p.binary()),
            "fixed": p.array(repeated([b"ab", b"cd"]), p.binary(2)),
            "deep": p.array(repeated([[[[1]]], [[[2], [3]]]]), p.list_(p.list_(p.list_(p.int64())))),
            "parts": p.array(repeated([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])),
        }
        read = {}
        for name, values in columns.items():
            table = p.table({"label": label, name: values})
            files = []
            for kind, write in (("parquet", p.parquet.write_table), ("orc", p.orc.write_table),
                                ("arrow", lambda table, path: p.feather.write_feather(table, path, compression="uncompressed"))):
                path = self.folder / f"{name}.{kind}"
                try:
                    write(table, str(path))
                    files.append(path)
                except (p.ArrowNotImplementedError, p.ArrowTypeError, p.ArrowInvalid):
                    path.unlink(missing_ok=True)  # the format does not have the type
            self.assertGreater(len(files), 0, name)
            for trained_on in files:
                problem = self.problem_of_training(trained_on, [name])
                if problem:
                    self.assertRegex(problem.splitlines()[-1], f'"{name}', trained_on.name)
                    continue
                expected, problem = self.predict(trained_on, trained_on)
                self.assertEqual(problem, "", trained_on.name)
                read[name] = read.get(name, 0) + 1
                for path in files:
                    found, problem = self.predict(trained_on, path)
                    with self.subTest(trained_on=trained_on.name, predicts=path.name):
                        if problem:
                            self.assertRegex(problem.splitlines()[-1], f'"{name}')
                        else:
                            self.assertEqual(found, expected)
        self.assertEqual(set(read), {"lasted", "half", "bytes", "fixed"})

    def test_extremes(self):
        def write_others(table, folder):
            frame = table.to_pandas()
            frame.to_csv(folder / "pandas.csv", index=False)
            frame.to_parquet(folder / "pandas.parquet", index=False)
            pyarrow.csv.write_csv(table, folder / "pyarrow.csv")
            pyarrow.parquet.write_table(table, folder / "pyarrow.parquet")

        self.assertEqual(len(self.check(extremes(), (write_polars, write_duckdb, write_others))), 9)

    def test_times(self):
        table = times()
        self.assertEqual(len(self.check(table.drop_columns(["time"]), WRITERS)), 13)
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        # ORC has no times of a day.
        self.assertEqual(len(self.check(table.select(["label", "time"]), (write_polars, write_duckdb))), 5)

    def test_a_time_of_day_is_no_number(self):
        write_polars(times(), self.folder)
        self.train(self.folder / "polars.csv", ["time"])
        numbers = times().set_column(5, "time", pyarrow.array(range(ROWS)))
        pyarrow.parquet.write_table(numbers, self.folder / "numbers.parquet")
        _, problem = self.predict(self.folder / "polars.csv", self.folder / "numbers.parquet")
        self.assertIn('column "time" is int64, but was text like "12:30:00.000000000" in training', problem)

    def test_lists(self):
        def typed_polars(table, folder):
            frame = polars.from_arrow(table)
            frame.write_parquet(folder / "polars.parquet")
            frame.write_ipc(folder / "polars.arrow")

        def typed_duckdb(table, folder):
            connection = duckdb.connect()
            connection.register("rows", table)
            connection.execute(f"copy rows to '{folder}/duckdb.parquet'")

        def typed_pyarrow(table, folder):
            pyarrow.parquet.write_table(table, folder / "pyarrow.parquet")
            pyarrow.feather.write_feather(table, folder / "pyarrow.arrow", compression="uncompressed")
            pyarrow.orc.write_table(table, folder / "pyarrow.orc")

        def typed_pandas(table, folder):
            frame = table.to_pandas()
            frame.to_parquet(folder / "pandas.parquet", index=False)
            frame.to_feather(folder / "pandas.arrow", compression="uncompressed")

        self.check(lists(), (typed_polars, typed_duckdb, typed_pyarrow, typed_pandas))


if __name__ == "__main__":
    unittest.main()
