"""A category is the same in every format: text, numbers and bools of CSV and Parquet files, and in requests."""

import json
import math
import pathlib
import shutil
import tempfile
import unittest
import urllib.error
import urllib.request

from harness import SMALL_PIPELINE, run, use_arrow, use_test_clients

use_arrow()
use_test_clients("pyarrow", "tritonclient")
import numpy as np
import pyarrow
import pyarrow.parquet
import serve_test
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import triton_to_np_dtype

TYPES = {"csv": "CsvDataset", "parquet": "ParquetDataset"}
COLUMNS = ("shop", "member", "day", "ratio", "wide")
ROWS = 400


def rows():
    """Values of each column by row, None where it is missing."""
    return {
        "label": [int(i % 7 < 3) for i in range(ROWS)],
        "shop": [None if i % 11 == 0 else i % 7 for i in range(ROWS)],
        "member": [None if i % 13 == 0 else i % 7 < 3 for i in range(ROWS)],
        "day": [20000 + i % 7 for i in range(ROWS)],
        "ratio": [(i % 7) / 4 for i in range(ROWS)],
        "wide": [-9223372036854775808 if i % 17 == 0 else 9007199254740993 + i % 7 for i in range(ROWS)],
    }


def csv_field(column, value, point):
    if value is None:
        return ""
    if column == "member":
        return str(value) if point else str(value).lower()
    if column in ("shop", "ratio") and point:
        return str(float(value))
    if column == "ratio":
        return f"{value:g}"
    if column == "day":
        return str(pyarrow.scalar(value, pyarrow.date32()).as_py())
    return str(value)


class ValueText(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.rows = rows()
        cls.files = {}
        for name, point in (("point", True), ("plain", False)):
            path = cls.folder / f"{name}.csv"
            lines = [",".join(csv_field(column, values[i], point) for column, values in cls.rows.items())
                     for i in range(ROWS)]
            path.write_text("\n".join([",".join(cls.rows), *lines]) + "\n")
            cls.files[name] = path
        types = {"label": pyarrow.int64(), "member": pyarrow.bool_(), "day": pyarrow.date32(), "ratio": pyarrow.float64(),
                 "wide": pyarrow.int64()}
        for name, shop, day in (("integers", pyarrow.int32(), None), ("doubles", pyarrow.float64(), "ns")):
            fields = {**types, "shop": shop}
            arrays = {column: pyarrow.array(values, type=fields[column]) for column, values in cls.rows.items()}
            if day:
                arrays["day"] = arrays["day"].cast(pyarrow.timestamp(day))
            path = cls.folder / f"{name}.parquet"
            pyarrow.parquet.write_table(pyarrow.table(arrays), path)
            cls.files[name] = path
        for source, format in (("doubles", "csv"), ("point", "parquet"), ("integers", "orc"), ("integers", "arrow")):
            out = cls.folder / f"{source}-{format}"
            process = run("convert", "--from", cls.files[source], "--to", out, "--format", format)
            assert process.returncode == 0, process.stderr
            cls.files[f"{source} as {format}"] = next(out.glob(f"*.{format}"))

    def train(self, name, columns=COLUMNS):
        format = self.files[name].suffix[1:]
        features = "".join(f'feature_configs {{ id_feature {{ feature_name: "{column}" embedding_dim: 4 '
                           f'hash_bucket_size: 5000 }} }}\n' for column in columns)
        shutil.rmtree(self.folder / f"of-{name}", ignore_errors=True)
        config = self.folder / f"{name}.config"
        config.write_text(SMALL_PIPELINE.format(
            epochs=3, data=self.files[name], model=self.folder / f"of-{name}", type=TYPES[format], features=features,
            names=" ".join(f'feature_names: "{column}"' for column in columns)))
        process = run("train", "--config", config)
        self.assertEqual(process.returncode, 0, process.stderr)

    def predictions(self, trained_on, name):
        out = self.folder / "predictions.csv"
        type = {"orc": "OrcDataset", "arrow": "ArrowDataset", **TYPES}[self.files[name].suffix[1:]]
        process = run("predict", "--checkpoint", self.folder / f"of-{trained_on}", "--input", self.files[name],
                      "--out", out, "--set", f"data_config.dataset_type={type}")
        self.assertEqual(process.returncode, 0, f"{trained_on} on {name}: {process.stderr}")
        return out.read_text()

    def test_a_model_of_one_format_predicts_the_same_on_all(self):
        for trained_on in ("point", "plain", "integers", "doubles"):
            self.train(trained_on)
            expected = self.predictions(trained_on, trained_on)
            self.assertGreater(len(set(expected.splitlines())), 7)
            for name in self.files:
                with self.subTest(trained_on=trained_on, predicts=name):
                    self.assertEqual(self.predictions(trained_on, name), expected)

    def test_what_is_not_certain_is_refused_by_column(self):
        odd = self.folder / "odd.csv"
        odd.write_text("label,shop\n" + "".join(f"{i % 2},{'07' if i % 3 else '7'}\n" for i in range(ROWS)))
        self.files["odd"] = odd
        self.train("odd", ["shop"])
        process = run("predict", "--checkpoint", self.folder / "of-odd", "--input", self.files["integers"], "--out",
                      self.folder / "refused.csv", "--set", "data_config.dataset_type=ParquetDataset")
        del self.files["odd"]
        self.assertEqual(process.returncode, 1)
        self.assertIn('column "shop" is int32, but was text with numbers in several spellings', process.stderr)
        self.assertIn("give it as text, spelled as in training", process.stderr)
        words = self.folder / "words.csv"
        words.write_text("label,shop,member,day,ratio,wide\n1,main street,True,2024-10-05,0.25,9007199254740993\n")
        self.train("integers")
        process = run("predict", "--checkpoint", self.folder / "of-integers", "--input", words, "--out",
                      self.folder / "refused.csv", "--set", "data_config.dataset_type=CsvDataset")
        self.assertEqual(process.returncode, 1)
        self.assertIn('words.csv:2: column shop: "main street" is not an integer, as the column\'s values were in training',
                      process.stderr)

    def infer(self, url, **inputs):
        request = {"inputs": [{"name": name, "shape": [len(values), 1], "datatype": type, "data": values}
                              for name, (type, values) in inputs.items()]}
        try:
            answer = urllib.request.urlopen(urllib.request.Request(url + "/infer", json.dumps(request).encode()))
        except urllib.error.HTTPError as error:
            return json.load(error)["error"]
        return json.load(answer)["outputs"][0]["data"]

    def test_requests_take_the_values_of_files(self):
        self.train("integers")
        expected = [float(line) for line in self.predictions("integers", "integers").splitlines()[1:]]
        exported = run("export", "--checkpoint", self.folder / "of-integers", "--out", self.folder / "repository/clicks")
        self.assertEqual(exported.returncode, 0, exported.stderr)
        server = serve_test.Server(self.folder / "repository")
        self.addCleanup(server.stop)
        url = f"http://{server.http}/v2/models/clicks"
        chosen = [i for i in range(1, 60) if self.rows["shop"][i] is not None and self.rows["member"][i] is not None]
        values = {column: [self.rows[column][i] for i in chosen] for column in COLUMNS}
        smallest = -9223372036854775808
        typed = {"shop": ("INT16", values["shop"]), "member": ("BOOL", values["member"]), "day": ("INT32", values["day"]),
                 "ratio": ("FP64", values["ratio"]), "wide": ("INT64", values["wide"])}
        texts = {"shop": ("BYTES", [f"{value}.0" for value in values["shop"]]),
                 "member": ("BYTES", [str(value) for value in values["member"]]),
                 "day": ("BYTES", [csv_field("day", value, False) for value in values["day"]]),
                 "ratio": ("FP32", values["ratio"]),
                 "wide": ("BYTES", ["" if value == smallest else str(value) for value in values["wide"]])}
        for inputs in (typed, texts):
            answers = self.infer(url, **inputs)
            self.assertEqual(len(answers), len(chosen), answers)
            for answer, i in zip(answers, chosen):
                self.assertAlmostEqual(answer, expected[i], delta=1e-6)
        one = {name: (type, values[:1]) for name, (type, values) in typed.items()}
        self.assertIn('"main street" is not an integer', self.infer(url, **{**one, "shop": ("BYTES", ["main street"])}))
        self.assertIn("input 'day' is FP32, but was date[day] in training",
                      self.infer(url, **{**one, "day": ("FP32", [20000.0])}))

    def test_the_smallest_int64_is_a_missing_number_everywhere(self):
        smallest = -9223372036854775808
        ages = [smallest if i % 5 == 0 else i % 7 for i in range(ROWS)]
        columns = {"label": [int(i % 7 < 3) for i in range(ROWS)], "age": ages, "bag": [[age, 2] for age in ages]}
        csv, missing, parquet = (self.folder / name for name in ("smallest.csv", "missing.csv", "smallest.parquet"))
        csv.write_text("label,age,bag\n" + "".join(
            f"{label},{age},{bag[0]};{bag[1]}\n" for label, age, bag in zip(*columns.values())))
        missing.write_text(csv.read_text().replace(str(smallest), "NaN"))
        pyarrow.parquet.write_table(pyarrow.table(columns), parquet)
        config = self.folder / "missing.config"
        config.write_text(SMALL_PIPELINE.format(
            epochs=2, data=missing, model=self.folder / "of-missing", type="CsvDataset",
            names='feature_names: "age" feature_names: "bag"', features="""
                feature_configs { raw_feature { feature_name: "age" default_value: "3" } }
                feature_configs { raw_feature { feature_name: "bag" value_dim: 2 separator: ";" default_value: "5" } }"""))
        for command in (("train", "--config", config),
                        ("export", "--checkpoint", self.folder / "of-missing", "--out", self.folder / "smallest/clicks")):
            process = run(*command)
            self.assertEqual(process.returncode, 0, process.stderr)
        self.files.update(missing=missing, smallest=csv, smallest_parquet=parquet)
        self.addCleanup(lambda: [self.files.pop(name) for name in ("missing", "smallest", "smallest_parquet")])
        expected = self.predictions("missing", "missing")
        for name in ("smallest", "smallest_parquet"):
            self.assertTrue(self.predictions("missing", name) == expected, name)  # a diff of the lines takes minutes

        server = serve_test.Server(self.folder / "smallest")
        self.addCleanup(server.stop)
        expected = [float(line) for line in expected.splitlines()[1:3]]
        for type, value in (("INT64", smallest), ("FP64", float(smallest)), ("FP32", float(smallest)), ("FP32", math.nan),
                            ("BYTES", str(smallest)), ("BYTES", "nan")):
            text = str if type == "BYTES" else float if type.startswith("FP") else int
            rows = {"age": [[value], [1]], "bag": [[value, 2], [1, 2]]}
            arrays = {name: np.array([[text(one) for one in row] for row in of], triton_to_np_dtype(type))
                      for name, of in rows.items()}
            for module, address, options in ((triton_http, server.http, {"binary_data": True}),
                                             (triton_http, server.http, {"binary_data": False}), (triton_grpc, server.grpc, {})):
                if value != value and options == {"binary_data": False}:
                    continue  # the client writes no NaN as JSON
                inputs = [module.InferInput(name, array.shape, type) for name, array in arrays.items()]
                for given, array in zip(inputs, arrays.values()):
                    given.set_data_from_numpy(array, **options)
                with module.InferenceServerClient(address) as client:
                    answer = client.infer("clicks", inputs).as_numpy("probability")[:, 0]
                np.testing.assert_allclose(answer, expected, rtol=1e-6, err_msg=f"{type} {value} {module.__name__} {options}")

    def test_numbers_of_na_strings_are_missing_in_requests(self):
        data = self.folder / "codes.csv"
        data.write_text("label,shop,age\n" + "".join(
            f"{int(i % 7 < 3)},{-1 if i % 6 == 0 else i % 7},{-999 if i % 5 == 0 else i % 7}\n" for i in range(ROWS)))
        config = self.folder / "codes.config"
        config.write_text(SMALL_PIPELINE.format(
            epochs=3, data=data, model=self.folder / "of-codes", type="CsvDataset",
            names='feature_names: "shop" feature_names: "age"',
            features="""feature_configs { id_feature { feature_name: "shop" embedding_dim: 4 hash_bucket_size: 50 } }
                feature_configs { raw_feature { feature_name: "age" } }""").replace(
                    "batch_size: 64", 'batch_size: 64 na_strings: "-1" na_strings: "-999"'))
        for command in (("train", "--config", config),
                        ("export", "--checkpoint", self.folder / "of-codes", "--out", self.folder / "coded/clicks")):
            process = run(*command)
            self.assertEqual(process.returncode, 0, process.stderr)
        server = serve_test.Server(self.folder / "coded")
        self.addCleanup(server.stop)
        url = f"http://{server.http}/v2/models/clicks"
        expected = self.infer(url, shop=("BYTES", [""]), age=("BYTES", [""]))
        self.assertNotEqual(self.infer(url, shop=("INT64", [3]), age=("FP32", [3.0])), expected)
        for shop in (("BYTES", ["-1"]), ("INT64", [-1]), ("INT32", [-1]), ("FP64", [-1.0])):
            for age in (("BYTES", ["-999"]), ("BYTES", ["-999.0"]), ("FP32", [-999.0]), ("INT64", [-999])):
                self.assertEqual(self.infer(url, shop=shop, age=age), expected, (shop, age))


if __name__ == "__main__":
    unittest.main()
