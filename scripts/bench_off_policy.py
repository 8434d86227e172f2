#!/usr/bin/env python3
"""Updates per second of SAC, TD3 and DDPG: this project's, a plain libtorch loop and a PyTorch loop as one-file scripts write it.

  cmake --build build --target off_policy_bench
  taskset -c 0 python3 scripts/bench_off_policy.py [--rounds 5] [--updates 200] [sac td3 ddpg]

With --cleanrl also CleanRL's own scripts. They take turns, round by round, on one intra-op thread each; pin all of it to one core with taskset. Sizes are
HalfCheetah's: observation 17, action 6, two layers of 256, batch 256, 100,000 stored transitions. An update is everything
that it takes: drawing a batch from numpy arrays, losses, gradients, torch.optim.Adam, target networks. Printed are
medians over the rounds of updates per second of CPU time, and of wall time, and this project's ratio to the best of the
others. Needs torch and numpy.
"""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

OBS, ACTIONS, BATCH, STORED = 17, 6, 256, 100_000
GAMMA, TAU, LR = 0.99, 0.005, 3e-4


class Buffer:
    def __init__(self):
        generator = np.random.default_rng(1)
        self.obs = generator.normal(size=(STORED, OBS)).astype(np.float32)
        self.next_obs = generator.normal(size=(STORED, OBS)).astype(np.float32)
        self.action = generator.uniform(-1, 1, size=(STORED, ACTIONS)).astype(np.float32)
        self.reward = generator.normal(size=STORED).astype(np.float32)
        self.done = (generator.random(STORED) < 0.001).astype(np.float32)

    def sample(self):
        i = np.random.randint(0, STORED, size=BATCH)
        return [torch.as_tensor(a[i]) for a in (self.obs, self.next_obs, self.action, self.reward, self.done)]


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(OBS + ACTIONS, 256), nn.Linear(256, 256), nn.Linear(256, 1)

    def forward(self, x, a):
        x = F.relu(self.fc1(torch.cat([x, a], 1)))
        return self.fc3(F.relu(self.fc2(x))).view(-1)


class Actor(nn.Module):
    def __init__(self, stochastic):
        super().__init__()
        self.fc1, self.fc2, self.mean = nn.Linear(OBS, 256), nn.Linear(256, 256), nn.Linear(256, ACTIONS)
        self.log_std = nn.Linear(256, ACTIONS) if stochastic else None

    def trunk(self, x):
        return F.relu(self.fc2(F.relu(self.fc1(x))))

    def forward(self, x):
        return torch.tanh(self.mean(self.trunk(x)))

    def draw(self, x):
        h = self.trunk(x)
        log_std = -5 + 0.5 * 7 * (torch.tanh(self.log_std(h)) + 1)
        normal = torch.distributions.Normal(self.mean(h), log_std.exp())
        u = normal.rsample()
        a = torch.tanh(u)
        return a, (normal.log_prob(u) - torch.log(1 - a.pow(2) + 1e-6)).sum(1)


class Loop:
    def __init__(self, name):
        torch.manual_seed(1)
        self.sac, self.twin, self.updates = name == "sac", name != "ddpg", 0
        self.buffer, self.actor, self.target_actor = Buffer(), Actor(self.sac), Actor(self.sac)
        self.critics = [Critic() for _ in range(2 if self.twin else 1)]
        self.targets = [Critic() for _ in self.critics]
        for target, net in [*zip(self.targets, self.critics), (self.target_actor, self.actor)]:
            target.load_state_dict(net.state_dict())
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.q_optimizer = torch.optim.Adam([p for c in self.critics for p in c.parameters()], lr=LR)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=LR)
        self.alpha_optimizer = torch.optim.Adam([self.log_alpha], lr=LR)

    def lowest(self, critics, x, a):
        return torch.min(critics[0](x, a), critics[1](x, a)) if self.twin else critics[0](x, a)

    def update(self):
        obs, next_obs, action, reward, done = self.buffer.sample()
        with torch.no_grad():
            if self.sac:
                after, log_prob = self.actor.draw(next_obs)
            else:
                after = self.target_actor(next_obs)
                if self.twin:
                    after = (after + (torch.randn_like(after) * 0.2).clamp(-0.5, 0.5)).clamp(-1, 1)
            q = self.lowest(self.targets, next_obs, after)
            if self.sac:
                q = q - self.log_alpha.exp() * log_prob
            y = reward + (1 - done) * GAMMA * q
        loss = sum(F.mse_loss(critic(obs, action), y) for critic in self.critics)
        self.q_optimizer.zero_grad()
        loss.backward()
        self.q_optimizer.step()
        self.updates += 1
        if self.sac or not self.twin or self.updates % 2 == 0:
            self.update_actor(obs)

    def update_actor(self, obs):
        if self.sac:
            a, log_prob = self.actor.draw(obs)
            loss = (self.log_alpha.exp().detach() * log_prob - self.lowest(self.critics, obs, a)).mean()
        else:
            loss = -self.critics[0](obs, self.actor(obs)).mean()
        self.actor_optimizer.zero_grad()
        loss.backward()
        self.actor_optimizer.step()
        if self.sac:
            alpha_loss = (-self.log_alpha.exp() * (log_prob.detach() - ACTIONS)).mean()
            self.alpha_optimizer.zero_grad()
            alpha_loss.backward()
            self.alpha_optimizer.step()
        pairs = [*zip(self.targets, self.critics)] + ([] if self.sac else [(self.target_actor, self.actor)])
        for target, net in pairs:
            for to, source in zip(target.parameters(), net.parameters()):
                to.data.copy_(TAU * source.data + (1 - TAU) * to.data)


def measure_python(loop, updates):
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(updates):
        loop.update()
    return updates / (time.process_time() - cpu), updates / (time.perf_counter() - wall)


LINE = re.compile(r"ours +([\d.]+) libtorch +([\d.]+) .*wall: ours +([\d.]+) libtorch +([\d.]+)")


def measure_programs(bench, name, updates):
    out = subprocess.run([bench, "--rounds", "1", "--updates", str(updates), name], check=True, capture_output=True, text=True).stdout
    ours, libtorch, ours_wall, libtorch_wall = map(float, LINE.search(out).groups())
    return (ours, ours_wall), (libtorch, libtorch_wall)


def measure_cleanrl(folder, name, updates):
    script = pathlib.Path(__file__).resolve().parent / "bench_cleanrl.py"
    out = subprocess.run([sys.executable, script, folder, name, "--updates", str(updates)], check=True, capture_output=True, text=True).stdout
    return tuple(map(float, out.split()))


def compare(name, args):
    loop = Loop(name)
    measure_python(loop, 20)
    cleanrl = [measure_cleanrl] if args.cleanrl and name in ("sac", "td3") else []
    rates = {"ours": [], "libtorch": [], "python": []} | ({"cleanrl": []} if cleanrl else {})
    for _ in range(args.rounds):
        ours, libtorch = measure_programs(args.bench, name, args.updates)
        for key, value in (("ours", ours), ("libtorch", libtorch), ("python", measure_python(loop, args.updates))):
            rates[key].append(value)
        for measure in cleanrl:
            rates["cleanrl"].append(measure(args.cleanrl, name, args.updates))
    for i, clock in enumerate(("CPU ", "wall")):
        m = {key: statistics.median(v[i] for v in values) for key, values in rates.items()}
        others = {key: value for key, value in m.items() if key != "ours"}
        print(f"{name:<5} {clock} updates/s: ours {m['ours']:7.1f}, " + ", ".join(f"{k} {v:7.1f}" for k, v in others.items())
              + f"; ratio to the best of them {m['ours'] / max(others.values()):.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithms", nargs="*", default=["sac", "td3", "ddpg"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--cleanrl", help="folder of CleanRL's scripts: these take turns, too (see bench_cleanrl.py)")
    parser.add_argument("--bench", default=str(pathlib.Path(__file__).resolve().parent.parent / "build/bench/off_policy_bench"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}; {args.rounds} rounds of {args.updates} updates in turns; load {os.getloadavg()[0]:.1f}")
    for name in args.algorithms:
        compare(name, args)


if __name__ == "__main__":
    main()
