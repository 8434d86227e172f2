#!/usr/bin/env python3
"""Writes parl/algorithms/testdata/recurrent_reference.safetensors and parl/models/testdata/lstm_reference.safetensors: what an LSTM and learn() with one must compute, worked out by PyTorch.

Independent of the C++ code: the memory is torch.lstm_cell, one unroll and one step at a time, begun anew where an episode
ended; gradients come from autograd, updates from torch.optim; targets and losses are reference_actor_critic.py's.
Run: python3 scripts/reference_recurrent.py (torch and numpy; the files are committed, so only after a change of the cases).
"""
import json
import pathlib

import numpy as np
import torch

import reference_actor_critic as base
from reference_actor_critic import B, T, OBS, ACTIONS, SIZE

TRUNK, UNITS = 8, 6
CASES = {
    "impala": dict(lam=0.9, rho_clip=1.3, c_clip=0.8, pg_rho_clip=1.1, max_grad_norm=5.0),
    "appo": dict(optimizer="adam", eps=1e-5, lr=1e-2, reduction="mean", max_grad_norm=0.5, clip=0.2, epochs=2, normalize=True),
    "a2c": dict(estimator="gae", lam=0.9, reduction="mean", max_grad_norm=0.5, eps=1e-5),
    "ppo": dict(estimator="gae", lam=0.95, optimizer="adam", eps=1e-5, reduction="mean", max_grad_norm=0.5, clip=0.2,
                epochs=3, normalize=True, recompute=False),
    "gaussian_ppo": dict(gaussian=True, estimator="gae", lam=0.95, optimizer="adam", eps=1e-5, reduction="mean",
                         max_grad_norm=0.5, clip=0.2, epochs=2, normalize=True, recompute=False),
}


def parameters(generator, gaussian):
    shapes = {"trunk.layer1.weight": (TRUNK, OBS), "trunk.layer1.bias": (TRUNK,), "lstm.weight_ih": (4 * UNITS, TRUNK),
              "lstm.weight_hh": (4 * UNITS, UNITS), "lstm.bias": (4 * UNITS,),
              "policy.weight": (SIZE if gaussian else ACTIONS, UNITS), "policy.bias": (SIZE if gaussian else ACTIONS,),
              "value.weight": (1, UNITS), "value.bias": (1,)}
    if gaussian:
        shapes["log_std"] = (SIZE,)
    return {name: torch.tensor(generator.normal(size=shape) * 0.5, dtype=torch.float32) for name, shape in shapes.items()}


def cell(p, x, h, c):
    """One step of one environment."""
    h, c = torch.lstm_cell(x[None], (h[None], c[None]), p["lstm.weight_ih"], p["lstm.weight_hh"], p["lstm.bias"],
                           torch.zeros(4 * UNITS))
    return h[0], c[0]


def heads(p, h):
    policy = h @ p["policy.weight"].T + p["policy.bias"]
    if "log_std" in p:
        policy = torch.cat([policy, p["log_std"].expand_as(policy)], -1)
    return policy, (h @ p["value.weight"].T + p["value.bias"])[..., 0]


def forward(p, batch):
    """Policies and values of all T + 1 observations, and the values of the final ones by b * T + t."""
    trunk = lambda obs: torch.tanh(obs @ p["trunk.layer1.weight"].T + p["trunk.layer1.bias"])
    x, final_obs = trunk(torch.tensor(batch["obs"])), torch.tensor(batch["final_obs"])
    state, zero, rows, finals = torch.tensor(batch["state"]), torch.zeros(UNITS), [], {}
    place = {at: i for i, at in enumerate(batch["final_index"].tolist())}
    for b in range(B):
        h, c = state[b, :UNITS], state[b, UNITS:]
        for t in range(T + 1):
            if t > 0 and (batch["terminated"][b, t - 1] or batch["truncated"][b, t - 1]):
                h, c = zero, zero
            h, c = cell(p, x[b, t], h, c)
            rows.append(h)
            if b * T + t in place and t < T:
                with torch.no_grad():
                    finals[b * T + t] = heads(p, cell(p, trunk(final_obs[place[b * T + t]]), h, c)[0])[1]
    policy, value = heads(p, torch.stack(rows).view(B, T + 1, UNITS))
    return policy, value, finals


def loss_of(c, p, batch, kept):
    policy, value, final = forward(p, batch)
    action = torch.tensor(batch["action"])
    chosen = base.log_prob_of(c, policy[:, :T], action)
    ratio = torch.exp(chosen - base.log_prob_of(c, torch.tensor(batch["behaviour_logits"]), action))
    with torch.no_grad():
        ends = (torch.tensor(batch["reward"]), batch["terminated"], batch["truncated"], value, final)
        vs, advantage = base.gae_targets(c, *ends) if c["estimator"] == "gae" else base.targets(c, ratio, *ends)
        if c["normalize"]:
            advantage = (advantage - advantage.mean()) / (advantage.std(unbiased=False) + 1e-8)
        if not c["recompute"]:
            vs, advantage = kept.setdefault("targets", (vs, advantage))
    if c["clip"] > 0:
        gain = torch.min(ratio * advantage, torch.clamp(ratio, 1 - c["clip"], 1 + c["clip"]) * advantage)
    else:
        gain = chosen * advantage
    per_step = -gain + c["value_cost"] * 0.5 * (vs - value[:, :T]) ** 2 - c["entropy_cost"] * base.entropy_of(c, policy[:, :T])
    return per_step.sum() if c["reduction"] == "sum" else per_step.mean()


def run_case(c, generator, put):
    p = {name: value.requires_grad_() for name, value in parameters(generator, c["gaussian"]).items()}
    for name, value in p.items():
        put("initial/" + name, value)
    kind = torch.optim.Adam if c["optimizer"] == "adam" else torch.optim.RMSprop
    optimizer = kind(p.values(), lr=c["lr"], eps=c["eps"])

    def next_batch():
        batch = base.make_batch(c, generator)
        batch["state"] = generator.normal(size=(B, 2 * UNITS)).astype(np.float32)
        batch["state"][4] = 0
        return batch

    base.run_updates(c, p, optimizer, next_batch, loss_of, put)


def memory_alone():
    """Three unrolls of five steps by torch.nn.LSTM, cut into pieces where the memory begins anew."""
    generator = np.random.default_rng(100)
    draw = lambda *shape: torch.tensor(generator.normal(size=shape), dtype=torch.float32)
    unrolls, length, features = 3, 5, 4
    lstm = torch.nn.LSTM(features, UNITS, batch_first=True)
    with torch.no_grad():
        for parameter in lstm.parameters():
            parameter.copy_(draw(*parameter.shape) * 0.5)
    x, state, d_h = draw(unrolls, length, features).requires_grad_(), draw(unrolls, 2 * UNITS), draw(unrolls, length, UNITS)
    reset = torch.zeros(unrolls, length, dtype=torch.bool)
    reset[0, 2] = reset[2, 0] = reset[2, 1] = reset[2, 4] = True
    hs, cs = [], []
    for b in range(unrolls):
        h, c = state[b, :UNITS], state[b, UNITS:]
        for t in range(length):
            if reset[b, t]:
                h, c = torch.zeros(UNITS), torch.zeros(UNITS)
            out, (h, c) = lstm(x[b:b + 1, t:t + 1], (h.view(1, 1, -1), c.view(1, 1, -1)))
            h, c = h.flatten(), c.flatten()
            hs.append(h)
            cs.append(c)
    h = torch.stack(hs).view(unrolls, length, UNITS)
    (h * d_h).sum().backward()
    return dict(x=x, state=state, reset=reset, d_h=d_h, h=h, c=torch.stack(cs).view(unrolls, length, UNITS),
                weight_ih=lstm.weight_ih_l0, weight_hh=lstm.weight_hh_l0, bias=lstm.bias_ih_l0 + lstm.bias_hh_l0,
                d_x=x.grad, d_weight_ih=lstm.weight_ih_l0.grad, d_weight_hh=lstm.weight_hh_l0.grad,
                d_bias=lstm.bias_ih_l0.grad)


def main():
    torch.set_num_threads(1)
    root = pathlib.Path(__file__).resolve().parent.parent / "parl"
    tensors = {}
    cases = {name: {**base.BASE, **changes} for name, changes in CASES.items()}
    for seed, (name, case) in enumerate(cases.items()):
        run_case(case, np.random.default_rng(50 + seed),
                 lambda key, value, name=name: tensors.__setitem__(f"{name}/{key}", value.detach().clone()))
    base.save(root / "algorithms/testdata/recurrent_reference.safetensors", tensors,
              {"cases": json.dumps(cases), "torch": torch.__version__})
    base.save(root / "models/testdata/lstm_reference.safetensors", memory_alone(), {"torch": torch.__version__})


if __name__ == "__main__":
    main()
