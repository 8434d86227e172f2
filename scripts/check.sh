#!/usr/bin/env bash
# What continuous integration runs, on your machine: `make check`.
#
#   1  format      every .h and .cc as clang-format leaves it
#   2  includes    who includes whom
#   3  build       everything
#   4  tidy        clang-tidy (names, bugs) on what changed since PARL_BASE (default: the upstream branch, else the last
#                  commit); at most PARL_TIDY_MAX files (default 8; 0: none, all: no limit), the rest is named
#   5  tests       ctest
#
# Cheap checks come first; the first that fails ends it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset="${PRESET:-release}"
build="$([ "$preset" = release ] && echo build || echo "build-$preset")"
step() { printf '\n== %s\n' "$*"; }

scripts/setup.sh --check

step format
mapfile -t sources < <(git ls-files --cached --others --exclude-standard '*.h' '*.cc' | while read -r f; do [ -f "$f" ] && echo "$f"; done)
unformatted=()
while read -r file; do unformatted+=("$file"); done < <(printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -I{} sh -c 'clang-format "$1" | cmp -s - "$1" || echo "$1"' _ {})
if [ ${#unformatted[@]} -gt 0 ]; then
  printf 'not formatted: %s\n' "${unformatted[@]}"
  echo "run: make format"
  exit 1
fi
echo "${#sources[@]} files in order"

step includes
python3 scripts/check_includes.py

step build
make --no-print-directory everything PRESET="$preset" ${JOBS:+JOBS="$JOBS"}

step "tidy (what changed)"
base="${PARL_BASE:-}"
if [ -z "$base" ]; then
  base="$(git merge-base HEAD '@{upstream}' 2>/dev/null || true)"
  if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then base="$(git rev-parse --verify -q HEAD~1 || git rev-parse HEAD)"; fi
fi
max="${PARL_TIDY_MAX:-8}"
mapfile -t changed < <({ git diff --name-only "$base" -- '*.cc'; git ls-files --others --exclude-standard '*.cc'; } | sort -u |
  grep -v -e /must_not_compile/ -e ^tests/consumer/ | while read -r f; do [ -f "$f" ] && grep -q "/$f\"" "$build/compile_commands.json" && echo "$f"; done || true)
[ "$max" = all ] && max=${#changed[@]}
if [ ${#changed[@]} -gt 0 ] && [ "$max" -gt 0 ]; then
  checked=("${changed[@]:0:$max}")
  # clang reads the same commands; gcc's precompiled header and a few of its warnings mean nothing to it.
  database="$(mktemp -d)"
  trap 'rm -rf "$database"' EXIT
  sed -E 's/-Winvalid-pch//g; s# -include [^ ]*cmake_pch\.hxx##g; s/-Wno-tsan//g; s/-fno-sanitize-recover=[a-z]*//g' "$build/compile_commands.json" >"$database/compile_commands.json"
  printf '%s\n' "${checked[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy -p "$database" --quiet --extra-arg=-Wno-unknown-warning-option
  echo "${#checked[@]} of ${#changed[@]} changed files in order"
  [ ${#changed[@]} -le "$max" ] || printf 'not looked at (PARL_TIDY_MAX=all looks at all): %s\n' "${changed[@]:$max}"
else
  echo "nothing changed"
fi

step tests
ctest --test-dir "$build" --output-on-failure -j 2
