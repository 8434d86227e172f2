#!/usr/bin/env python3
"""Steps per second of a Gymnasium environment stepped from Python itself, one process, random actions: what `parl bench env
--env gym:ID` is compared with. Usage: bench_gymnasium.py [ID [SECONDS]]
"""
import sys
import time

import gymnasium


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else "CartPole-v1"
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 4.0
    env = gymnasium.make(name, disable_env_checker=True)
    env.reset(seed=0)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(4096)]
    rates = []
    for _ in range(max(2, round(seconds)) + 1):
        start, steps = time.perf_counter(), 0
        while time.perf_counter() - start < 1:
            for action in actions[:256]:
                _, _, terminated, truncated, _ = env.step(action)
                if terminated or truncated:
                    env.reset()
            steps += 256
        rates.append(steps / (time.perf_counter() - start))
    rates = sorted(rates[1:])
    print(f"{name}: {rates[len(rates) // 2]:.0f} steps/s (median of {len(rates)} seconds, one process, gymnasium {gymnasium.__version__})")


if __name__ == "__main__":
    main()
