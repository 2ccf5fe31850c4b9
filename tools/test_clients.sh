#!/usr/bin/env bash
# Installs the clients that end-to-end tests use into a virtual environment under the build folder, and prints its Python.
# Without access to a package index, the tests that need them are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/test-clients
if ! "$venv/bin/python" -c 'import tritonclient.http, tritonclient.grpc, numpy, prometheus_client' 2>/dev/null; then
  if ! { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet 'tritonclient[http,grpc]' numpy prometheus_client; } >&2; then
    echo "test_clients: no tritonclient; the tests of the server with real clients will be skipped" >&2
    echo python3
    exit 0
  fi
fi
echo "$PWD/$venv/bin/python"
