"""Pages of the site that are not in docs/: references made from the sources, the documents beside README.md. An mkdocs hook."""

import pathlib
import re
import sys

from mkdocs.structure.files import File

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cpp_pages  # noqa: E402
import proto_pages  # noqa: E402
import python_pages  # noqa: E402

SOURCE = pathlib.Path(__file__).resolve().parents[2]

# In the order of a pipeline; then how models are computed; then served models.
SCHEMAS = {
    "pipeline": "The pipeline", "train": "Training", "eval": "Evaluation", "data": "Data", "sampler": "Samplers",
    "feature": "Features", "transform_feature": "Computed features", "embedding": "Tables of features",
    "optimizer": "Optimizers", "learning_rate": "Learning rates", "model": "Models", "rank_model": "Ranking models",
    "multi_task_model": "Models of several labels", "match_model": "Matching models", "sid_model": "Semantic ids",
    "hstu": "HSTU", "tower": "Towers", "module": "Modules of layers", "seq_encoder": "Encoders of histories",
    "similarity": "Similarities", "loss": "Losses", "metric": "Metrics"}
SERVED = "model_config"
PYTHON_START = ("Data", "init", "Pipeline", "train", "TrainingResult", "cv", "Model", "load", "Evaluation", "Predictor")

made = {}


def configuration_pages():
    paths = {path.stem: path.relative_to(SOURCE / "src") for folder in ("config/proto", "loss", "metric", "serve/protocol")
             for path in sorted((SOURCE / "src" / folder).glob("*.proto"))}
    missing = paths.keys() ^ {*SCHEMAS, SERVED}
    if missing:
        raise SystemExit(f"tools/site/pages.py: SCHEMAS and the .proto files differ: {', '.join(sorted(missing))}")
    files = {pathlib.Path(file.name).stem: file for file in proto_pages.read(SOURCE / "src", paths.values())}
    schemas = proto_pages.Schemas(files.values(), lambda name: pathlib.Path(name).stem + ".md")
    listed = []
    for stem, title in [*SCHEMAS.items(), (SERVED, "config.pbtxt")]:
        guide = ("The file beside a served model, with the names of Triton's: [serving](../../serving.md#configpbtxt) says which "
                 "of them have an effect." if stem == SERVED else
                 f"Messages of `{paths[stem]}`. [The pipeline file](../../configuration.md) says how they belong together.")
        made[f"reference/configuration/{stem}.md"] = schemas.page(files[stem], title, guide)
        names = [one.name for one in files[stem].message_type]
        listed.append(f"| [{title}](configuration/{stem}.md) | {', '.join(f'`{name}`' for name in names[:8])}"
                      f"{', ...' if len(names) > 8 else ''} |")
    return listed


def python_api():
    pages = python_pages.pages(SOURCE / "python/emblem")
    order = [*PYTHON_START, *(name for name in pages if name not in PYTHON_START)]
    for name in order:
        made[f"reference/python/{name}.md"] = pages[name][0]
    return [f"| [emblem.{name}](python/{name}.md) | {pages[name][1].rstrip('.')} |" for name in order]


def cpp_api():
    listed = []
    for path in sorted((SOURCE / "include/emblem").glob("*.h")):
        made[f"reference/cpp/{path.stem}.md"] = text = cpp_pages.page(path)
        first = text.split("\n\n")[1].split("\n")[0]
        listed.append(f"| [emblem/{path.name}](cpp/{path.stem}.md) | {first.split('. ')[0].rstrip('.:')} |")
    return listed


def reference():
    configuration, python, cpp = configuration_pages(), python_api(), cpp_api()
    head = ["| | |", "|---|---|"]
    made["reference/index.md"] = "\n".join([
        "# Reference\n", "Made from the sources: the comments of schemas and headers, and docstrings.\n",
        "## The pipeline\n", "The messages of the [pipeline file](../configuration.md), with defaults.\n", *head, *configuration,
        "\n## Python\n", "[Python](../python.md) shows how these are used.\n", *head, *python,
        "\n## C++\n", "[C++](../cpp.md) shows how these are used.\n", *head, *cpp, ""])


def on_config(config):
    made.clear()
    reference()
    commands = re.search(r"^## Commands\n.*?(?=^## )", (SOURCE / "README.md").read_text(), re.M | re.S)[0]
    made["commands.md"] = commands[1:]
    made["contributing.md"] = (SOURCE / "CONTRIBUTING.md").read_text()
    made["changelog.md"] = (SOURCE / "CHANGELOG.md").read_text()
    for section in config.nav:
        for pages in section.values():
            for number, entry in enumerate(pages):
                if isinstance(entry, dict):
                    [(title, folder)] = entry.items()
                    pages[number] = {title: [path for path in made if path.startswith(f"{folder}/")]}
    return config


def on_files(files, config):
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def resolve(target, page):
    """Where a link of a document leads to on the site."""
    path, _, anchor = target.partition("#")
    anchor = anchor and f"#{anchor}"
    base = SOURCE if page.file.src_uri in made else SOURCE / "docs"
    place = (base / path).resolve().relative_to(SOURCE)
    if place == pathlib.Path("README.md"):
        return "commands.md" if anchor == "#commands" else "index.md"
    if place in (pathlib.Path("CONTRIBUTING.md"), pathlib.Path("CHANGELOG.md")):
        return f"{place.stem.lower()}.md{anchor}"
    if place.parts[0] == "docs":
        return f"{place.relative_to('docs')}{anchor}"
    if not (SOURCE / place).exists():
        raise SystemExit(f"{page.file.src_uri}: {target} does not exist")
    return None


def on_page_markdown(markdown, page, config, files):
    if page.file.src_uri.startswith("reference/"):
        return markdown

    def link(found):
        text, target = found[1], found[2]
        if re.match(r"https?:|#", target):
            return found[0]
        place = resolve(target, page)
        return f"[{text}]({place})" if place else text if text.startswith("`") else f"`{target.removeprefix('../')}`"
    markdown = re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", link, markdown)
    return lists(fences(markdown))


LANGUAGES = {"sh": r"(emblem|make|curl|cmake|mpirun|export|cat|pip|python3|srun|git|EMBLEM=\S+ \w+) |#!/bin/(ba)?sh",
             "python": r"(import|from|def|with|try:|class|\w+(, \w+)* = (np|emblem)\.|predictor =|data =|pipeline =)\b",
             "cpp": r"(const auto|#include|index->)"}


def fences(markdown):
    """Indented code as fenced code, with the language that its first word shows."""
    lines, out, place, fenced = markdown.splitlines(), [], 0, False
    while place < len(lines):
        line = lines[place]
        fenced ^= line.startswith("```")
        if fenced or not line.startswith("    ") or (out and out[-1].strip()):
            out.append(line)
            place += 1
            continue
        code = []
        while place < len(lines) and (lines[place].startswith("    ") or not lines[place].strip()):
            code.append(lines[place][4:])
            place += 1
        language = next((name for name, first in LANGUAGES.items() if re.match(first, code[0])), "text")
        out += [f"```{language}", *"\n".join(code).rstrip().split("\n"), "```", ""]
    return "\n".join(out)


def lists(markdown):
    """What belongs to an item of a list is indented by 4 columns: GitHub's Markdown needs as many as the bullet has."""
    out, depth, fenced = [], [], False
    for line in markdown.splitlines():
        fenced ^= line.lstrip().startswith("```")
        indent = len(line) - len(line.lstrip())
        if not line.strip() or (fenced and not depth):
            out.append(line)
            continue
        bullet = re.match(r" *([-*]|\d+\.) +(?=\S)", line)
        while depth and indent < depth[-1]:
            depth.pop()
        out.append(" " * (4 * len(depth) - (depth[-1] if depth else 0)) + line)
        if bullet and not fenced:
            depth.append(len(bullet[0]))
    return "\n".join(out) + "\n"
