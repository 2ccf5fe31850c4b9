#!/usr/bin/env bash
# Builds the documentation site in build/docs/site, with mkdocs in a virtual environment of its own, and checks its links.
set -euo pipefail
cd "$(dirname "$0")/../.."

venv=build/docs/venv
if ! cmp -s tools/site/requirements.txt "$venv/complete"; then
  python3 -m venv --clear "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r tools/site/requirements.txt
  cp tools/site/requirements.txt "$venv/complete"
fi
NO_MKDOCS_2_WARNING=1 "$venv/bin/python" -m mkdocs build --quiet --strict --clean --config-file tools/site/mkdocs.yml
rm -f build/docs/site/404.html # for web servers: its links are absolute
"$venv/bin/python" tools/site/check_links.py build/docs/site
echo "docs: build/docs/site/index.html"
