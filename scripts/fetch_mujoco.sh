#!/usr/bin/env bash
# Puts MuJoCo's C library (Apache-2.0) and Gymnasium's MuJoCo models (MIT) into a folder: of the two Python packages named
# in scripts/requirements-mujoco.txt only the headers, the library, the models and the licences. 10 MB.
#
#   scripts/fetch_mujoco.sh FOLDER      leaves FOLDER/mujoco -> FOLDER/mujoco-<version>, with include, lib and assets
#
# Quick when it is there. Needs a python3 with pip, of any version: the packages are unpacked, not installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
say() { printf '[mujoco] %s\n' "$*" >&2; }
die() { printf '[mujoco] error: %s\n' "$*" >&2; exit 1; }

[ $# -eq 1 ] && [ "${1#-}" = "$1" ] || { sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2; }
mkdir -p "$1"
deps="$(cd "$1" && pwd)"
mujoco="$(grep '^mujoco==' scripts/requirements-mujoco.txt)"
gymnasium="$(grep '^gymnasium==' scripts/requirements-mujoco.txt)"
place="$deps/mujoco-${mujoco#*==}-gymnasium-${gymnasium#*==}"

if [ ! -f "$place/assets/ant.xml" ]; then
  machine="$(uname -m)"
  work="$(mktemp -d "$deps/.mujoco.XXXXXX")"
  trap 'rm -rf "$work"' EXIT
  say "fetching $mujoco and $gymnasium into $place"
  # The library in the package is the same for every Python; one is named so that the user's own version does not matter.
  for package in "$mujoco" "$gymnasium"; do
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --python-version 3.11 \
      --implementation cp --abi cp311 --abi abi3 --abi none --platform "manylinux_2_28_$machine" \
      --platform "manylinux_2_27_$machine" --platform "manylinux_2_17_$machine" --platform "manylinux2014_$machine" \
      --dest "$work/wheels" "$package" </dev/null >"$deps/mujoco.log" 2>&1 || {
      tail -n 3 "$deps/mujoco.log" >&2
      die "pip could not download $package for $machine"
    }
  done
  python3 - "$work" <<'PYTHON'
import pathlib, sys, zipfile
work = pathlib.Path(sys.argv[1])
for wheel in (work / "wheels").glob("*.whl"):
    with zipfile.ZipFile(wheel) as package:
        for name in package.namelist():
            path = pathlib.PurePosixPath(name)
            if name.startswith("mujoco/include/mujoco/") and path.suffix == ".h":
                goal = work / "out/include/mujoco" / path.name
            elif name.startswith("mujoco/libmujoco.so"):
                goal = work / "out/lib" / path.name
            elif name.startswith("gymnasium/envs/mujoco/assets/") and path.suffix == ".xml":
                goal = work / "out/assets" / path.name
            elif "/licenses/" in name and not name.endswith("/"):
                goal = work / "out/licenses" / wheel.name.split("-")[0] / path.name
            else:
                continue
            goal.parent.mkdir(parents=True, exist_ok=True)
            goal.write_bytes(package.read(name))
PYTHON
  [ -f "$work/out/include/mujoco/mujoco.h" ] && compgen -G "$work/out/lib/libmujoco.so*" >/dev/null && [ -f "$work/out/assets/ant.xml" ] ||
    die "the packages hold no library, headers or models where they were looked for"
  rm -rf "$place"
  mv "$work/out" "$place"
fi
ln -sfn "$(basename "$place")" "$deps/mujoco"
