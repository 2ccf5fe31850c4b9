"""ml-100k for retrieval: the last ratings of each user are kept aside. Written for configs/retrieval/ml100k.config."""
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tests"))
import bundled_data  # noqa: E402

TEST, VALIDATION = 0.2, 0.1  # shares of a user's ratings


def lines_of(packages, part):
    for archive in sorted(pathlib.Path(packages).glob("recbole-*")):
        for name, read in bundled_data.members(archive):
            if name.endswith(f"ml-100k/ml-100k.{part}"):
                return [line.split("\t") for line in read().decode("latin-1").splitlines()[1:]]
    raise SystemExit(f"no ml-100k in {packages}/recbole-*: pip download recbole==1.2.1 --no-deps -d {packages}")


class Ratings:
    """Every rating is a choice. `train`, `validation`, `test`: the items of each user, in the order of time."""

    def __init__(self, packages):
        self.genres = {int(item): classes for item, _, _, classes in lines_of(packages, "item")}
        self.items = max(self.genres) + 1
        rated = {}
        for user, item, _, time in lines_of(packages, "inter"):
            rated.setdefault(int(user), []).append((int(float(time)), int(item)))
        self.users = max(rated) + 1
        self.train, self.validation, self.test = ([np.array([], int)] * self.users for _ in range(3))
        for user, ratings in rated.items():
            items = np.array([item for _, item in sorted(ratings)])
            test = round(len(items) * (1 - TEST))
            validation = round(len(items) * (1 - TEST - VALIDATION))
            self.train[user], self.validation[user], self.test[user] = np.split(items, [validation, test])

    def known(self, part):
        """What is known before the rows of `part`."""
        if part == "validation":
            return self.train
        return [np.concatenate(both) for both in zip(self.train, self.validation)]

    def users_of(self, rows):
        """The users of each item."""
        users = [[] for _ in range(self.items)]
        for user, items in enumerate(rows):
            for item in items:
                users[item].append(user)
        return [np.array(each, int) for each in users]

    def write(self, folder, part, history):
        """The rows before `part` with the last `history` items before each, those of `part` with the last ones known, and
        the items: a file for the search, and one for the sampler."""
        folder.mkdir(parents=True, exist_ok=True)
        known = self.known(part)

        def line(user, item, before):
            return f"1,{user},{' '.join(map(str, before[-history:]))},{item},{self.genres[item]}\n"

        header = "choice,user,history,item,genre\n"
        with open(folder / "train.csv", "w") as file:
            file.write(header)
            for user, items in enumerate(known):
                file.writelines(line(user, item, items[:at]) for at, item in enumerate(items))
        with open(folder / "test.csv", "w") as file:
            file.write(header)
            for user, items in enumerate(getattr(self, part)):
                file.writelines(line(user, item, known[user]) for item in items)
        with open(folder / "items.csv", "w") as file:
            file.write("item,genre\n" + "".join(f"{item},{genre}\n" for item, genre in self.genres.items()))
        with open(folder / "items.txt", "w") as file:
            file.write("id:int64\tweight:float\tattrs:string\n"
                       + "".join(f"{item}\t1\t{item}:{genre}\n" for item, genre in self.genres.items()))
