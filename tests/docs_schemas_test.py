"""The reference of the pipeline: every message, field, default and value of the schemas with its comment."""

import pathlib
import re
import sys
import tempfile
import unittest

from harness import SOURCE, use_test_clients

use_test_clients("tritonclient")  # which brings protobuf
sys.path.insert(0, str(SOURCE / "tools/site"))
sys.dont_write_bytecode = True
import proto_pages  # noqa: E402

SCHEMA = """syntax = "proto2";
package sample;

// How to draw.
enum Shape {
  ROUND = 0;  // a circle
  // Four corners.
  SQUARE = 1;
}

// A drawing,
// of one shape.
message Drawing {
  enum Ink { BLACK = 0; }
  optional Shape shape = 1 [default = SQUARE];
  // At least *one* | more.
  repeated string names = 2;
  optional string separator = 3 [default = "\\x1d"];
  map<string, Part> parts = 4;
  oneof place {
    int32 row = 5;
    Part part = 6;
  }
  optional Ink ink = 7;
}

message Part {}
"""

PAGE = """# Drawings

Of a test.

## Drawing {#Drawing}

A drawing, of one shape.

| field | type | default | |
|---|---|---|---|
| `shape` | [Shape](#Shape) | `SQUARE` |  |
| `names` | repeated string |  | At least \\*one\\* \\| more. |
| `separator` | string | `"\\x1d"` |  |
| `parts` | map of string to [Part](#Part) |  |  |
| `row` | int32 |  | One of `place`. |
| `part` | [Part](#Part) |  | One of `place`. |
| `ink` | [Drawing.Ink](#Drawing.Ink) |  |  |

## Drawing.Ink {#Drawing.Ink}

| value | |
|---|---|
| `BLACK` |  |

## Part {#Part}

No fields.


## Shape {#Shape}

How to draw.

| value | |
|---|---|
| `ROUND` | a circle |
| `SQUARE` | Four corners. |
"""


class Schemas(unittest.TestCase):
    def test_a_page(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "drawing.proto").write_text(SCHEMA)
            [file] = proto_pages.read(folder, ["drawing.proto"])
        self.assertEqual(proto_pages.Schemas([file], str).page(file, "Drawings", "Of a test."), PAGE)

    def test_every_message_and_field_of_the_sources(self):
        paths = sorted((SOURCE / "src/config/proto").glob("*.proto"))
        files = proto_pages.read(SOURCE / "src", [path.relative_to(SOURCE / "src") for path in paths] +
                                 ["loss/loss.proto", "metric/metric.proto"])
        schemas = proto_pages.Schemas(files, str)
        for file in files:
            page = schemas.page(file, "T", "I")
            text = re.sub(r"//.*", "", (SOURCE / "src" / file.name).read_text())
            for name in re.findall(r"^ *(?:message|enum) (\w+)", text, re.M):
                self.assertRegex(page, rf"(?m)^## (\w+\.)*{name} \{{#")
            for name in re.findall(r"^ +(?:optional|repeated|required)\s+[\w.]+\s+(\w+) *=", text, re.M):
                self.assertIn(f"| `{name}` |", page)


if __name__ == "__main__":
    unittest.main()
