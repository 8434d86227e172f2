#!/usr/bin/env python3
"""Updates per second of CleanRL's own sac_continuous_action.py or td3_continuous_action.py, unchanged.

  pip download --no-deps --ignore-requires-python cleanrl==1.2.0 && unzip cleanrl-1.2.0-*.whl -d cleanrl
  taskset -c 0 python3 scripts/bench_cleanrl.py cleanrl/cleanrl sac [--updates 500]

The script's networks, losses, optimizers and loop are run as they are, on one intra-op thread. What it imports beside torch
and numpy is played here: an environment of HalfCheetah's sizes (observation 17, action 6) that costs next to nothing, a
replay buffer of numpy arrays with 100,000 transitions, a summary writer that writes nothing. So the figure is a little
better than CleanRL's with a real environment. Prints "<updates/s of CPU time> <updates/s of wall time>".
"""
import argparse
import pathlib
import runpy
import sys
import tempfile
import time
import types

import numpy as np
import torch

OBS, ACTIONS, STORED, WARM_UP = 17, 6, 100_000, 50


class Space:
    def __init__(self, size):
        self.shape, self.dtype = (size,), np.float32
        self.low, self.high = np.full(size, -1, np.float32), np.full(size, 1, np.float32)

    def sample(self):
        return np.random.uniform(-1, 1, self.shape).astype(np.float32)


class Envs:
    num_envs = 1
    single_observation_space, single_action_space = Space(OBS), Space(ACTIONS)
    observation_space, action_space = single_observation_space, single_action_space

    def __init__(self, _):
        self.obs = np.random.normal(size=(1, OBS)).astype(np.float32)

    def reset(self):
        return self.obs

    def step(self, _):
        return self.obs, np.zeros(1), np.zeros(1, bool), [{}]


def replay_buffer(updates):
    class ReplayBuffer:
        def __init__(self, *_, **__):
            g = np.random.default_rng(1)
            self.obs, self.next_obs = (g.normal(size=(STORED, OBS)).astype(np.float32) for _ in range(2))
            self.action = g.uniform(-1, 1, (STORED, ACTIONS)).astype(np.float32)
            self.reward, self.done = (g.normal(size=(STORED, 1)).astype(np.float32), np.zeros((STORED, 1), np.float32))
            self.position = self.samples = 0

        def add(self, obs, next_obs, action, reward, done, _):
            i = self.position
            self.obs[i], self.next_obs[i], self.action[i], self.reward[i], self.done[i] = obs[0], next_obs[0], action[0], reward[0], done[0]
            self.position = (i + 1) % STORED

        def sample(self, n):
            if self.samples == WARM_UP:
                self.started = time.process_time(), time.perf_counter()
            if self.samples == WARM_UP + updates:
                cpu, wall = time.process_time() - self.started[0], time.perf_counter() - self.started[1]
                print(f"{updates / cpu:.1f} {updates / wall:.1f}", flush=True)
                sys.exit(0)
            self.samples += 1
            i = np.random.randint(0, STORED, n)
            tensors = [torch.from_numpy(a[i]) for a in (self.obs, self.action, self.next_obs, self.done, self.reward)]
            return types.SimpleNamespace(observations=tensors[0], actions=tensors[1], next_observations=tensors[2], dones=tensors[3], rewards=tensors[4])

    return ReplayBuffer


def module(name, **members):
    m = types.ModuleType(name)
    m.__dict__.update(members)
    sys.modules[name] = m
    return m


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where CleanRL's scripts lie")
    parser.add_argument("algorithm", choices=["sac", "td3"])
    parser.add_argument("--updates", type=int, default=500)
    args = parser.parse_args()
    script = pathlib.Path(args.folder).resolve() / f"{args.algorithm}_continuous_action.py"
    if not script.exists():
        sys.exit(f"{script} is not there; see --help for where it comes from")
    torch.set_num_threads(1)
    quiet = type("SummaryWriter", (), {"__init__": lambda *_: None, "__getattr__": lambda *_: lambda *__: None})
    module("gym", vector=types.SimpleNamespace(SyncVectorEnv=Envs), spaces=types.SimpleNamespace(Box=Space))
    module("stable_baselines3"), module("stable_baselines3.common")
    module("stable_baselines3.common.buffers", ReplayBuffer=replay_buffer(args.updates))
    module("torch.utils.tensorboard", SummaryWriter=quiet)
    with tempfile.TemporaryDirectory() as folder:
        sys.argv = [str(script), "--cuda", "False", "--learning-starts", "10", "--exp-name", folder]
        printed, sys.stdout = sys.stdout, open("/dev/null", "w")  # its own lines
        globals()["print"] = lambda *a, **k: __builtins__.print(*a, file=printed, **k)
        runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()
