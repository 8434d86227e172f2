#!/usr/bin/env python3
"""Steps per second of one core: this program, Gymnasium and EnvPool on the same MuJoCo tasks, in turns, in one run.

    pip install mujoco==3.8.1 gymnasium[mujoco]==1.4.0 envpool
    taskset -c 0 python3 scripts/bench_mujoco.py build/parl [--rounds 2] [--seconds 3] [--envs 4] [TASK ...]

Random actions, resets included, one thread. EnvPool brings a MuJoCo of its own version, linked in; the other two use the
one installed. Prints a line for each measurement and a table of the best of each, with the machine's load.
"""
import argparse
import json
import os
import subprocess
import time

import numpy as np

TASKS = ["HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5", "Humanoid-v5"]


def parl(program, task, seconds, envs):
    command = [program, "bench", "env", "--env", task, "--threads", "1", "--envs", str(envs), "--seconds", str(seconds), "--json"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output.strip().splitlines()[-1])["sync_steps_per_s"]


def gymnasium_rate(task, seconds):
    import gymnasium

    env = gymnasium.make(task, disable_env_checker=True)
    random = np.random.default_rng(0)
    space = env.action_space
    actions = random.uniform(space.low, space.high, size=(1000,) + space.shape).astype(np.float32)
    env.reset(seed=0)
    begin, steps = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        for action in actions[:200]:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        steps += 200
    return steps / (time.perf_counter() - begin)


def envpool_rate(task, seconds, envs):
    import envpool

    pool = envpool.make(task, env_type="gymnasium", num_envs=envs, batch_size=envs, num_threads=1, seed=0)
    random = np.random.default_rng(0)
    space = pool.action_space
    actions = random.uniform(space.low, space.high, size=(200, envs) + space.shape).astype(space.dtype)
    pool.reset()
    begin, steps = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        for action in actions[:50]:
            pool.step(action)
        steps += 50 * envs
    return steps / (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("tasks", nargs="*", default=TASKS)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--envs", type=int, default=4)
    options = parser.parse_intermixed_args()
    for task in options.tasks:
        best = {}
        for _ in range(options.rounds):
            for name, measure in [
                ("parl", lambda: parl(options.program, task, options.seconds, options.envs)),
                ("gymnasium", lambda: gymnasium_rate(task, options.seconds)),
                ("envpool", lambda: envpool_rate(task, options.seconds, options.envs)),
            ]:
                rate = measure()
                best[name] = max(best.get(name, 0), rate)
                print(f"  {task} {name}: {rate:.0f} steps/s, load {os.getloadavg()[0]:.1f}", flush=True)
        print(
            f"{task:<14} parl {best['parl']:.0f}, gymnasium {best['gymnasium']:.0f} ({best['parl'] / best['gymnasium']:.2f}x), "
            f"envpool {best['envpool']:.0f} ({best['parl'] / best['envpool']:.2f}x)",
            flush=True,
        )


if __name__ == "__main__":
    main()
