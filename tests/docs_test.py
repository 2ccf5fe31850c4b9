"""The documents and what makes a site of them: links and anchors, the check of a built site, pages made from the sources."""

import json
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

from harness import SOURCE

sys.path.insert(0, str(SOURCE / "tools/site"))
sys.dont_write_bytecode = True
import check_links  # noqa: E402
import cpp_pages  # noqa: E402
import figures  # noqa: E402
import prose  # noqa: E402
import python_pages  # noqa: E402

DOCUMENTS = [SOURCE / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted((SOURCE / "docs").glob("*.md"))


def without_code(path):
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S)
    return "\n".join(line for line in text.splitlines() if not line.startswith("    "))


def anchors(path):
    """The anchors of a document's headings, as GitHub makes them."""
    return {re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
            for line in without_code(path).splitlines() if line.startswith("#")}


class Links(unittest.TestCase):
    def test_links_lead_to_files_and_headings(self):
        for document in DOCUMENTS:
            for target in re.findall(r"\]\(([^)\s]+)\)|src(?:set)?=\"([^\"]+)\"", without_code(document)):
                path, _, anchor = "".join(target).partition("#")
                if path.startswith("http") or (document.name == "index.md" and path.startswith("reference/")):
                    continue  # pages that make docs adds
                place = (document.parent / path).resolve() if path else document
                self.assertTrue(place.exists(), f"{document.name}: {''.join(target)}")
                if anchor:
                    self.assertIn(anchor, anchors(place), f"{document.name}: {''.join(target)}")

    def test_every_document_is_on_the_site_and_in_the_readme(self):
        listed = set(re.findall(r"^ +- (\w+\.md)$", (SOURCE / "tools/site/mkdocs.yml").read_text(), re.M))
        documents = {path.name for path in DOCUMENTS[3:]}
        self.assertEqual(listed - {"contributing.md", "changelog.md", "commands.md"}, documents)
        readme = (SOURCE / "README.md").read_text()
        self.assertEqual([name for name in sorted(documents - {"index.md"}) if f"(docs/{name}" not in readme], [])


class CheckOfASite(unittest.TestCase):
    def problems(self, **pages):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        for name, text in pages.items():
            (folder / f"{name}.html").write_text(text)
        return sorted(check_links.problems(folder))

    def test_a_good_site_has_none(self):
        self.assertEqual(self.problems(index='<a href="b.html#x">b</a><a href="https://example.org">e</a>',
                                       b='<h2 id="x">X</h2><a href="index.html">i</a>'), [])

    def test_dead_links_anchors_pages_and_what_is_loaded_from_elsewhere(self):
        self.assertEqual(self.problems(index='<a href="c.html">c</a><a href="#no">n</a><script src="https://example.org/x.js">',
                                       b="nothing"),
                         ["b.html: no page links to it", "index.html: #no has no such anchor", "index.html: c.html does not exist",
                          "index.html: loads https://example.org/x.js, which is not part of the site"])


class Figures(unittest.TestCase):
    def test_drawings_are_those_of_the_figures(self):
        for name, drawing in figures.drawings().items():
            self.assertEqual((SOURCE / "docs" / name).read_text(), drawing, "run python3 tools/site/figures.py")

    def test_figures_are_measured_ones(self):
        measured = (SOURCE / "docs/performance.md").read_text()
        for one in json.loads((SOURCE / "docs/figures.json").read_text())["figures"]:
            for shown in (one["emblem"][0], one["value"][0], one["date"]):
                self.assertIn(shown.split()[0], measured, one["work"])

    def test_a_bar_is_as_long_as_the_program_is_fast(self):
        slower = {"better": "higher", "emblem": ["10", 10], "value": ["5", 5]}
        self.assertEqual(figures.speed(slower), 0.5)
        self.assertEqual(figures.speed({**slower, "better": "lower"}), 2)


class PagesOfSources(unittest.TestCase):
    def test_what_a_comment_says_is_shown_as_it_is(self):
        self.assertEqual(prose.escape("rows[i] is *p of `a*b`, as docs/tables.md says: |x| < 1"),
                         r"rows\[i\] is \*p of `a*b`, as [tables](../../tables.md) says: \|x\| \< 1")
        self.assertEqual(prose.paragraphs(["Adds rows.", "", "  add(1);", "", "Then", ">>> 1"], "cpp"),
                         "Adds rows.\n\n```cpp\nadd(1);\n```\n\nThen\n\\>>> 1\n".replace("\\>", ">"))

    def test_headers(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        (folder / "thing.h").write_text("""// emblem/thing.h - a thing.
#pragma once

namespace emblem {
EMBLEM_PUBLIC {
  class Other;

  // How it is made.
  struct Options {
    int size = 0;  // in rows

    int more = 0;
  };

  // Thread-safe.
  class EMBLEM_API Thing {
   public:
    explicit Thing(const Options& options);
    ~Thing();
    Thing(Thing&&) noexcept;

    // Adds `rows`.
    // Throws Error.
    void add(int rows,
             int times = 1);
    int size() const;   // rows
    int bytes() const;

   private:
    int hidden_;
  };
}
}  // namespace emblem
""")
        self.assertEqual(cpp_pages.page(folder / "thing.h"), """# emblem/thing.h

A thing.

## Options

How it is made.

```cpp
struct Options {
  int size = 0;  // in rows

  int more = 0;
};
```

## Thing

Thread-safe.

### Thing::Thing

```cpp
explicit Thing(const Options& options);
~Thing();
Thing(Thing&&) noexcept;
```


### Thing::add

```cpp
void add(int rows,
         int times = 1);
int size() const;   // rows
int bytes() const;
```

Adds `rows`.
Throws Error.
""")

    def test_all_public_names_have_pages(self):
        for path in (SOURCE / "include/emblem").glob("*.h"):
            declared = re.findall(r"^  ?(?:struct|class EMBLEM_API|enum class) (\w+)\b[^;]*\{", path.read_text(), re.M)
            page = cpp_pages.page(path)
            for name in declared:
                self.assertIn(f"\n## {name}\n", page, path.name)
        package = SOURCE / "python/emblem"
        self.assertEqual(python_pages.public_names(package).keys(), python_pages.pages(package).keys())
        table = python_pages.pages(package)["Table"][0]
        self.assertIn("## lookup\n\n```python\nlookup(", table)
        self.assertIn("```pycon\n>>> import numpy as np\n", table)
        self.assertNotIn("__init__", table)


if __name__ == "__main__":
    unittest.main()
