#!/usr/bin/env python3
"""Records the golden data of the classic control tasks: parl/env/testdata/<id>.golden.

    pip install gymnasium==1.2.2 numpy==2.4.6
    python3 scripts/record_classic_control.py parl/env/testdata

20 episodes a task, seeds 0..19: even ones with random actions, odd ones with a simple controller, so that both kinds of
end occur. The state is Gymnasium's env.unwrapped.state before each step.

File, little-endian: "PGLD", int32 state size S, observation size O, action size A (0: discrete), episodes; for each
episode: uint64 seed, int32 steps, float32 first observation [O], then per step float64 state [S] (before the step), the
action (int32, or float32 [A]), float64 reward, uint8 flags (1 terminated, 2 truncated), float32 observation [O] (after
the step; only on every 10th step and at the end), and at the episode's end float64 state [S].
"""

import struct
import sys
from pathlib import Path

import gymnasium
import numpy as np

EPISODES = 20


def cartpole(s):
    return int(0.05 * s[0] + 0.1 * s[1] + s[2] + 0.3 * s[3] > 0)


def acrobot(s):
    return 2 if s[3] > 0 else 0


def mountain_car(s):
    return 2 if s[1] >= 0 else 0


def mountain_car_continuous(s):
    return [1.3 if s[1] >= 0 else -1.3]  # beyond the bounds: the task clips


def pendulum(s):
    return [2.5 * np.sign(s[1]) if np.cos(s[0]) < 0.8 else -10 * np.sin(s[0]) - 2 * s[1]]


CONTROLLERS = {
    "CartPole-v1": cartpole,
    "Acrobot-v1": acrobot,
    "MountainCar-v0": mountain_car,
    "MountainCarContinuous-v0": mountain_car_continuous,
    "Pendulum-v1": pendulum,
}


def record(name, controller, path):
    env = gymnasium.make(name)
    discrete = isinstance(env.action_space, gymnasium.spaces.Discrete)
    size = 0 if discrete else env.action_space.shape[0]
    state = lambda: np.asarray(env.unwrapped.state, np.float64)
    out = bytearray()
    ends = {"terminated": 0, "truncated": 0}
    for seed in range(EPISODES):
        random = np.random.default_rng(1000 + seed)
        obs, _ = env.reset(seed=seed)
        body, steps, done = bytearray(), 0, False
        body += np.asarray(obs, np.float32).tobytes()
        while not done:
            before = state()
            body += before.tobytes()
            if discrete:
                action = controller(before) if seed % 2 else int(random.integers(env.action_space.n))
                body += struct.pack("<i", action)
            else:
                wide = 1.2 * random.uniform(env.action_space.low, env.action_space.high)
                action = np.asarray(controller(before) if seed % 2 else wide, np.float32)
                body += action.tobytes()
            obs, reward, terminated, truncated, _ = env.step(action)
            steps += 1
            done = terminated or truncated
            body += struct.pack("<dB", float(reward), int(terminated) | int(truncated) << 1)
            if done or steps % 10 == 0:
                body += np.asarray(obs, np.float32).tobytes()
        body += state().tobytes()
        ends["terminated" if terminated else "truncated"] += 1
        out += struct.pack("<Qi", seed, steps) + body
    header = b"PGLD" + struct.pack("<iiii", len(state()), env.observation_space.shape[0], size, EPISODES)
    path.write_bytes(header + out)
    print(f"{path}: {len(header) + len(out)} bytes, {ends}, gymnasium {gymnasium.__version__}, numpy {np.__version__}")


def main():
    folder = Path(sys.argv[1])
    for name, controller in CONTROLLERS.items():
        record(name, controller, folder / f"{name}.golden")


if __name__ == "__main__":
    main()
