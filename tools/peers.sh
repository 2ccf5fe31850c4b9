#!/usr/bin/env bash
# Writes the values that PyTorch computes for the models of tests/peers (tests/peers/expected), then measures PyTorch on the
# same workloads as `emblem bench train` and `emblem bench loader`, in a separate virtual environment, and writes
# build/peers/*.json in the format of emblem's results.
#   tools/peers.sh            both batch sizes and both embedding sizes
#   THREADS=4 tools/peers.sh  with 4 threads (default: all cores)
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/peers-venv
out=build/peers
threads=${THREADS:-$(nproc)}

if ! "$venv/bin/python" -c 'import torch, numpy, safetensors' 2>/dev/null; then
  echo "peers: installing PyTorch into $venv (several hundred MB)"
  if ! python3 -m venv "$venv" 2>/dev/null; then
    echo "peers: python3 cannot make virtual environments; install python3-venv" >&2
    exit 1
  fi
  # On x86-64 the default wheel includes CUDA; PEERS_PIP_ARGS can select an index with CPU wheels.
  # shellcheck disable=SC2086
  "$venv/bin/pip" install --quiet ${PEERS_PIP_ARGS:-} torch numpy safetensors
fi

"$venv/bin/python" tests/peers/write_expected.py

mkdir -p "$out"
for dim in 16 128; do
  for batch in 2048 8192; do
    echo "== PyTorch DLRM, dim $dim, batch $batch, $threads threads"
    "$venv/bin/python" bench/peers/torch_dlrm_cpu.py --dim "$dim" --batch "$batch" --threads "$threads" \
      --json "$out/torch_dlrm_d${dim}_b${batch}.json"
  done
done

# Multi-task models, models with histories and the other ranking models.
"$venv/bin/python" bench/peers/rank_suite.py --emblem build/release/emblem --device cpu --threads "$threads" --batch 2048 \
  --divide-tables 10 --out "$out/rank"

# The loader: the same files in three formats, emblem first; both must find the same sums over the first rows.
emblem=build/release/emblem
data=build/peers-data
if [ ! -d "$data/split" ]; then
  rm -rf "$data"
  "$emblem" synth --preset criteo --rows 2M --test-rows 10k --format tsv --missing-dense 0 --missing-sparse 0 --out "$data/tsv"
  for format in raw split; do
    "$emblem" convert --from "$data/tsv/train" --to "$data/$format" --format "$format"
  done
fi
inputs=(--input "tsv=$data/tsv/train" --input "raw=$data/raw" --input "split=$data/split")
"$emblem" bench loader --config configs/criteo/dlrm.config "${inputs[@]}" --workers 1,2,4 --batch 8192 --shuffle off \
  --json "$out/emblem_loader.json"
"$venv/bin/python" bench/peers/torch_loader.py "${inputs[@]}" --workers 1,2,4 --batch 8192 \
  --expect "$out/emblem_loader.json" --json "$out/torch_loader.json"
"$emblem" report "$out/emblem_loader.json" "$out/torch_loader.json" --title "Emblem loader and PyTorch DataLoader" \
  --out "$out/loader.html" --markdown "$out/loader.md"
