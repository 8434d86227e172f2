#!/usr/bin/env python3
"""Writes parl/algorithms/testdata/several_actions_reference.safetensors: what ActorCritic::learn must compute for actions of several numbers and under masks of legal actions, worked out by PyTorch.

Targets, losses and updates are those of reference_actor_critic.py; here the policy is a torch.distributions.Categorical
for each number of an action, over logits of which a mask has made some -inf. several_actions_test.cc compares.
Run: python3 scripts/reference_several_actions.py (torch and numpy; the file is committed, so only after a change of the cases).
"""
import json
import pathlib

import numpy as np
import torch
from torch.distributions import Categorical

import reference_actor_critic as base

CASES = {
    "several_vtrace": dict(choices=[3, 2], mask=False, entropy_cost=0.05),
    "several_ppo": dict(choices=[2, 3, 2], mask=False, estimator="gae", lam=0.95, optimizer="adam", eps=1e-5, reduction="mean",
                        max_grad_norm=0.5, clip=0.2, epochs=3, normalize=True, recompute=False, entropy_cost=0.05),
    "masked_vtrace": dict(choices=[4], mask=True, entropy_cost=0.05),
    "masked_ppo": dict(choices=[3, 2], mask=True, estimator="gae", lam=0.95, optimizer="adam", eps=1e-5, reduction="mean",
                       max_grad_norm=0.5, clip=0.2, epochs=3, normalize=True, recompute=False, entropy_cost=0.05),
}
ILLEGAL = -1e9  # what an actor's rollout holds where the policy had -inf


def parts(c, policy):
    return [Categorical(logits=x) for x in torch.split(policy, c["choices"], -1)]


def numbers(c, action):
    return [action] if len(c["choices"]) == 1 else list(action.unbind(-1))


def log_prob_of(c, policy, action):
    return sum(d.log_prob(a) for d, a in zip(parts(c, policy), numbers(c, action)))


def entropy_of(c, policy):
    return sum(d.entropy() for d in parts(c, policy))


def random_mask(c, generator, shape):
    """At least one legal choice a number."""
    masks = []
    for n in c["choices"]:
        mask = generator.random(shape + (n,)) < 0.6
        np.put_along_axis(mask, generator.integers(0, n, shape + (1,)), True, -1)
        masks.append(mask)
    return np.concatenate(masks, -1)


def make_batch(c, generator, plain=base.make_batch):
    base.ACTIONS = sum(c["choices"])
    batch = plain({**c, "gaussian": False}, generator)
    shape, finals = (base.B, base.T + 1), (len(batch["final_index"]),)
    legal = random_mask(c, generator, shape) if c["mask"] else np.ones(shape + (base.ACTIONS,), bool)
    actions, first = [], 0
    for n in c["choices"]:
        of_number = legal[:, :base.T, first:first + n]
        actions.append(np.argmax(generator.random(of_number.shape) * of_number, -1))
        first += n
    batch["action"] = actions[0] if len(actions) == 1 else np.stack(actions, -1)
    batch["behaviour_logits"][~legal[:, :base.T]] = ILLEGAL
    if c["mask"]:  # behind the numbers that the network sees
        batch["obs"] = np.concatenate([batch["obs"], legal.astype(np.float32)], -1)
        final_legal = random_mask(c, generator, finals).astype(np.float32)
        batch["final_obs"] = np.concatenate([batch["final_obs"], final_legal], -1)
    return batch


def forward(p, obs, plain=base.forward):
    logits, value = plain(p, obs[..., :base.OBS])
    if obs.shape[-1] > base.OBS:
        logits = logits.masked_fill(obs[..., base.OBS:] == 0, -torch.inf)
    return logits, value


def main():
    torch.set_num_threads(1)
    base.log_prob_of, base.entropy_of, base.make_batch, base.forward = log_prob_of, entropy_of, make_batch, forward
    tensors, cases = {}, {name: {**base.BASE, **changes} for name, changes in CASES.items()}
    for seed, (name, case) in enumerate(cases.items()):
        base.ACTIONS = sum(case["choices"])
        base.run_case(case, np.random.default_rng(100 + seed),
                      lambda key, value, name=name: tensors.__setitem__(f"{name}/{key}", value.detach().clone()))
    path = pathlib.Path(__file__).resolve().parent.parent / "parl/algorithms/testdata/several_actions_reference.safetensors"
    base.save(path, tensors, {"cases": json.dumps(cases), "torch": torch.__version__})
    print(path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
