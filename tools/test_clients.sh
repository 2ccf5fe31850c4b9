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
# Writers of Parquet, ORC and Arrow files.
if ! "$venv/bin/python" -c 'import pyarrow, pandas, polars, duckdb' 2>/dev/null; then
  if ! "$venv/bin/pip" install --quiet pyarrow pandas polars duckdb >&2; then
    echo "test_clients: no pyarrow, pandas, polars and duckdb; the tests of Parquet files of others will be skipped" >&2
  fi
fi
# What the Python package runs with.
if ! "$venv/bin/python" -c 'import nanobind_backend, sklearn' 2>/dev/null; then
  if ! "$venv/bin/pip" install --quiet nanobind-backend==1.0.0 scikit-learn >&2; then
    echo "test_clients: no nanobind-backend and scikit-learn; the tests of the Python package will be skipped" >&2
  fi
fi
# A server that speaks S3.
if ! "$venv/bin/python" -c 'import moto.server, boto3' 2>/dev/null; then
  if ! "$venv/bin/pip" install --quiet 'moto[server]' >&2; then
    echo "test_clients: no moto; the test of S3 with it will be skipped" >&2
  fi
fi
# promtool out of its package, which is not installed: that would start a Prometheus server.
if ! command -v promtool >/dev/null && ! [ -x "$venv/bin/promtool" ]; then
  package=$(mktemp -d)
  if (cd "$package" && apt-get download -qq prometheus && dpkg -x prometheus_*.deb .) >&2; then
    cp "$package/usr/bin/promtool" "$venv/bin/"
  else
    echo "test_clients: no promtool; the test of metrics with it will be skipped" >&2
  fi
  rm -rf "$package"
fi
echo "$PWD/$venv/bin/python"
