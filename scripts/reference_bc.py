#!/usr/bin/env python3
"""Writes parl/algorithms/testdata/bc_reference.safetensors: what Bc::learn must compute, worked out by PyTorch.

Independent of the C++ code: torch.nn.functional.cross_entropy, torch.distributions, autograd, torch.optim.Adam.
bc_test.cc compares losses, norms and parameters.
Run: python3 scripts/reference_bc.py (torch and numpy; the file is committed, so only after a change of the cases).
"""
import json
import pathlib

import numpy as np
import torch

from reference_actor_critic import ACTIONS, OBS, SIZE, forward, layers, save

B, T, UPDATES = 4, 3, 3
BASE = dict(gaussian=False, lr=1e-2, eps=1e-8, max_grad_norm=0.0, entropy_cost=0.0, minibatches=1)
CASES = {
    "plain": dict(),
    "clipped_norm": dict(max_grad_norm=0.05),
    "entropy": dict(entropy_cost=0.3, eps=1e-5),
    "minibatches": dict(minibatches=2),
    "gaussian": dict(gaussian=True),
    "gaussian_entropy": dict(gaussian=True, entropy_cost=0.1, max_grad_norm=0.5),
}


def run_case(c, generator, put):
    p = {name: value.requires_grad_() for name, value in layers(generator, c["gaussian"]).items()}
    obs = torch.tensor(generator.normal(size=(B, T + 1, OBS)), dtype=torch.float32)
    action = (torch.tensor(generator.normal(size=(B, T, SIZE)), dtype=torch.float32) if c["gaussian"] else
              torch.tensor(generator.integers(0, ACTIONS, size=(B, T))))
    for name, value in p.items():
        put("initial/" + name, value)
    put("obs", obs)
    put("action", action)
    optimizer = torch.optim.Adam(p.values(), lr=c["lr"], eps=c["eps"])
    losses, norms = [], []
    for _ in range(UPDATES):
        sums, counts = [], []
        for part in range(c["minibatches"]):
            rows = slice(B * part // c["minibatches"], B * (part + 1) // c["minibatches"])
            policy, _ = forward(p, obs[rows, :T])
            if c["gaussian"]:
                d = torch.distributions.Normal(policy[..., :SIZE], policy[..., SIZE:].exp())
                log_prob, entropy = d.log_prob(action[rows]).sum(-1), d.entropy().sum(-1)
            else:
                log_prob = -torch.nn.functional.cross_entropy(policy.flatten(0, 1), action[rows].flatten(), reduction="none")
                entropy = torch.distributions.Categorical(logits=policy).entropy()
            optimizer.zero_grad()
            loss = -log_prob.mean() - c["entropy_cost"] * entropy.mean()
            loss.backward()
            norms.append(torch.nn.utils.clip_grad_norm_(p.values(), c["max_grad_norm"] or 1e9))
            optimizer.step()
            sums.append(loss.detach())
        losses.append(torch.stack(sums).mean())
    put("loss", losses[-1])
    put("grad_norm", torch.stack(norms[-c["minibatches"]:]).mean())
    for name, value in p.items():
        put("after/" + name, value)


def main():
    torch.set_num_threads(1)
    tensors, cases = {}, {}
    for i, (name, changes) in enumerate(CASES.items()):
        c = {**BASE, **changes}
        cases[name] = c

        def put(what, value, name=name):
            tensors[f"{name}/{what}"] = value.detach().clone()

        run_case(c, np.random.default_rng(300 + i), put)
    path = pathlib.Path(__file__).parent.parent / "parl/algorithms/testdata/bc_reference.safetensors"
    save(path, tensors, {"cases": json.dumps(cases), "torch": torch.__version__})
    print(path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
