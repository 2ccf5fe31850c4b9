#!/usr/bin/env bash
# 4 ranks by mpirun (Open MPI or MPICH), which ends all ranks when one fails. Here they are started again, each time from
# the latest checkpoint. Options for mpirun, such as --hostfile, are arguments of this script.
#
#   PIPELINE=configs/criteo/dlrm.config configs/launch/mpirun.sh --hostfile hosts
set -euo pipefail

pipeline=${PIPELINE:-configs/criteo/dlrm.config}
restarts=3

for ((attempt = 0; ; ++attempt)); do
  # --resume begins with the first step where there is no checkpoint yet.
  mpirun -n "${RANKS:-4}" "$@" emblem train --config "$pipeline" --resume && exit 0
  ((attempt < restarts)) || exit 1
  sleep $((1 << attempt))
done
