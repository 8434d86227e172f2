#!/usr/bin/env python3
"""Writes parl/algorithms/testdata/continuous_reference.safetensors: what updates of Sac, Td3 and Ddpg must compute, worked out by PyTorch.

Independent of the C++ code: torch.distributions (a TransformedDistribution with TanhTransform), autograd,
torch.optim.Adam. off_policy_test.cc gives OffPolicy::update the same transitions and noise and compares losses and all
parameters, those of target networks included.
Run: python3 scripts/reference_continuous.py (torch and numpy; the file is committed, so only after a change of the cases).
"""
import copy
import json
import pathlib

import numpy as np
import torch
from torch import nn
from torch.distributions import Normal, TanhTransform, TransformedDistribution

from reference_actor_critic import save

OBS, ACTIONS, HIDDEN, N, UPDATES = 5, 2, 8, 6, 5
BASE = dict(algorithm="sac", lr=1e-2, critic_lr=2e-2, tau=0.1, alpha=0.5, auto_alpha=True, alpha_lr=3e-2, target_entropy=None,
            target_noise=0.3, target_noise_clip=0.25, policy_delay=2)
CASES = {
    "sac": dict(),
    "sac_fixed_alpha": dict(auto_alpha=False, alpha=0.2),
    "sac_target_entropy": dict(target_entropy=1.5),
    "td3": dict(algorithm="td3"),
    "td3_every_update": dict(algorithm="td3", policy_delay=1, target_noise_clip=0.05),
    "ddpg": dict(algorithm="ddpg", target_noise=0.0, policy_delay=1),
}


class Net(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.layer1, self.head = nn.Linear(inputs, HIDDEN), nn.Linear(HIDDEN, outputs)

    def forward(self, *inputs):
        return self.head(torch.relu(self.layer1(torch.cat(inputs, 1))))


def randomise(net, generator):
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.tensor(generator.normal(size=tuple(p.shape)) * 0.5))


def put_all(put, prefix, net):
    for name, p in net.named_parameters():
        put(f"{prefix}/{name}", p)


def draw(policy, obs, z):
    """Action and log-probability of a tanh Gaussian, reparametrised by z."""
    out = policy(obs)
    mean, std = out[:, :ACTIONS], out[:, ACTIONS:2 * ACTIONS].clamp(-20, 2).exp()
    distribution = TransformedDistribution(Normal(mean, std), [TanhTransform(cache_size=1)])
    action = torch.tanh(mean + std * z)
    transform = distribution.transforms[0]
    before = mean + std * z
    log_prob = (Normal(mean, std).log_prob(before) - transform.log_abs_det_jacobian(before, action)).sum(1)
    return action, log_prob


def mean_action(policy, obs):
    return torch.tanh(policy(obs)[:, :ACTIONS])


def run_case(c, generator, put):
    sac, twins = c["algorithm"] == "sac", c["algorithm"] != "ddpg"
    policy = Net(OBS, 2 * ACTIONS + 1)
    critics = [Net(OBS + ACTIONS, 1) for _ in range(2 if twins else 1)]
    for net in [policy, *critics]:
        randomise(net, generator)
    put_all(put, "initial/policy", policy)
    for i, critic in enumerate(critics):
        put_all(put, f"initial/critic{i}", critic)
    targets, target_policy = copy.deepcopy(critics), copy.deepcopy(policy)
    log_alpha = torch.tensor(np.log(c["alpha"]), dtype=torch.float32, requires_grad=True)
    policy_optimizer = torch.optim.Adam(policy.parameters(), lr=c["lr"])
    critic_optimizer = torch.optim.Adam([p for critic in critics for p in critic.parameters()], lr=c["critic_lr"])
    alpha_optimizer = torch.optim.Adam([log_alpha], lr=c["alpha_lr"])
    goal = -ACTIONS if c["target_entropy"] is None else c["target_entropy"]
    for update in range(1, UPDATES + 1):
        real = lambda *shape: torch.tensor(generator.normal(size=shape), dtype=torch.float32)
        obs, following, reward = real(N, OBS), real(N, OBS), real(N)
        action = torch.tensor(generator.uniform(-1, 1, size=(N, ACTIONS)), dtype=torch.float32)
        discount = torch.tensor(np.where(generator.random(N) < 0.3, 0.0, 0.97), dtype=torch.float32)
        noise = real(2 if sac else 1 if twins else 0, N, ACTIONS)
        for name, value in dict(obs=obs, next_obs=following, reward=reward, action=action, discount=discount, noise=noise).items():
            put(f"{update}/{name}", value)
        alpha = log_alpha.exp().detach()
        with torch.no_grad():
            if sac:
                after, log_prob = draw(policy, following, noise[0])
            else:
                after, log_prob = mean_action(target_policy, following), torch.zeros(N)
                if c["target_noise"] > 0:
                    bound = c["target_noise_clip"]
                    after = (after + (c["target_noise"] * noise[0]).clamp(-bound, bound)).clamp(-1, 1)
            values = torch.stack([target(following, after)[:, 0] for target in targets])
            y = reward + discount * (values.min(0).values - (alpha * log_prob if sac else 0))
        critic_optimizer.zero_grad()
        loss = sum(nn.functional.mse_loss(critic(obs, action)[:, 0], y) for critic in critics)
        loss.backward()
        critic_optimizer.step()
        put(f"{update}/loss", loss)
        if update % (1 if sac else c["policy_delay"]) == 0:
            policy_optimizer.zero_grad()
            if sac:
                drawn, log_prob = draw(policy, obs, noise[1])
                lowest = torch.min(critics[0](obs, drawn), critics[1](obs, drawn))[:, 0]
                actor_loss = (alpha * log_prob - lowest).mean()
            else:
                actor_loss = -critics[0](obs, mean_action(policy, obs)).mean()
            actor_loss.backward()
            policy_optimizer.step()
            put(f"{update}/actor_loss", actor_loss)
            if sac and c["auto_alpha"]:
                alpha_optimizer.zero_grad()
                (-log_alpha * (log_prob.detach() + goal)).mean().backward()
                alpha_optimizer.step()
            with torch.no_grad():
                pairs = [*zip(targets, critics), (target_policy, policy)]
                for target, net in pairs:
                    for to, source in zip(target.parameters(), net.parameters()):
                        to.copy_((1 - c["tau"]) * to + c["tau"] * source)
    put("after/alpha", log_alpha.exp())
    put_all(put, "after/policy", policy)
    for i, (critic, target) in enumerate(zip(critics, targets)):
        put_all(put, f"after/critic{i}", critic)
        put_all(put, f"after/target_critic{i}", target)
    if not sac:
        put_all(put, "after/target_policy", target_policy)


def main():
    torch.set_num_threads(1)
    tensors = {}
    cases = {name: {**BASE, **changes} for name, changes in CASES.items()}
    for seed, (name, case) in enumerate(cases.items()):
        run_case(case, np.random.default_rng(200 + seed), lambda key, value, name=name: tensors.__setitem__(f"{name}/{key}", value.detach().clone()))
    path = pathlib.Path(__file__).resolve().parent.parent / "parl/algorithms/testdata/continuous_reference.safetensors"
    save(path, tensors, {"cases": json.dumps(cases), "torch": torch.__version__})
    print(path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
