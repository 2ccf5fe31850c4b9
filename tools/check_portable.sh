#!/usr/bin/env bash
# Runs an installed emblem on emulated CPUs, from the oldest of its architecture on: on each it has to start, choose the
# right level of its library, train and predict. A few minutes.
#   tools/check_portable.sh PREFIX
# Needs qemu-user. EMBLEM_QEMU: options of qemu, e.g. "-L ROOT" for the libraries of another architecture.
set -euo pipefail

prefix=$1
case $(od -An -tx1 -j18 -N1 "$prefix/bin/emblem") in # e_machine
  *3e) qemu="qemu-x86_64"; cpus="qemu64:x86-64 Nehalem:x86-64-v2 Haswell:x86-64-v3" ;;
  *b7) qemu="qemu-aarch64"; cpus="cortex-a53:armv8-a neoverse-n1:armv8-a max:armv8-a" ;;
  *) echo "check_portable: $prefix/bin/emblem is neither for x86-64 nor for arm64" >&2; exit 1 ;;
esac
command -v $qemu >/dev/null || { echo "check_portable: install qemu-user" >&2; exit 1; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

fail() { echo "check_portable: $cpu: $*: $(cat "$out/errors")" >&2; exit 1; }
# shellcheck disable=SC2086 # several options
emblem() { $qemu ${EMBLEM_QEMU:-} -cpu "$cpu" "$prefix/bin/emblem" "$@" 2>"$out/errors"; }

for entry in $cpus; do
  cpu=${entry%%:*} level=${entry#*:}
  emblem --version >"$out/version" || fail "does not start"
  emblem inspect --machine >"$out/machine" || fail "inspect --machine failed"
  grep -q "^level  *$level\( \|$\)" "$out/machine" || fail "expected level $level: $(grep ^level "$out/machine")"
  if [ ! -d "$out/data" ]; then
    emblem synth --preset criteo --rows 8k --test-rows 2k --scale 0.002 --format tsv --out "$out/data" >/dev/null ||
      fail "synth failed"
  fi
  emblem train --config "$prefix/share/emblem/configs/criteo/dlrm.config" --model-dir "$out/model-$cpu" \
    --set "train_input_path=$out/data/train" --set "eval_input_path=$out/data/test" \
    --set data_config.batch_size=1024 >/dev/null || fail "train failed"
  first=${first:-$out/model-$cpu} # all predict with the model that the oldest trained
  emblem predict --checkpoint "$first" --input "$out/data/test" --out "$out/$cpu.csv" >/dev/null ||
    fail "predict failed"
  parquet=written
  if ! emblem synth --preset criteo --rows 1k --test-rows 100 --scale 0.002 --format parquet --out "$out/parquet" \
    >/dev/null; then
    if [ "$level" != x86-64 ] || ! grep -q "SSE4.2" "$out/errors"; then fail "Parquet failed"; fi
    parquet="refused: $(cat "$out/errors")"
  fi
  rm -rf "$out/parquet"
  printf '%-12s %-10s %s; Parquet %s\n' "$cpu" "$level" "starts, trains, predicts" "$parquet"
done

python3 - "$out" <<'PY'
import pathlib, sys
files = sorted(pathlib.Path(sys.argv[1]).glob("*.csv"))
values = [[float(line.split(",")[-1]) for line in path.read_text().splitlines()[1:]] for path in files]
worst = max(abs(a - b) for other in values[1:] for a, b in zip(values[0], other, strict=True))
print(f"predictions of one model on {len(files)} CPUs differ by at most {worst:.2g}")
sys.exit(worst > 1e-5)
PY
