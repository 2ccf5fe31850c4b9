#!/usr/bin/env bash
# Installs missing packages for the build, the tests and the demo on Debian and Ubuntu.
set -euo pipefail

packages=(g++ cmake ninja-build ccache protobuf-compiler libprotobuf-dev libfmt-dev libspdlog-dev
  libcli11-dev nlohmann-json3-dev libgtest-dev libgmock-dev python3 python3-dev python3-venv xz-utils
  # Compressed input; zstd for its tests.
  zlib1g-dev libzstd-dev zstd
  # Data of web servers; object stores come with Arrow (cmake/Arrow.cmake).
  libcurl4-openssl-dev
  # The server: HTTP, TLS, compressed bodies, gRPC over HTTP/2; gRPC's own library and curl for its tests and benchmarks.
  libboost-dev libssl-dev libnghttp2-dev libgrpc++-dev protobuf-compiler-grpc curl
  # The parameter server: tables in RocksDB and Redis (TLS), updates from Kafka; Redis for its tests.
  librocksdb-dev librdkafka-dev redis-server redis-tools openssl
  # Ranks connected by MPI; mpirun for its tests.
  libopenmpi-dev openmpi-bin)

if ! command -v dpkg-query >/dev/null; then
  echo "setup: not Debian or Ubuntu; install the equivalents of these packages: ${packages[*]}" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [ "$status" = "install ok installed" ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: missing packages; as root, run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
