"""Checks a built site: every link leads to a file of it and to an anchor that exists, every page is reachable from the first
one by links of pages, and nothing is loaded from elsewhere."""

import collections
import html.parser
import pathlib
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    """Links, loaded files and anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loaded, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors.update(given[name] for name in ("id", "name") if given.get(name) and tag != "meta")
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag == "link" and given.get("href") and given.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(given["href"])
        elif given.get("src"):
            self.loaded.append(given["src"])


def problems(site):
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    graph = collections.defaultdict(set)
    for path, page in pages.items():
        name = path.relative_to(site)
        for target in page.links + page.loaded:
            url = urllib.parse.urlsplit(target)
            if url.scheme in ("http", "https", "mailto") or target.startswith("//"):
                if target in page.loaded:
                    yield f"{name}: loads {target}, which is not part of the site"
                continue
            place = path if not url.path else (path.parent / urllib.parse.unquote(url.path)).resolve()
            if place.is_dir():
                place /= "index.html"
            if not place.exists():
                yield f"{name}: {target} does not exist"
            elif url.fragment and place in pages and urllib.parse.unquote(url.fragment) not in pages[place].anchors | {"__top"}:
                yield f"{name}: {target} has no such anchor"
            elif place in pages:
                graph[path].add(place)
    seen, queue = set(), [site / "index.html"]
    while queue:
        page = queue.pop()
        if page not in seen:
            seen.add(page)
            queue += graph[page]
    for path in pages.keys() - seen - {site / "404.html"}:
        yield f"{path.relative_to(site)}: no page links to it"


def main():
    site = pathlib.Path(sys.argv[1]).resolve()
    found = sorted(set(problems(site)))
    for line in found:
        print(f"check_links: {line}", file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
