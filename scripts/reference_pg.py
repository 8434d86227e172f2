#!/usr/bin/env python3
"""Writes parl/algorithms/testdata/pg_reference.safetensors: what Pg::learn must compute, worked out by PyTorch.

Independent of the C++ code: returns are sums over the future, one entry at a time; gradients come from autograd, updates
from torch.optim.Adam. pg_test.cc compares returns, losses, norms and parameters.
Run: python3 scripts/reference_pg.py (torch and numpy; the file is committed, so only after a change of the cases).
"""
import json
import pathlib

import numpy as np
import torch

from reference_actor_critic import B, T, entropy_of, forward, layers, log_prob_of, make_batch, save

STEPS = 3
BASE = dict(gamma=0.97, baseline="value", normalize=False, value_cost=0.5, entropy_cost=0.01, lr=1e-2, eps=1e-5,
            max_grad_norm=0.5, gaussian=False)
CASES = {
    "value": dict(),
    "value_normalized": dict(normalize=True, gamma=0.9),
    "mean": dict(baseline="mean"),
    "none": dict(baseline="none", entropy_cost=0.0, max_grad_norm=0.0),
    "gaussian_value": dict(gaussian=True),
    "gaussian_mean": dict(gaussian=True, baseline="mean", entropy_cost=0.05),
}


def returns_of(c, batch, value, final):
    """G of every step and whether it is known, by its definition."""
    reward, terminated, truncated = batch["reward"], batch["terminated"], batch["truncated"]
    learnt = c["baseline"] == "value"
    returns, known = torch.zeros(B, T), torch.zeros(B, T, dtype=torch.bool)
    for b in range(B):
        for s in range(T):
            total, weight, closed = 0.0, 1.0, False
            for t in range(s, T):
                total += weight * float(reward[b, t])
                weight *= c["gamma"]
                if terminated[b, t]:
                    closed = True
                elif truncated[b, t]:
                    closed = True
                    total += weight * float(final[b * T + t]) if learnt else 0.0
                if closed:
                    break
            if not closed and learnt:
                total += weight * float(value[b, T])
            returns[b, s], known[b, s] = total, closed or learnt
    return returns, known


def run_case(c, generator, put):
    p = {name: value.requires_grad_() for name, value in layers(generator, c["gaussian"]).items()}
    for name, value in p.items():
        put("initial/" + name, value)
    optimizer = torch.optim.Adam(p.values(), lr=c["lr"], eps=c["eps"])
    for step in range(STEPS):
        batch = make_batch(c, generator)
        for name, value in batch.items():
            put(f"{step}/{name}", torch.tensor(value))
        policy, value = forward(p, torch.tensor(batch["obs"]))
        with torch.no_grad():
            final = dict(zip(batch["final_index"].tolist(), forward(p, torch.tensor(batch["final_obs"]))[1]))
            returns, known = returns_of(c, batch, value, final)
            advantage = returns - value[:, :T] if c["baseline"] == "value" else returns
            if c["normalize"] or c["baseline"] == "mean":
                advantage = (advantage - advantage[known].mean()) / (advantage[known].std(unbiased=False) + 1e-8)
        chosen = log_prob_of(c, policy[:, :T], torch.tensor(batch["action"]))
        per_step = -chosen * advantage - c["entropy_cost"] * entropy_of(c, policy[:, :T])
        if c["baseline"] == "value":
            per_step = per_step + c["value_cost"] * 0.5 * (returns - value[:, :T]) ** 2
        loss = per_step[known].mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter in p.values():  # what a case does not use has no gradient: Adam would pass it by
            parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        bound = c["max_grad_norm"] if c["max_grad_norm"] > 0 else float("inf")
        put(f"{step}/grad_norm", torch.nn.utils.clip_grad_norm_(p.values(), bound))
        put(f"{step}/loss", loss)
        put(f"{step}/returns", returns)
        put(f"{step}/known", known)
        optimizer.step()
        for name, parameter in p.items():
            put(f"{step}/after/{name}", parameter)


def main():
    torch.set_num_threads(1)
    tensors = {}
    cases = {name: {**BASE, **changes} for name, changes in CASES.items()}
    for seed, (name, case) in enumerate(cases.items()):
        run_case(case, np.random.default_rng(200 + seed), lambda key, value, name=name: tensors.__setitem__(f"{name}/{key}", value.detach().clone()))
    path = pathlib.Path(__file__).resolve().parent.parent / "parl/algorithms/testdata/pg_reference.safetensors"
    save(path, tensors, {"cases": json.dumps(cases), "torch": torch.__version__})
    print(path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
