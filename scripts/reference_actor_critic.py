#!/usr/bin/env python3
"""Writes parl/algorithms/testdata/actor_critic_reference.safetensors: what ActorCritic::learn must compute (IMPALA, APPO, A2C, PPO), worked out by PyTorch.

Independent of the C++ code: V-trace is written as nested sums (equation 1 of arXiv 1802.01561),
GAE as the discounted sum of its differences (equation 16 of arXiv 1506.02438), gradients come from
autograd, updates from torch.optim. actor_critic_test.cc compares losses, gradients and parameters.
Run: python3 scripts/reference_actor_critic.py (torch and numpy; the file is committed, so only after a change of the cases).
"""
import json
import pathlib
import struct

import numpy as np
import torch

B, T, OBS, ACTIONS, HIDDEN, STEPS = 6, 7, 5, 3, 8, 3
BASE = dict(gamma=0.97, lam=1.0, rho_clip=1.0, c_clip=1.0, pg_rho_clip=1.0, value_cost=0.5, entropy_cost=0.01, clip=0.0,
            reduction="sum", max_grad_norm=40.0, optimizer="rmsprop", lr=1e-2, eps=0.01, epochs=1, normalize=False,
            estimator="vtrace", recompute=True, gaussian=False)
CASES = {
    "rmsprop_sum": dict(),
    "rmsprop_sum_clipped_norm": dict(max_grad_norm=1.0, lam=0.9, rho_clip=1.3, c_clip=0.8, pg_rho_clip=1.1),
    "rmsprop_mean": dict(reduction="mean", max_grad_norm=0.5),
    "adam_sum": dict(optimizer="adam", eps=1e-8, lr=3e-3),
    "adam_mean": dict(optimizer="adam", eps=1e-5, lr=3e-3, reduction="mean", max_grad_norm=0.5),
    "appo": dict(optimizer="adam", eps=1e-5, lr=1e-2, reduction="mean", max_grad_norm=0.5, clip=0.2, epochs=3, lam=0.95),
    "appo_normalized": dict(optimizer="adam", eps=1e-5, lr=1e-2, reduction="mean", clip=0.1, epochs=2, normalize=True),
    "a2c": dict(estimator="gae", lam=0.9, reduction="mean", max_grad_norm=0.5, eps=1e-5),
    "ppo": dict(estimator="gae", lam=0.95, optimizer="adam", eps=1e-5, reduction="mean", max_grad_norm=0.5, clip=0.2,
                epochs=3, normalize=True, recompute=False),
    "ppo_recomputed": dict(estimator="gae", lam=0.8, optimizer="adam", eps=1e-5, reduction="sum", clip=0.1, epochs=2),
    "gaussian_vtrace": dict(gaussian=True, entropy_cost=0.05),
    "gaussian_ppo": dict(gaussian=True, estimator="gae", lam=0.95, optimizer="adam", eps=1e-5, reduction="mean",
                         max_grad_norm=0.5, clip=0.2, epochs=3, normalize=True, recompute=False),
}
SIZE = 2  # floats of a continuous action


def layers(generator, gaussian=False):
    shapes = {"layer1": (HIDDEN, OBS), "policy": (SIZE if gaussian else ACTIONS, HIDDEN), "value": (1, HIDDEN)}
    out = {}
    for name, (rows, columns) in shapes.items():
        out[name + ".weight"] = torch.tensor(generator.normal(size=(rows, columns)) * 0.5, dtype=torch.float32)
        out[name + ".bias"] = torch.tensor(generator.normal(size=rows) * 0.1, dtype=torch.float32)
    if gaussian:
        out["log_std"] = torch.tensor(generator.normal(size=SIZE) * 0.3, dtype=torch.float32)
    return out


def forward(p, obs):
    h = torch.tanh(obs @ p["layer1.weight"].T + p["layer1.bias"])
    policy = h @ p["policy.weight"].T + p["policy.bias"]
    if "log_std" in p:
        policy = torch.cat([policy, p["log_std"].expand_as(policy)], -1)
    return policy, (h @ p["value.weight"].T + p["value.bias"])[..., 0]


def log_prob_of(c, policy, action):
    if not c["gaussian"]:
        return torch.log_softmax(policy, -1).gather(-1, action[..., None])[..., 0]
    return torch.distributions.Normal(policy[..., :SIZE], policy[..., SIZE:].exp()).log_prob(action).sum(-1)


def entropy_of(c, policy):
    if not c["gaussian"]:
        return torch.distributions.Categorical(logits=policy).entropy()
    return torch.distributions.Normal(policy[..., :SIZE], policy[..., SIZE:].exp()).entropy().sum(-1)


def make_batch(c, generator):
    terminated = generator.random((B, T)) < 0.12
    truncated = generator.random((B, T)) < 0.12
    truncated[0, 3], terminated[0, 3] = True, False  # in the middle
    truncated[1, T - 1], terminated[1, T - 1] = True, False  # at the end
    truncated[2, 2] = terminated[2, 2] = True  # both: terminated wins
    truncated[3], terminated[3] = False, False  # never
    final_index = np.flatnonzero(truncated & ~terminated)
    if c["gaussian"]:
        draw = dict(action=generator.normal(size=(B, T, SIZE)).astype(np.float32),
                    behaviour_logits=generator.normal(size=(B, T, 2 * SIZE)).astype(np.float32) * 0.4)
    else:
        draw = {}
    batch = dict(
        obs=generator.normal(size=(B, T + 1, OBS)).astype(np.float32),
        action=generator.integers(0, ACTIONS, (B, T)),
        behaviour_logits=generator.normal(size=(B, T, ACTIONS)).astype(np.float32) * 0.8,
        reward=generator.normal(size=(B, T)).astype(np.float32), terminated=terminated, truncated=truncated,
        final_index=final_index, final_obs=generator.normal(size=(len(final_index), OBS)).astype(np.float32))
    batch.update(draw)
    return batch


def targets(c, ratio, reward, terminated, truncated, value, final):
    """vs and advantages as sums over the future, one entry at a time."""
    bound = lambda limit, x: torch.clamp(x, max=limit)
    vs, advantage = torch.zeros(B, T), torch.zeros(B, T)
    for b in range(B):
        ended = [bool(terminated[b, t] or truncated[b, t]) for t in range(T)]
        nxt = [torch.tensor(0.0) if terminated[b, t] else final[b * T + t] if truncated[b, t] else value[b, t + 1]
               for t in range(T)]
        for s in range(T):
            total, weight = value[b, s].clone(), torch.tensor(1.0)
            for t in range(s, T):
                delta = bound(c["rho_clip"], ratio[b, t]) * (reward[b, t] + c["gamma"] * nxt[t] - value[b, t])
                total += weight * delta
                if ended[t]:
                    break
                weight = weight * c["gamma"] * c["lam"] * bound(c["c_clip"], ratio[b, t])
            vs[b, s] = total
        for t in range(T):
            q = nxt[t] if ended[t] or t == T - 1 else vs[b, t + 1]
            a = reward[b, t] + c["gamma"] * q - value[b, t]
            advantage[b, t] = a if c["clip"] > 0 else bound(c["pg_rho_clip"], ratio[b, t]) * a
    return vs, advantage


def gae_targets(c, reward, terminated, truncated, value, final):
    vs, advantage = torch.zeros(B, T), torch.zeros(B, T)
    for b in range(B):
        for s in range(T):
            total = torch.tensor(0.0)
            for t in range(s, T):
                nxt = 0.0 if terminated[b, t] else final[b * T + t] if truncated[b, t] else value[b, t + 1]
                total += (c["gamma"] * c["lam"]) ** (t - s) * (reward[b, t] + c["gamma"] * nxt - value[b, t])
                if terminated[b, t] or truncated[b, t]:
                    break
            advantage[b, s] = total
            vs[b, s] = value[b, s] + total
    return vs, advantage


def loss_of(c, p, batch, kept):
    obs, action = torch.tensor(batch["obs"]), torch.tensor(batch["action"])
    logits, value = forward(p, obs)
    chosen = log_prob_of(c, logits[:, :T], action)
    ratio = torch.exp(chosen - log_prob_of(c, torch.tensor(batch["behaviour_logits"]), action))
    with torch.no_grad():
        final = dict(zip(batch["final_index"].tolist(), forward(p, torch.tensor(batch["final_obs"]))[1]))
        ends = (torch.tensor(batch["reward"]), batch["terminated"], batch["truncated"], value, final)
        vs, advantage = gae_targets(c, *ends) if c["estimator"] == "gae" else targets(c, ratio, *ends)
        if c["normalize"]:
            advantage = (advantage - advantage.mean()) / (advantage.std(unbiased=False) + 1e-8)
        if not c["recompute"]:
            vs, advantage = kept.setdefault("targets", (vs, advantage))
    if c["clip"] > 0:
        policy = -torch.min(ratio * advantage, torch.clamp(ratio, 1 - c["clip"], 1 + c["clip"]) * advantage)
    else:
        policy = -chosen * advantage
    entropy = entropy_of(c, logits[:, :T])
    per_step = policy + c["value_cost"] * 0.5 * (vs - value[:, :T]) ** 2 - c["entropy_cost"] * entropy
    return per_step.sum() if c["reduction"] == "sum" else per_step.mean()


def run_updates(c, p, optimizer, next_batch, loss_of, put):
    for step in range(STEPS):
        batch = next_batch()
        for name, value in batch.items():
            put(f"{step}/{name}", torch.tensor(value))
        losses, norms, kept = [], [], {}
        for _ in range(c["epochs"]):
            optimizer.zero_grad()
            loss = loss_of(c, p, batch, kept)
            loss.backward()
            norms.append(torch.nn.utils.clip_grad_norm_(p.values(), c["max_grad_norm"]))
            losses.append(loss.detach())
            if step == 0 and len(losses) == 1:
                for name, value in p.items():
                    put("gradient/" + name, value.grad)  # after clipping
            optimizer.step()
        put(f"{step}/loss", torch.stack(losses).mean())
        put(f"{step}/grad_norm", torch.stack(norms).mean())
        for name, value in p.items():
            put(f"{step}/after/{name}", value)


def run_case(c, generator, put):
    p = {name: value.requires_grad_() for name, value in layers(generator, c["gaussian"]).items()}
    for name, value in p.items():
        put("initial/" + name, value)
    if c["optimizer"] == "adam":
        optimizer = torch.optim.Adam(p.values(), lr=c["lr"], eps=c["eps"])
    else:
        optimizer = torch.optim.RMSprop(p.values(), lr=c["lr"], eps=c["eps"], alpha=0.99)
    run_updates(c, p, optimizer, lambda: make_batch(c, generator), loss_of, put)


def save(path, tensors, metadata):
    names = {torch.float32: "F32", torch.int64: "I64", torch.bool: "BOOL"}
    header, data = {"__metadata__": metadata}, b""
    for name, tensor in tensors.items():
        raw = tensor.detach().contiguous().numpy().tobytes()
        header[name] = dict(dtype=names[tensor.dtype], shape=list(tensor.shape), data_offsets=[len(data), len(data) + len(raw)])
        data += raw
    text = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    torch.set_num_threads(1)
    tensors = {}
    cases = {name: {**BASE, **changes} for name, changes in CASES.items()}
    for seed, (name, case) in enumerate(cases.items()):
        run_case(case, np.random.default_rng(seed), lambda key, value, name=name: tensors.__setitem__(f"{name}/{key}", value.detach().clone()))
    path = pathlib.Path(__file__).resolve().parent.parent / "parl/algorithms/testdata/actor_critic_reference.safetensors"
    save(path, tensors, {"cases": json.dumps(cases), "torch": torch.__version__})
    print(path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
