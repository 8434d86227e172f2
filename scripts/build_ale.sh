#!/usr/bin/env bash
# Builds the Arcade Learning Environment (ALE 0.12.1, GPL-2.0) for parl, once, into a dependency directory.
#
#   scripts/build_ale.sh [DIR] [--no-pgo] [--plain-too] [--generic] [--jobs N] [--force]
#
#   DIR           where to install (default: $PARL_DEPS, else ${XDG_CACHE_HOME:-~/.cache}/parl)
#   --no-pgo      skip the profile-guided optimisation (about 10-20 % slower environments, half the build time)
#   --plain-too   keep a plain build beside the profile-guided one, to compare them
#   --generic     do not compile for this machine's processor
#   --force       build even when an install is there
#
# Result: DIR/ale-0.12.1-{pgo,plain}-{native,generic}/{lib/libale.a,include/,roms/}, and the link DIR/ale to the one asked
# for. A finished install is left alone, so a second run costs nothing. PARL_ALE_DIR in the environment names an ALE of your own: then nothing is built.
# The source is the package ale-py's (it brings the ROMs), fetched with pip.
set -euo pipefail

readonly version=0.12.1
readonly sha256=c503d574c5983e1063b451201ccb779d935919c0f6bf116fb0f4f8aa4c86d249
readonly here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

say() { printf 'ale: %s\n' "$*"; }
fail() { printf 'ale: error: %s\n' "$*" >&2; exit 1; }

deps="${PARL_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/parl}"
pgo=yes plain_too=no cpu=native jobs="$(nproc)" force=no
while [ $# -gt 0 ]; do
  case "$1" in
    --jobs) [ $# -ge 2 ] || fail "--jobs needs a number"; jobs="$2"; shift ;;
    --no-pgo) pgo=no ;;
    --plain-too) plain_too=yes ;;
    --generic) cpu=generic ;;
    --force) force=yes ;;
    -h|--help) sed -n '2,16s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    -*) fail "unknown option '$1' (see --help)" ;;
    *) deps="${1%/}" ;;
  esac
  shift
done

if [ -n "${PARL_ALE_DIR:-}" ]; then
  [ -n "$(find "$PARL_ALE_DIR" -name 'libale.*' -print -quit 2>/dev/null)" ] ||
    fail "PARL_ALE_DIR=$PARL_ALE_DIR holds no libale.a; point it to an ALE install, or unset it"
  say "using the ALE that PARL_ALE_DIR names: $PARL_ALE_DIR"
  exit 0
fi

flags="-O3"
[ "$cpu" = native ] && flags="-O3 -march=native"
# What the installed code depends on besides the source: compiler, options, processor. A change rebuilds.
stamp() {
  printf '%s\n' "ale $version, recipe 2, $1, $flags" "$("${CXX:-g++}" --version | head -n 1)"
  [ "$cpu" = native ] && "${CXX:-g++}" -march=native -dM -E -x c++ /dev/null | grep -E '__(AVX|SSE|BMI|znver|tune)' | sort
  return 0
}
prefix() { printf '%s/ale-%s-%s-%s' "$deps" "$version" "$1" "$cpu"; }
is_done() { [ "$force" = no ] && [ -f "$(prefix "$1")/stamp" ] && [ "$(stamp "$1")" = "$(cat "$(prefix "$1")/stamp")" ]; }

command -v "${CXX:-g++}" >/dev/null || fail "g++ is missing (Debian package g++)"
wanted=()
[ "$pgo" = yes ] && wanted+=(pgo)
if [ "$pgo" = no ] || [ "$plain_too" = yes ]; then wanted+=(plain); fi
todo=()
for variant in "${wanted[@]}"; do
  if is_done "$variant"; then say "already there: $(prefix "$variant")"; else todo+=("$variant"); fi
done
# The first variant wanted is the one that DIR/ale names.
point() { ln -sfn "$(basename "$(prefix "${wanted[0]}")")" "$deps/ale"; }
if [ ${#todo[@]} -eq 0 ]; then point; exit 0; fi

command -v cmake >/dev/null || fail "cmake is missing (Debian package cmake)"
command -v python3 >/dev/null || fail "python3 is missing (Debian package python3)"
python3 -m pip --version >/dev/null 2>&1 || fail "pip is missing (Debian package python3-pip)"
"${CXX:-g++}" -E -x c++ - <<<'#include <zlib.h>' >/dev/null 2>&1 || fail "zlib.h is missing (Debian package zlib1g-dev)"
generator=(-G "Unix Makefiles")
command -v ninja >/dev/null && generator=(-G Ninja)

mkdir -p "$deps" || fail "cannot write $deps"
work="$(mktemp -d "$deps/ale-build.XXXXXX")"
trap 'rm -rf "$work"' EXIT
log="$work/log"
run() { "$@" >"$log" 2>&1 || { tail -n 40 "$log" >&2; fail "this failed: $*"; }; }

archive="$deps/ale_py-$version.tar.gz"
if ! { [ -f "$archive" ] && echo "$sha256  $archive" | sha256sum --check --status; }; then
  say "fetching the source package ale-py $version"
  run python3 -m pip download --quiet --no-deps --no-binary ale-py "ale-py==$version" -d "$work/download"
  mv "$work/download/ale_py-$version.tar.gz" "$archive"
  echo "$sha256  $archive" | sha256sum --check --status || fail "$archive is not the expected file (SHA-256 differs)"
fi
tar -xzf "$archive" -C "$work"
source_dir="$work/ale_py-$version"
[ -d "$source_dir/src/ale/python/roms" ] || fail "the source package brings no ROMs"
# Every console computes a table for blending frames, 60 ms long, though blending is off: compute it only when it is on.
blend="$source_dir/src/ale/environment/phosphor_blend.cpp"
sed -i 's/^  makeAveragePalette();$/  if (m_osystem->settings().getBool("color_averaging")) makeAveragePalette();/' "$blend"
grep -q 'if (m_osystem.*makeAveragePalette' "$blend" || fail "the change to $blend did not fit"

# compile VARIANT "EXTRA FLAGS": leaves $work/VARIANT.o, link-time optimised across all of the ALE.
compile() {
  run cmake -S "$source_dir" -B "$work/build" "${generator[@]}" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="$flags -DNDEBUG -flto $2" -DCMAKE_CXX_COMPILER="${CXX:-g++}" \
    -DCMAKE_CXX_COMPILER_AR="$(command -v gcc-ar)" -DCMAKE_CXX_COMPILER_RANLIB="$(command -v gcc-ranlib)" \
    -DCMAKE_AR="$(command -v gcc-ar)" -DCMAKE_RANLIB="$(command -v gcc-ranlib)" \
    -DBUILD_PYTHON_LIB=OFF -DBUILD_CPP_LIB=ON -DSDL_SUPPORT=OFF
  run nice cmake --build "$work/build" -j "$jobs" --target ale-lib
  # One object, compiled as a whole here, so that linking programs with it stays quick.
  find "$work/build" -name '*.o' ! -name 'whole-*.o' | sort >"$work/objects"
  # shellcheck disable=SC2086
  run nice "${CXX:-g++}" -r -flinker-output=nolto-rel $flags -fPIC "-flto=$jobs" $2 -o "$work/build/whole-$1.o" "@$work/objects"
}

# On some processors the picture generator (TIA) is faster without its profile. Times both and keeps the faster one.
choose_best() {
  say "timing it with and without the profile of the picture generator"
  local object counters candidate round
  object="$(find "$work/build" -name 'TIA.cxx.o')"
  counters="$(find "$work/build" -name 'TIA.cxx.gcda')"
  mv "$counters" "$counters.aside"
  # shellcheck disable=SC2086
  run nice "${CXX:-g++}" -std=gnu++17 $flags -DNDEBUG -flto -fPIC -I"$source_dir/src" -I"$work/build/src/ale" \
    -c "$source_dir/src/ale/emucore/TIA.cxx" -o "$object"
  # shellcheck disable=SC2086
  run nice "${CXX:-g++}" -r -flinker-output=nolto-rel $flags -fPIC "-flto=$jobs" -fprofile-use -Wno-missing-profile \
    -o "$work/build/whole-without.o" "@$work/objects"
  for candidate in pgo without; do
    run "${CXX:-g++}" -std=c++17 -O2 -I"$source_dir/src" -I"$work/build/src/ale" "$here/ale_profile_run.cc" \
      "$work/build/whole-$candidate.o" -lz -pthread -o "$work/run-$candidate"
  done
  : >"$work/times"
  for round in 1 2 3 4 5; do
    for candidate in pgo without; do
      printf '%s %s\n' "$candidate" "$("$work/run-$candidate" "$source_dir/src/ale/python/roms")" >>"$work/times"
    done
  done
  # The median of the five rounds, so that other work on the machine does not decide.
  median() { grep "^$1 " "$work/times" | cut -d' ' -f2 | sort -n | sed -n 3p; }
  say "seconds for the six games: $(median pgo) with, $(median without) without"
  if awk "BEGIN { exit !($(median without) < $(median pgo)) }"; then mv "$work/build/whole-without.o" "$work/build/whole-pgo.o"; fi
}

install_variant() {
  local to new
  to="$(prefix "$1")"
  new="$work/install-$1"
  mkdir -p "$new/lib" "$new/include" "$new/roms"
  ar rcs "$new/lib/libale.a" "$work/build/whole-$1.o"
  (cd "$source_dir/src" && find ale -name '*.h' -o -name '*.hpp' -o -name '*.hxx' | grep -v -e /external/ -e /python/ -e /wasm/ -e /vector/ |
    tar -cf - -T -) | tar -xf - -C "$new/include"
  cp "$(find "$work/build" -name version.hpp -print -quit)" "$new/include/ale/version.hpp"
  cp "$source_dir"/src/ale/python/roms/*.bin "$new/roms/"
  cp "$source_dir/LICENSE.md" "$new/LICENSE.md"
  stamp "$1" >"$new/stamp"
  rm -rf "$to"
  mv "$new" "$to"
  say "installed $to"
}

for variant in "${todo[@]}"; do
  if [ "$variant" = plain ]; then
    say "compiling the plain build (1-3 minutes on two cores)"
    compile plain ""
  else
    say "compiling with profiling counters (1-3 minutes on two cores)"
    compile counting "-fprofile-generate"
    say "playing six games to learn what is hot"
    run "${CXX:-g++}" -std=c++17 -O2 -fprofile-generate -I"$source_dir/src" -I"$work/build/src/ale" \
      "$here/ale_profile_run.cc" "$work/build/whole-counting.o" -lz -pthread -o "$work/profile_run"
    # The program's own counters are not wanted; those of the ALE lie beside its objects.
    (cd "$work" && run ./profile_run "$source_dir/src/ale/python/roms")
    [ -n "$(find "$work/build" -name '*.gcda' -print -quit)" ] || fail "the profiling run left no counters"
    say "compiling again with what was learnt"
    compile pgo "-fprofile-use -fprofile-partial-training -Wno-missing-profile -Wno-coverage-mismatch"
    choose_best
  fi
  install_variant "$variant"
done
point
