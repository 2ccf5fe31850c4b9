"""Draws docs/figures.svg, speeds beside other programs out of docs/figures.json, and docs/data_flow.svg. Both follow the theme
of the reader's browser; each brings its background, so that it can be read on any page.

  python3 tools/site/figures.py            writes them
"""

import html
import json
import pathlib

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"

STYLE = """<style>
text { font-family: system-ui, 'Segoe UI', 'Liberation Sans', sans-serif; font-size: 13px; fill: #1f2328; }
.small { font-size: 11px; fill: #59636e; }
.title { font-size: 14px; font-weight: 600; }
.page { fill: #ffffff; stroke: #d1d9e0; }
.box { fill: #eef1fb; stroke: #4051b5; }
.store { fill: #f6f8fa; stroke: #818b98; }
.own { fill: #4051b5; }
.other { fill: #a3acb8; }
.line { stroke: #59636e; stroke-width: 1.5; fill: none; }
.tip { fill: #59636e; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; }
  .small { fill: #9198a1; }
  .page { fill: #0d1117; stroke: #3d444d; }
  .box { fill: #1b2150; stroke: #7f8fe0; }
  .store { fill: #151b23; stroke: #656c76; }
  .own { fill: #7f8fe0; }
  .other { fill: #5b636e; }
  .line { stroke: #9198a1; }
  .tip { fill: #9198a1; }
}
</style>"""


def svg(width, height, title, parts):
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
                      f'role="img" aria-label="{html.escape(title)}">', f"<title>{html.escape(title)}</title>", STYLE,
                      f'<rect class="page" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>', *parts, "</svg>\n"])


def text(x, y, words, style="", anchor="start"):
    given = f' class="{style}"' if style else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{given}>{html.escape(words)}</text>'


def speed(one):
    """The peer's speed as a share of Emblem's."""
    ratio = one["value"][1] / one["emblem"][1]
    return ratio if one["better"] == "higher" else 1 / ratio


def chart(figures):
    """Two bars for each figure, as long as the program is fast."""
    left, longest, row, top = 20, 380, 62, 40
    widest = max(1, *map(speed, figures))
    parts = [text(left, 26, "Speed beside other programs: longer bars are faster", "title")]
    for number, one in enumerate(figures):
        y = top + number * row
        parts.append(text(left, y + 14, one["work"]))
        parts.append(text(880, y + 14, f"{one['hardware']}, {one['date']}", "small", "end"))
        for offset, style, name, shown, share in ((21, "own", "Emblem", one["emblem"][0], 1),
                                                  (36, "other", one["peer"], one["value"][0], speed(one))):
            length = round(longest * share / widest, 1)
            parts.append(f'<rect class="{style}" x="{left}" y="{y + offset}" width="{length}" height="12" rx="2"/>')
            parts.append(text(left + length + 8, y + offset + 10, f"{name}: {shown} {one['unit']}", "small"))
    return svg(900, top + len(figures) * row + 8, "Speed of Emblem beside other programs", parts)


def box(x, y, width, height, title, lines, style="box"):
    return [f'<rect class="{style}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>',
            text(x + width / 2, y + 22, title, "title", "middle"),
            *(text(x + width / 2, y + 41 + 16 * number, line, "small", "middle") for number, line in enumerate(lines))]


def arrow(*points, label="", at=None):
    path = " ".join(f"{'M' if number == 0 else 'L'}{x} {y}" for number, (x, y) in enumerate(points))
    parts = [f'<path class="line" d="{path}" marker-end="url(#tip)"/>']
    return parts + ([text(*at, label, "small", "middle")] if label else [])


def data_flow():
    parts = ['<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
             '<path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>']
    parts += box(20, 24, 150, 120, "Data", ["CSV, Parquet, ORC, Arrow", "local, S3, GCS, HTTPS", "Kafka topics", "DataFrames, arrays"], "store")
    parts += box(210, 24, 130, 120, "Loader", ["decode", "features: ids, bags,", "sequences, numbers", "shuffle, prefetch"])
    parts += box(380, 24, 150, 120, "Tables", ["static and dynamic", "host, GPU, GPU cache", "over ranks", "fused optimizers"])
    parts += box(570, 24, 140, 120, "Layers", ["DLRM, DCN, DIN, MMoE,", "PLE, DSSM, ...", "fp32, bf16, fp16", "CPU and GPU"])
    parts += box(750, 24, 130, 120, "Checkpoint", ["exact resume", "any number of ranks", "layout of HPS", ""], "store")
    parts += box(20, 226, 150, 104, "Clients", ["Triton's clients", "curl, gRPC", "emblem.Client"], "store")
    parts += box(210, 226, 320, 104, "emblem serve", ["the features and layers of training", "batching, fp32 to int8, indexes of items",
                                                      "KServe v2 over HTTP and gRPC, metrics"])
    parts += box(570, 226, 310, 104, "Parameter server", ["rows by key: GPU cache, memory or Redis, RocksDB", "tables split over servers",
                                                          "updates while it serves"])
    parts += arrow((170, 84), (210, 84)) + arrow((340, 84), (380, 84))
    parts += arrow((530, 70), (570, 70), label="rows", at=(550, 62))
    parts += arrow((570, 100), (530, 100), label="grad.", at=(550, 117))
    parts += arrow((710, 84), (750, 84))
    parts += arrow((815, 144), (815, 226), label="export", at=(838, 190))
    parts += arrow((455, 144), (455, 180), (650, 180), (650, 226), label="deltas of changed rows", at=(560, 174))
    parts += arrow((570, 278), (530, 278)) + arrow((210, 264), (170, 264)) + arrow((170, 294), (210, 294))
    parts += [text(20, 200, "serving", "title"), text(20, 168, "training", "title"), '<path class="line" stroke-dasharray="3 4" d="M20 182H430"/>']
    return svg(900, 352, "How data becomes a served model", parts)


def drawings():
    return {"figures.svg": chart(json.loads((DOCS / "figures.json").read_text())["figures"]), "data_flow.svg": data_flow()}


if __name__ == "__main__":
    for name, drawing in drawings().items():
        (DOCS / name).write_text(drawing)
