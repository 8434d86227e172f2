#!/usr/bin/env bash
# Runs a worker beside a learner, for tests: two_programs.sh WORKER... -- LEARNER...   ADDRESS in either becomes a fresh
# unix socket. The exit status is the learner's; the worker is ended with it.
set -euo pipefail
folder="$(mktemp -d)"
worker=() learner=() part=worker
for argument in "$@"; do
  if [ "$argument" = -- ] && [ "$part" = worker ]; then part=learner; continue; fi
  argument="${argument//ADDRESS/unix:$folder/socket}"
  if [ "$part" = worker ]; then worker+=("$argument"); else learner+=("$argument"); fi
done
"${worker[@]}" &
pid=$!
trap 'kill "$pid" 2>/dev/null || true; rm -rf "$folder"' EXIT
"${learner[@]}"
