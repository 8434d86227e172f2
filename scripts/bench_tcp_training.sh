#!/bin/bash
# What a network between actors and learner costs IMPALA: Pong with the thread engine against the tcp engine with two
# worker processes, in turns (A B A B) on one machine; over loopback, and over a link of 1 Gbit/s and 1 ms.
#
#   scripts/bench_tcp_training.sh [--rounds 2] [--seconds 40] [--parl build/parl] [--no-link] [-- options of parl train]
#
# The link: a network namespace for the workers, a veth pair with tbf at 1gbit on both ends (the rate), and a proxy in
# user space that passes every byte on 1 ms later, each way (the length; netem is missing from many kernels). It needs
# root and is left out, with a word, where it cannot be made. The proxy takes processor time of the same machine.
# Bytes per update come from the manager's own counters (parl status), both ways, over the run's middle.
set -euo pipefail

rounds=2 seconds=40 parl=build/parl link=1 rate=1gbit delay_ms=1
options=(--env atari:pong --preset parl)
while [ $# -gt 0 ]; do
  case $1 in
    --rounds) rounds=$2; shift 2 ;;
    --seconds) seconds=$2; shift 2 ;;
    --parl) parl=$2; shift 2 ;;
    --no-link) link=0; shift ;;
    --) shift; options=("$@"); break ;;
    *) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done
parl=$(realpath "$parl")
proxy=$(dirname "$parl")/bench/delay_proxy
work=$(mktemp -d)
port=$((20000 + RANDOM % 20000))
started=()  # every process that we must end

cleanup() {
  for pid in "${started[@]:-}"; do [ -z "$pid" ] || kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  ip link del parl-learner 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

number() { grep -o "\"$1\": [0-9.e+-]*" | head -1 | sed 's/.*: //'; }                # of a JSON line
total() { grep -o "\"$1\": [0-9]*" | sed 's/.*: //' | awk '{s += $1} END {printf "%.0f", s}'; }  # over the workers
load() { cut -d' ' -f1-3 /proc/loadavg; }

# train NAME ENGINE -> steps/s in $rate_of, the JSON in $work/NAME.json
train() {
  "$parl" train impala "${options[@]}" --engine "$2" --steps 1000000000 --until-seconds "$seconds" --run "$work/$1" \
    --quiet --json > "$work/$1.json" 2> "$work/$1.log" || { tail -20 "$work/$1.log" >&2; exit 1; }
  rate_of=$(tail -1 "$work/$1.json" | number steps_per_s)
  rm -rf "${work:?}/$1"
}

# Over tcp: workers by the command prefix $2... that dial $address.
train_tcp() {
  local name=$1 address=$2; shift 2
  local workers=() pid
  for _ in 1 2; do
    "$@" "$parl" --parl-worker "$address" > /dev/null 2>> "$work/workers.log" &
    workers+=($!); started+=($!)
  done
  (
    sleep $((seconds / 3)); "$parl" status "tcp://127.0.0.1:$port" --json > "$work/$name.early" 2> /dev/null; date +%s.%N > "$work/$name.t1"
    sleep $((seconds / 3)); "$parl" status "tcp://127.0.0.1:$port" --json > "$work/$name.late" 2> /dev/null; date +%s.%N > "$work/$name.t2"
  ) &
  local watcher=$!; started+=($watcher)
  train "$name" "tcp://127.0.0.1:$port"
  wait "$watcher" || true
  for pid in "${workers[@]}"; do kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; done
  local json updates secs
  json=$(tail -1 "$work/$name.json"); updates=$(number updates <<< "$json"); secs=$(number seconds <<< "$json")
  bytes_of=$(awk -v r1="$(total bytes_received < "$work/$name.early")" -v r2="$(total bytes_received < "$work/$name.late")" \
                 -v s1="$(total bytes_sent < "$work/$name.early")" -v s2="$(total bytes_sent < "$work/$name.late")" \
                 -v t1="$(cat "$work/$name.t1")" -v t2="$(cat "$work/$name.t2")" -v u="$updates" -v s="$secs" \
    'BEGIN {d = (t2 - t1) * u / s; printf "%.2f MB to the learner, %.2f MB from it", (r2 - r1) / d / 1e6, (s2 - s1) / d / 1e6}')
}

# compare WHAT FUNCTION: rounds of thread, then FUNCTION
compare() {
  local a=() b=()
  for ((i = 1; i <= rounds; ++i)); do
    train "thread-$i" thread; a+=("$rate_of")
    "$2" "$1-$i"; b+=("$rate_of")
    awk -v i="$i" -v w="$1" -v a="${a[-1]}" -v b="${b[-1]}" -v bytes="$bytes_of" -v load="$(load)" \
      'BEGIN {printf "round %d: thread %.0f steps/s, %s %.0f steps/s = %.1f %%; an update: %s; load %s\n", i, a, w, b, 100 * b / a, bytes, load}'
  done
  awk -v w="$1" -v goal="$3" -v a="${a[*]}" -v b="${b[*]}" 'BEGIN {
    n = split(a, x, " "); split(b, y, " "); for (i = 1; i <= n; ++i) {p += x[i]; q += y[i]}
    printf "%s: %.1f %% of the thread engine (goal: %s %%)\n", w, 100 * q / p, goal}'
}

over_loopback() { train_tcp "$1" "tcp://127.0.0.1:$port"; }
over_link() { train_tcp "$1" "tcp://10.99.99.1:$((port + 1))" nsenter --target "$namespace" --net; }

make_link() {
  [ -x "$proxy" ] || { echo "no $proxy: cmake --build build --target delay_proxy"; return 1; }
  unshare --net sleep infinity & namespace=$!
  started+=("$namespace")
  for _ in 1 2 3 4 5 6 7 8 9 10; do  # until it has left ours
    [ "$(readlink /proc/$namespace/ns/net)" != "$(readlink /proc/self/ns/net)" ] && break
    sleep 0.1
  done
  ip link add parl-learner type veth peer name parl-worker netns "$namespace" &&
    ip addr add 10.99.99.1/24 dev parl-learner && ip link set parl-learner up &&
    nsenter --target "$namespace" --net sh -c \
      "ip addr add 10.99.99.2/24 dev parl-worker && ip link set parl-worker up && ip link set lo up &&
       tc qdisc add dev parl-worker root tbf rate $rate burst 256kb latency 50ms" &&
    tc qdisc add dev parl-learner root tbf rate $rate burst 256kb latency 50ms || return 1
  "$proxy" 10.99.99.1 $((port + 1)) 127.0.0.1 "$port" "$delay_ms" > "$work/proxy.log" 2>&1 & started+=($!)
}

head -c 32 /dev/urandom | base64 > "$work/token"; chmod 600 "$work/token"
export PARL_TOKEN_FILE=$work/token PARL_LOG=warn
echo "parl train impala ${options[*]}, $seconds s a run, two workers; load before: $(load)"
compare tcp over_loopback 85
if [ "$link" = 1 ]; then
  if make_link 2> "$work/link.log"; then
    compare link over_link 80
  else
    echo "the link of 1 Gbit/s and 1 ms is left out: $(tail -1 "$work/link.log") (it needs root, veth and tbf)"
  fi
fi
