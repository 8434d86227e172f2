#!/bin/sh
# Ray's Python actors beside remote objects of the process and tcp engines, in one run on this machine.
#   scripts/bench_ray.sh [PARL]     PARL: the program, default build/parl
# Ray comes into a virtual environment of its own (PARL_RAY_VENV, default build/ray-venv), from
# scripts/requirements-sites.txt. The last line on stdout is one JSON object: {"ray": {...}, "process": {...}, "tcp":
# {...}, "latency_ratio_process", "latency_ratio_tcp", "bulk_ratio_process", "bulk_ratio_tcp"}; latency: Ray's median
# of a small call over ours, both unpinned; bulk: the smaller of up and down, ours over Ray's.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
parl=${1:-$here/../build/parl}
venv=${PARL_RAY_VENV:-$here/../build/ray-venv}
[ -x "$parl" ] || { echo "there is no program '$parl'; build it: make" >&2; exit 2; }
if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -c 'import numpy, ray' 2>/dev/null; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet numpy "$(grep '^ray' "$here/requirements-sites.txt")"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
for engine in process tcp; do
  "$parl" bench remote --engine $engine --large-transfers 0 --repeats 0 --json | tee "$work/out" | sed '$d'
  tail -n 1 "$work/out" > "$work/$engine"
done
"$venv/bin/python" "$here/bench_ray.py" > "$work/out"
tail -n 1 "$work/out" > "$work/ray"
echo "load after: $(cut -d' ' -f1-3 /proc/loadavg)"
"$venv/bin/python" - "$work" <<'END'
import json, sys
ray, process, tcp = (json.load(open(f"{sys.argv[1]}/{name}")) for name in ("ray", "process", "tcp"))
out = {"ray": ray, "process": process, "tcp": tcp}
for name, ours in (("process", process), ("tcp", tcp)):
    out["latency_ratio_" + name] = ray["call_us_p50"] / ours["unpinned_call_us_p50"]
    out["bulk_ratio_" + name] = min(ours[k] / ray[k] for k in ("array_mb_per_s_up", "array_mb_per_s_down"))
print(f"Ray {ray['ray']}: call {ray['call_us_p50']:.0f} us (p99 {ray['call_us_p99']:.0f}), {ray['calls_per_s']:.0f} calls/s, "
      f"4 MiB up {ray['array_mb_per_s_up']:.0f}, down {ray['array_mb_per_s_down']:.0f} MB/s")
for name in ("process", "tcp"):
    print(f"{name}: a small call takes 1/{out['latency_ratio_' + name]:.1f} of Ray's time (goal 1/10), "
          f"4 MiB {out['bulk_ratio_' + name]:.1f}x its rate (goal {4 if name == 'process' else 1.5}x)")
print(json.dumps(out))
END
