#!/usr/bin/env python3
"""Census-income (KDD, UCI) as CSV with a header and two labels, for the pipelines of this folder:

  configs/census/prepare.py FOLDER_OF_census-income.data_AND_.test data/census

`income` is 1 above 50,000, `never_married` is 1 for that marital status. The instance weight is dropped. The first half of
census-income.test becomes validation.csv, the second test.csv.
"""

import pathlib
import sys

COLUMNS = ("age class_of_worker industry occupation education wage_per_hour enrolled marital_status major_industry major_occupation "
           "race hispanic_origin sex union_member unemployment_reason employment capital_gains capital_losses dividends tax_filer "
           "region state household_detail household_summary instance_weight migration_msa migration_region migration_within "
           "same_house migration_sunbelt employer_size parents country_father country_mother country_self citizenship "
           "own_business veterans_questionnaire veterans_benefits weeks_worked year income").split()
DROPPED = ("income", "marital_status", "instance_weight")


def rows(path):
    for line in open(path):
        values = [value.strip() for value in line.strip().rstrip(".").split(",")]
        if len(values) == len(COLUMNS):
            yield dict(zip(COLUMNS, values))


def write(path, kept):
    features = [name for name in COLUMNS if name not in DROPPED]
    with open(path, "w") as out:
        out.write(",".join(["income", "never_married", *features]) + "\n")
        for row in kept:
            labels = [str(int(row["income"].startswith("50000+"))), str(int(row["marital_status"] == "Never married"))]
            out.write(",".join([*labels, *(row[name] for name in features)]) + "\n")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    write(out / "train.csv", rows(source / "census-income.data"))
    held_out = list(rows(source / "census-income.test"))
    write(out / "validation.csv", held_out[:len(held_out) // 2])
    write(out / "test.csv", held_out[len(held_out) // 2:])


if __name__ == "__main__":
    main()
