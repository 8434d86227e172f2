#!/usr/bin/env bash
# Installs what PARL needs and is missing, and writes .deps/config.cmake, which tells CMake where it is.
#
#   scripts/setup.sh [--check]      --check: also the tools of `make check` (clang-format, clang-tidy)
#
# Idempotent: a second run finds everything in place and takes a second. It prints what it does; when something cannot
# be had it ends with that thing's name. Nothing is written outside PARL_DEPS and .deps but Debian packages.
#
#   PARL_DEPS         where libtorch (in a Python environment) and the ALE go     [${XDG_CACHE_HOME:-~/.cache}/parl]
#   PARL_TORCH_DIR    your libtorch: nothing is downloaded                        [CMAKE_PREFIX_PATH, if it has one]
#   PARL_ALE_DIR      your installed Arcade Learning Environment: it is not built
#   PARL_ALE_PGO=0    build the ALE without profile-guided optimisation: minutes quicker to build, slower to play
#   PARL_WITH_ATARI=0 leave the ALE out, and with it the GPL; `make train` then plays pixel:breakout
#   PARL_WITH_MUJOCO=0 leave MuJoCo out, and with it HalfCheetah-v5 and its kin. Where it cannot be had, it is left out, too
#   PARL_MUJOCO_DIR   your MuJoCo (else MUJOCO_DIR): include/ and lib/libmujoco.so; PARL_MUJOCO_ASSETS: your models
#   PARL_SKIP_APT=1   never call apt; missing packages are an error that lists them
#   PARL_TEST_SITES   what the tests of `parl submit` shall find: any of "ssh slurm k8s ray"; the tests of what is not
#                     here are skipped. ssh and slurm are Debian packages (which start their daemons where Debian does),
#                     k8s and ray go into a Python environment                              []
#   PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, ...   pip's own settings hold
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '[setup] %s\n' "$*" >&2; }
die() { printf '[setup] error: %s\n' "$*" >&2; exit 1; }

check_tools=no
for argument in "$@"; do
  case "$argument" in
    --check) check_tools=yes ;;
    -h | --help) sed -n '2,22s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) die "unknown argument '$argument' (see scripts/setup.sh --help)" ;;
  esac
done

read -r -a sites <<<"${PARL_TEST_SITES:-}"
for site in ${sites[@]+"${sites[@]}"}; do
  case "$site" in ssh | slurm | k8s | ray) ;; *) die "PARL_TEST_SITES: '$site' is none of ssh slurm k8s ray" ;; esac
done
wants_site() { [[ " ${sites[*]-} " == *" $1 "* ]]; }

home="${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}"
deps="${PARL_DEPS:-${XDG_CACHE_HOME:-$home/.cache}/parl}"
mkdir -p "$deps" 2>/dev/null || die "cannot create '$deps'; set PARL_DEPS to a folder you may write"
mkdir -p .deps
exec 9>"$deps/.lock"
if ! flock -n 9; then
  say "another set-up is at work in $deps: waiting for it"
  flock 9
fi

# The libtorch that the user names: PARL_TORCH_DIR, or a folder of CMAKE_PREFIX_PATH that has one.
find_torch_config() {
  local folder
  for folder in "$@"; do
    for candidate in "$folder" "$folder/share/cmake/Torch" "$folder/share/cmake" "$folder/Torch" "$folder/torch/share/cmake/Torch"; do
      if [ -f "$candidate/TorchConfig.cmake" ]; then echo "${candidate%/share/cmake/Torch}"; return; fi
      if [ -f "$candidate/Torch/TorchConfig.cmake" ]; then echo "${candidate%/share/cmake}"; return; fi
    done
  done
}
user_torch=""
if [ -n "${PARL_TORCH_DIR:-}" ]; then
  user_torch="$(find_torch_config "$PARL_TORCH_DIR")"
  [ -n "$user_torch" ] || die "PARL_TORCH_DIR is '$PARL_TORCH_DIR', but there is no share/cmake/Torch/TorchConfig.cmake in it"
elif [ -n "${CMAKE_PREFIX_PATH:-}" ]; then
  IFS=':;' read -r -a prefixes <<<"$CMAKE_PREFIX_PATH"
  user_torch="$(find_torch_config "${prefixes[@]}")"
fi

# ---- Debian packages ------------------------------------------------------------------------------------------------
as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo --preserve-env=DEBIAN_FRONTEND "$@"
  else die "'$*' needs root, and there is no sudo; run as root, or install these packages yourself"; fi
}

install_packages() {
  local wanted=(libfmt-dev libspdlog-dev libssl-dev libgtest-dev libgmock-dev libbenchmark-dev libcli11-dev libcpp-httplib-dev nlohmann-json3-dev
    libpng-dev zlib1g-dev libavcodec-dev libavformat-dev libavutil-dev libswscale-dev)
  local missing=() package tool
  ! wants_site ssh || wanted+=(openssh-client openssh-server)
  ! wants_site slurm || wanted+=(slurm-wlm munge)
  if ! command -v dpkg-query >/dev/null; then
    say "this is not Debian or Ubuntu: install the equivalents of ${wanted[*]} g++ cmake ninja-build python3 with venv"
    return
  fi
  # tool:package, for what may well come from elsewhere than apt
  for tool in c++:g++ cmake:cmake ninja:ninja-build python3:python3 ccache:ccache; do
    command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
  done
  if { [ -z "$user_torch" ] || wants_site k8s || wants_site ray; } && ! python3 -c 'import venv, ensurepip' 2>/dev/null; then missing+=(python3-venv); fi
  # The ALE's source comes by pip: that of our environment, unless the user's own libtorch spared us making one.
  if [ -n "$user_torch" ] && [ -z "${PARL_ALE_DIR:-}" ] && ! python3 -m pip --version >/dev/null 2>&1; then missing+=(python3-pip); fi
  if [ "$check_tools" = yes ]; then
    for tool in clang-format clang-tidy git; do command -v "$tool" >/dev/null || missing+=("$tool"); done
  fi
  local installed
  installed=" $(dpkg-query -W -f '${db:Status-Status} ${Package} ' "${wanted[@]}" 2>/dev/null || true) "
  for package in "${wanted[@]}"; do
    [[ "$installed" == *" installed $package "* ]] || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0

  [ "${PARL_SKIP_APT:-0}" != 1 ] || die "missing Debian packages: ${missing[*]}  (apt-get install ${missing[*]})"
  say "installing Debian packages: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  as_root apt-get update -qq </dev/null || say "apt-get update failed; trying with the package lists at hand"
  as_root apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >"$deps/apt.log" 2>&1 || {
    tail -n 5 "$deps/apt.log" >&2
    die "apt could not install: ${missing[*]}  (its whole output: $deps/apt.log)"
  }
}

# ---- libtorch, and Python for the tests -----------------------------------------------------------------------------
venv="$deps/python"
install_python() {
  local stamp
  stamp="$venv/.parl-$( (python3 --version; cat scripts/requirements.txt) | sha256sum | cut -c1-16)"
  [ -f "$stamp" ] && return 0
  say "installing $(grep -v '^#' scripts/requirements.txt | tr '\n' ' ')into $venv (some minutes, about 1 GB)"
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv" || die "python3 -m venv failed: is python3-venv installed?"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r scripts/requirements.txt </dev/null >"$deps/pip.log" 2>&1 || {
    tail -n 5 "$deps/pip.log" >&2
    die "pip could not install scripts/requirements.txt (its whole output: $deps/pip.log). With a libtorch of your own: PARL_TORCH_DIR=<folder> make"
  }
  touch "$stamp"
}

# For the tests of `parl submit`; apart from the other, because ray pins packages of its own.
sites_venv="$deps/sites"
install_sites() {
  local package name
  for name in k8s:kubernetes-validate ray:ray; do
    wants_site "${name%%:*}" || continue
    package="$(grep "^${name##*:}==" scripts/requirements-sites.txt)"
    [ -f "$sites_venv/.parl-$package" ] && continue
    say "installing $package into $sites_venv"
    [ -x "$sites_venv/bin/python" ] || python3 -m venv "$sites_venv" || die "python3 -m venv failed: is python3-venv installed?"
    "$sites_venv/bin/python" -m pip install --quiet --disable-pip-version-check "$package" </dev/null >"$deps/pip.log" 2>&1 || {
      tail -n 5 "$deps/pip.log" >&2
      die "pip could not install $package (its whole output: $deps/pip.log); leave '${name%%:*}' out of PARL_TEST_SITES to go without"
    }
    touch "$sites_venv/.parl-$package"
  done
  sites_python=""
  [ ! -x "$sites_venv/bin/python" ] || sites_python="$sites_venv/bin/python"
}

find_torch() {
  if [ -n "$user_torch" ]; then torch="$user_torch"; python="$(command -v python3 || true)"; return; fi
  python="$venv/bin/python"
  torch="$(echo "$venv"/lib/python3*/site-packages/torch)"
  [ -f "$torch/share/cmake/Torch/TorchConfig.cmake" ] || die "torch is installed in $venv, but TorchConfig.cmake is not there; remove $venv and run again"
  # A CUDA build cannot be linked without the CUDA toolkit; say so before CMake does in its own words.
  if compgen -G "$torch/lib/libtorch_cuda.so" >/dev/null && ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
    die "pip chose torch's CUDA build, which needs the CUDA toolkit (nvcc) to link. For the processor-only build remove $venv and
        set PIP_EXTRA_INDEX_URL to PyTorch's CPU wheel index, or give an unpacked libtorch: PARL_TORCH_DIR=<folder> make"
  fi
}

# ---- The Arcade Learning Environment ---------------------------------------------------------------------------------
install_ale() {
  if [ -n "${PARL_ALE_DIR:-}" ]; then
    [ -d "$PARL_ALE_DIR" ] || die "PARL_ALE_DIR is '$PARL_ALE_DIR', which is not a folder"
    ale="$(cd "$PARL_ALE_DIR" && pwd)"
    return
  fi
  local options=("$deps")
  [ "${PARL_ALE_PGO:-1}" != 0 ] || options+=(--no-pgo)
  # It fetches the ALE's source with pip; ours will do where the system has none.
  PATH="$venv/bin:$PATH" scripts/build_ale.sh "${options[@]}" </dev/null | { grep --line-buffered -v 'already there' >&2 || true; } ||
    die "the Arcade Learning Environment could not be built (scripts/build_ale.sh ${options[*]})"
  ale="$(readlink -f "$deps/ale")"
  [ -f "$ale/lib/libale.a" ] || die "scripts/build_ale.sh left no ALE at $deps/ale"
}

# ---- MuJoCo -----------------------------------------------------------------------------------------------------------
# Optional: without it everything else works, and `parl list envs` says what is missing.
install_mujoco() {
  local named="${PARL_MUJOCO_DIR:-${MUJOCO_DIR:-}}"
  if [ -n "$named" ]; then
    [ -f "$named/include/mujoco/mujoco.h" ] || die "PARL_MUJOCO_DIR is '$named', but there is no include/mujoco/mujoco.h in it"
    mujoco="$(cd "$named" && pwd)"
  fi
  if [ -n "$mujoco" ] && [ -n "${PARL_MUJOCO_ASSETS:-}" ]; then return; fi
  PATH="$venv/bin:$PATH" scripts/fetch_mujoco.sh "$deps" </dev/null || say "going on without what could not be fetched of MuJoCo"
}

install_packages
[ -n "$user_torch" ] || install_python
install_sites
find_torch
atari=ON ale=""
if [ "${PARL_WITH_ATARI:-1}" = 0 ]; then atari=OFF; else install_ale; fi
with_mujoco=ON mujoco=""
if [ "${PARL_WITH_MUJOCO:-1}" = 0 ]; then with_mujoco=OFF; else install_mujoco; fi

config="# Written by scripts/setup.sh; the Makefile gives it to CMake.
set(CMAKE_PREFIX_PATH \"$torch\" CACHE STRING \"\" FORCE)
set(PARL_WITH_ATARI $atari CACHE BOOL \"\" FORCE)
set(PARL_ALE_DIR \"$ale\" CACHE PATH \"\" FORCE)
set(PARL_WITH_MUJOCO $with_mujoco CACHE BOOL \"\" FORCE)
set(PARL_MUJOCO_DIR \"$mujoco\" CACHE PATH \"\" FORCE)
set(PARL_MUJOCO_ASSETS \"${PARL_MUJOCO_ASSETS:-}\" CACHE PATH \"\" FORCE)
set(PARL_PYTHON \"$python\" CACHE FILEPATH \"\" FORCE)
set(PARL_SITES_PYTHON \"$sites_python\" CACHE FILEPATH \"\" FORCE)"
if [ "$config" != "$(cat .deps/config.cmake 2>/dev/null)" ]; then
  printf '%s\n' "$config" >.deps/config.cmake
  say "ready: libtorch $torch, ALE ${ale:-left out}"
fi
