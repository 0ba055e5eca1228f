#!/usr/bin/env bash
# What the README tells a new user, word for word, from a fresh clone on. What it prints is in script.out.
set -euo pipefail
source "${BASH_SOURCE[0]%/*}/around.sh"

make up ARGS="--sim laptop" &
wait_up
. .venv/bin/activate
dray get devices
dray apply -f examples/06-first-pod/pod.yaml --wait
wait_log
dray logs hello
dray describe claim
wait_dashboard
dray apply -f examples/06-first-pod/too-many.yaml
wait_claim
dray explain pod/too-many
dray delete -f examples/06-first-pod
dray down
wait_end
