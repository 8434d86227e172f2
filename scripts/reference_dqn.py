#!/usr/bin/env python3
"""Writes parl/algorithms/testdata/dqn_reference.safetensors: what Dqn::learn must compute, worked out by PyTorch.

Independent of the C++ code: torch.nn.functional.smooth_l1_loss, autograd, torch.optim.Adam. The replay buffer holds one
transition, so that what is sampled is known; dqn_test.cc compares losses, norms and parameters.
Run: python3 scripts/reference_dqn.py (torch and numpy; the file is committed, so only after a change of the cases).
"""
import json
import pathlib

import numpy as np
import torch

from reference_actor_critic import ACTIONS, OBS, forward, layers, save

UPDATES, TARGET_UPDATES = 5, 2
BASE = dict(double=False, dueling=False, end="none", reward=0.5, gamma=0.9, lr=1e-2, eps=1e-5, max_grad_norm=10.0)
CASES = {
    "plain": dict(),
    "double": dict(double=True),
    "dueling": dict(dueling=True),
    "double_dueling_truncated": dict(double=True, dueling=True, end="truncated"),
    "terminated": dict(end="terminated"),
    "far_off": dict(reward=9.0),  # the linear part of the Huber loss
    "clipped_norm": dict(max_grad_norm=0.1, dueling=True),
}


def q_values(c, p, obs):
    advantage, value = forward(p, obs)
    return value[:, None] + advantage - advantage.mean(1, keepdim=True) if c["dueling"] else advantage


def run_case(c, generator, put):
    p = {name: value.requires_grad_() for name, value in layers(generator).items()}
    obs, after, final = (torch.tensor(generator.normal(size=(1, OBS)), dtype=torch.float32) for _ in range(3))
    action = torch.tensor([[int(generator.integers(0, ACTIONS))]])
    for name, value in p.items():
        put("initial/" + name, value)
    put("obs", torch.stack([obs[0], after[0]])[None])
    put("final_obs", final)
    put("action", action)
    target = {name: value.detach().clone() for name, value in p.items()}
    optimizer = torch.optim.Adam(p.values(), lr=c["lr"], eps=c["eps"])
    losses, norms = [], []
    for update in range(1, UPDATES + 1):
        with torch.no_grad():
            following = final if c["end"] == "truncated" else after
            valued = q_values(c, target, following)
            chooser = q_values(c, p, following) if c["double"] else valued
            best = valued[0, int(chooser.argmax())]
            y = c["reward"] + (0.0 if c["end"] == "terminated" else c["gamma"] * best)
        optimizer.zero_grad()
        loss = torch.nn.functional.smooth_l1_loss(q_values(c, p, obs)[0, action[0, 0]], torch.as_tensor(y, dtype=torch.float32))
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(p.values(), c["max_grad_norm"]))
        losses.append(loss.detach())
        optimizer.step()
        if update % TARGET_UPDATES == 0:
            target = {name: value.detach().clone() for name, value in p.items()}
    put("loss", torch.stack(losses).mean())
    put("grad_norm", torch.stack(norms).mean())
    for name, value in p.items():
        put("after/" + name, value)


def main():
    torch.set_num_threads(1)
    tensors = {}
    cases = {name: {**BASE, **changes} for name, changes in CASES.items()}
    for seed, (name, case) in enumerate(cases.items()):
        run_case(case, np.random.default_rng(100 + seed), lambda key, value, name=name: tensors.__setitem__(f"{name}/{key}", value.detach().clone()))
    path = pathlib.Path(__file__).resolve().parent.parent / "parl/algorithms/testdata/dqn_reference.safetensors"
    save(path, tensors, {"cases": json.dumps(cases), "torch": torch.__version__})
    print(path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
