#!/usr/bin/env bash
# 8 ranks on two hosts, by ssh from one of them or from a third machine. Emblem and this folder are at the same path on
# all hosts (a shared file system), and ssh needs no password. After a failure all ranks start again, up to 5 times, from
# the latest checkpoint; a host that cannot be reached any more leaves the job.
#
#   PIPELINE=configs/criteo/dlrm.config configs/launch/hosts.sh node1 node2
set -euo pipefail

pipeline=${PIPELINE:-configs/criteo/dlrm.config}
hosts=$(printf '%s:4,' "$@")

exec emblem launch --hosts "${hosts%,}" --restarts 5 --least-ranks 4 --log-dir logs -- train --config "$pipeline"
