#!/usr/bin/env python3
"""Writes what Dqn::learn and Pqn::learn must compute, worked out by PyTorch:
parl/algorithms/testdata/dqn_reference.safetensors, rainbow_reference.safetensors, pqn_reference.safetensors and
parl/agent/testdata/radam_reference.safetensors.

Independent of the C++ code: torch.nn.functional.smooth_l1_loss, autograd, torch.optim. In the DQN cases the replay
buffer holds one transition, so that what is sampled is known. In the Rainbow cases it holds two unrolls of four steps;
prioritised sampling, weights, n-step windows and the projection (equation 7 of arXiv 1707.06887) are written anew from
their definitions, on Philox as Salmon et al. publish it; the noise is given. The tests compare losses, norms,
priorities and parameters.
Run: python3 scripts/reference_dqn.py (torch and numpy; the files are committed, so only after a change of the cases).
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


# Rainbow -----------------------------------------------------------------------------------------------------------

HIDDEN, UNROLLS, LENGTH = 8, 2, 4
RAINBOW_BASE = dict(double=False, dueling=False, distributional=True, noisy=False, n_step=1, alpha=0.0, beta=0.4, gamma=0.9,
                    lr=1e-2, eps=1e-5, max_grad_norm=10.0, atoms=7, v_min=-3.0, v_max=3.0, sigma=0.5, seed=11, updates=4,
                    target_updates=2, reward="normal")
RAINBOW_CASES = {
    "c51": dict(),
    "c51_double_dueling": dict(double=True, dueling=True),
    "noisy_dueling": dict(distributional=False, double=True, dueling=True, noisy=True),
    "prioritized": dict(distributional=False, alpha=0.6),
    "rainbow": dict(double=True, dueling=True, noisy=True, n_step=3, alpha=0.5),
    "rainbow_edges": dict(double=True, dueling=True, noisy=True, n_step=2, alpha=0.5, v_min=-0.25, v_max=0.5, atoms=4),
    "rainbow_exact": dict(double=True, dueling=True, noisy=True, n_step=1, alpha=0.5, gamma=1.0, reward="whole"),
}
USES = ("online", "target", "choice")


def philox(counter, key):
    counter, key = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(b >> 32) ^ counter[1] ^ key[0], b & 0xFFFFFFFF, (a >> 32) ^ counter[3] ^ key[1], a & 0xFFFFFFFF]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


def uniforms(seed, stream):
    """The doubles of 53 bits of one stream: two words each, the low one first."""
    block = 0
    while True:
        words = philox((block, 0, stream, 0), (seed, 0))
        for i in (0, 2):
            yield ((words[i + 1] << 32 | words[i]) >> 11) / 2.0**53
        block += 1


def rainbow_network(c, generator):
    outputs = (ACTIONS + 1) * c["atoms"] if c["distributional"] and c["dueling"] else ACTIONS * (c["atoms"] if c["distributional"] else 1)
    p = {}
    for name, (rows, columns) in {"layer1": (HIDDEN, OBS), "policy": (outputs, HIDDEN), "value": (1, HIDDEN)}.items():
        p[name + ".weight"] = torch.tensor(generator.normal(size=(rows, columns)) * 0.5, dtype=torch.float32)
        p[name + ".bias"] = torch.tensor(generator.normal(size=rows) * 0.1, dtype=torch.float32)
    noisy = [] if not c["noisy"] else ["policy"] if c["distributional"] or not c["dueling"] else ["policy", "value"]
    for name in noisy:
        for part in ("weight", "bias"):
            p[f"sigma.{name}.{part}"] = torch.full_like(p[f"{name}.{part}"], c["sigma"] / HIDDEN**0.5)
    return p, noisy


def rainbow_outputs(p, noisy, noise, obs):
    """The network's policy and value outputs, with noise given as one list of numbers."""
    w, at = dict(p), 0
    for name in noisy:
        f = lambda x: torch.sign(x) * torch.sqrt(torch.abs(x))
        rows, columns = p[name + ".weight"].shape
        e_in, e_out = f(noise[at:at + columns]), f(noise[at + columns:at + columns + rows])
        at += columns + rows
        w[name + ".weight"] = p[name + ".weight"] + p[f"sigma.{name}.weight"] * e_out[:, None] * e_in[None, :]
        w[name + ".bias"] = p[name + ".bias"] + p[f"sigma.{name}.bias"] * e_out
    h = torch.tanh(obs @ w["layer1.weight"].T + w["layer1.bias"])
    return h @ w["policy.weight"].T + w["policy.bias"], (h @ w["value.weight"].T + w["value.bias"])[:, 0]


def rainbow_values(c, outputs):
    """Q-values [N, A], and the log-probabilities [N, A, atoms] of the distributional cases."""
    policy, value = outputs
    if not c["distributional"]:
        return (policy - policy.mean(1, keepdim=True) + value[:, None] if c["dueling"] else policy), None
    advantage = policy[:, :ACTIONS * c["atoms"]].reshape(-1, ACTIONS, c["atoms"])
    if c["dueling"]:
        advantage = advantage - advantage.mean(1, keepdim=True) + policy[:, None, ACTIONS * c["atoms"]:]
    log_p = torch.log_softmax(advantage, 2)
    return (log_p.exp() * torch.linspace(c["v_min"], c["v_max"], c["atoms"])).sum(2), log_p


def windows(c, data):
    """(reward, discount, next observation) of every step, from the definition of an n-step return."""
    out = []
    for b in range(UNROLLS):
        for first in range(LENGTH):
            reward, discount, t, following = 0.0, 1.0, first, None
            for k in range(c["n_step"]):
                if t == LENGTH:
                    break
                reward += c["gamma"]**k * float(data["reward"][b, t])
                discount *= c["gamma"]
                t += 1
                if data["terminated"][b, t - 1]:
                    discount = 0.0
                    break
                if data["truncated"][b, t - 1]:
                    following = data["final"][b * LENGTH + t - 1]
                    break
            out.append((reward, discount, data["obs"][b, t] if following is None else following))
    return out


def projected(c, reward, discount, p):
    z = np.linspace(c["v_min"], c["v_max"], c["atoms"])
    gap = (c["v_max"] - c["v_min"]) / (c["atoms"] - 1)
    moved = np.clip(reward + discount * z, c["v_min"], c["v_max"])
    return np.array([(np.clip(1 - np.abs(moved - zi) / gap, 0, 1) * p).sum() for zi in z])


def run_rainbow(c, generator, put):
    p, noisy = rainbow_network(c, generator)
    for name, value in p.items():
        put("initial/" + name, value)
        value.requires_grad_()
    reward = generator.normal(size=(UNROLLS, LENGTH)) if c["reward"] == "normal" else generator.integers(-2, 3, (UNROLLS, LENGTH))
    data = dict(obs=torch.tensor(generator.normal(size=(UNROLLS, LENGTH + 1, OBS)), dtype=torch.float32),
                action=torch.tensor(generator.integers(0, ACTIONS, (UNROLLS, LENGTH))), reward=torch.tensor(reward, dtype=torch.float32),
                terminated=torch.tensor([[0, 1, 0, 0], [0, 0, 0, 0]]).bool(), truncated=torch.tensor([[0, 0, 0, 1], [0, 1, 0, 0]]).bool())
    final_index = [3, 5]
    final_obs = torch.tensor(generator.normal(size=(2, OBS)), dtype=torch.float32)
    for name, value in data.items():
        put(name, value)
    put("final_index", torch.tensor(final_index))
    put("final_obs", final_obs)
    data["final"] = dict(zip(final_index, final_obs))
    n = UNROLLS * LENGTH
    steps, actions = windows(c, data), data["action"].flatten()
    obs_of = data["obs"][:, :LENGTH].reshape(n, OBS)
    size = sum(p[name + ".weight"].shape[0] + HIDDEN for name in noisy)
    noise = torch.tensor(generator.normal(size=(c["updates"], len(USES), max(size, 1))), dtype=torch.float32)
    put("noise", noise)
    target = {name: value.detach().clone() for name, value in p.items()}
    optimizer = torch.optim.Adam(p.values(), lr=c["lr"], eps=c["eps"])
    priority, draw, losses, norms = np.ones(n), uniforms(c["seed"], 0x5EB1A), [], []
    for update in range(c["updates"]):
        total, sums = priority.sum(), np.cumsum(priority)
        index = [int(np.searchsorted(sums, (i + next(draw)) * total / n, side="right")) for i in range(n)]
        weight = (n * priority[index] / total) ** -c["beta"]
        weight = torch.tensor(weight / weight.max(), dtype=torch.float32)
        following = torch.stack([steps[i][2] for i in index])
        with torch.no_grad():
            valued, log_p = rainbow_values(c, rainbow_outputs(target, noisy, noise[update, 1], following))
            choice = rainbow_values(c, rainbow_outputs(p, noisy, noise[update, 2], following))[0] if c["double"] else valued
            best = choice.argmax(1)
        q, mine = rainbow_values(c, rainbow_outputs(p, noisy, noise[update, 0], obs_of[index]))
        rows, taken = torch.arange(n), actions[index]
        if c["distributional"]:
            m = torch.tensor(np.stack([projected(c, steps[i][0], steps[i][1], log_p[row, best[row]].exp().double().numpy())
                                       for row, i in enumerate(index)]))
            each = -(m * mine[rows, taken].double()).sum(1)
            wrong = each.detach() + torch.where(m > 0, m * torch.log(m.clamp_min(1e-300)), 0.0).sum(1)
        else:
            y = torch.tensor([steps[i][0] + steps[i][1] * float(valued[row, best[row]]) for row, i in enumerate(index)])
            each = torch.nn.functional.smooth_l1_loss(q[rows, taken], y, reduction="none")
            wrong = (q[rows, taken] - y).detach().double().abs()
        loss = (weight * each).mean()
        optimizer.zero_grad()
        loss.backward()
        for value in p.values():
            if value.grad is None:
                value.grad = torch.zeros_like(value)
        norms.append(torch.nn.utils.clip_grad_norm_(p.values(), c["max_grad_norm"]))
        losses.append(loss.detach().float())
        optimizer.step()
        for row, i in enumerate(index):  # a step that was drawn twice keeps the later one
            priority[i] = (abs(float(wrong[row])) + 1e-6) ** c["alpha"]
        if (update + 1) % c["target_updates"] == 0:
            target = {name: value.detach().clone() for name, value in p.items()}
    put("loss", torch.stack(losses).mean())
    put("grad_norm", torch.stack(norms).mean())
    put("priority", torch.tensor(priority, dtype=torch.float32))
    for name, value in p.items():
        put("after/" + name, value)


# PQN ---------------------------------------------------------------------------------------------------------------

PQN_BASE = dict(gamma=0.95, lam=0.7, lr=1e-2, eps=1e-5, max_grad_norm=10.0, optimizer="radam", epochs=3, batches=3)
PQN_CASES = {"radam": dict(), "adam_clipped": dict(optimizer="adam", max_grad_norm=0.05), "one_step": dict(lam=0.0), "sum_of_rewards": dict(lam=1.0)}


def q_lambda(c, data, value, b, s):
    """R of step s as the mixture of n-step returns: (1 - lambda) sum lambda^(n-1) R_n, the last one with what is left."""
    length, total, reward, weight, discount = data["reward"].shape[1], 0.0, 0.0, 1.0, 1.0
    for t in range(s, length):
        reward += discount * float(data["reward"][b, t])
        discount *= c["gamma"]
        terminated, truncated = bool(data["terminated"][b, t]), bool(data["truncated"][b, t])
        boot = 0.0 if terminated else float(value["final"][b * length + t] if truncated else value["obs"][b, t + 1])
        if terminated or truncated or t == length - 1:
            return total + weight * (reward + discount * boot)
        total += weight * (1 - c["lam"]) * (reward + discount * boot)
        weight *= c["lam"]


def run_pqn(c, generator, put):
    p = {name: value.requires_grad_() for name, value in layers(generator).items()}
    for name, value in p.items():
        put("initial/" + name, value)
    make = torch.optim.RAdam if c["optimizer"] == "radam" else torch.optim.Adam
    optimizer = make(p.values(), lr=c["lr"], eps=c["eps"])
    for number in range(c["batches"]):
        unrolls, length = 3, 5
        terminated = generator.random((unrolls, length)) < 0.15
        truncated = generator.random((unrolls, length)) < 0.15
        truncated[0, 2], terminated[0, 2] = True, False
        truncated[1, length - 1], terminated[1, length - 1] = True, False
        truncated[2, 1] = terminated[2, 1] = True  # terminated wins
        final_index = np.flatnonzero(truncated & ~terminated)
        data = dict(obs=torch.tensor(generator.normal(size=(unrolls, length + 1, OBS)), dtype=torch.float32),
                    action=torch.tensor(generator.integers(0, ACTIONS, (unrolls, length))),
                    reward=torch.tensor(generator.normal(size=(unrolls, length)), dtype=torch.float32),
                    terminated=torch.tensor(terminated), truncated=torch.tensor(truncated), final_index=torch.tensor(final_index),
                    final_obs=torch.tensor(generator.normal(size=(len(final_index), OBS)), dtype=torch.float32))
        with torch.no_grad():
            q = forward(p, data["obs"])[0]
            value = dict(obs=q.max(2).values, final=dict(zip(final_index.tolist(), forward(p, data["final_obs"])[0].max(1).values)))
        data["behaviour_logits"] = q[:, :length].clone()
        for name, tensor in data.items():
            put(f"{number}/{name}", tensor)
        returns = torch.tensor([[q_lambda(c, data, value, b, t) for t in range(length)] for b in range(unrolls)], dtype=torch.float32)
        put(f"{number}/returns", returns)
        losses, norms = [], []
        for _ in range(c["epochs"]):
            optimizer.zero_grad()
            taken = forward(p, data["obs"][:, :length])[0].gather(2, data["action"][..., None])[..., 0]
            loss = 0.5 * torch.nn.functional.mse_loss(taken, returns)
            loss.backward()
            for tensor in p.values():
                if tensor.grad is None:
                    tensor.grad = torch.zeros_like(tensor)
            norms.append(torch.nn.utils.clip_grad_norm_(p.values(), c["max_grad_norm"]))
            losses.append(loss.detach())
            optimizer.step()
        put(f"{number}/loss", torch.stack(losses).mean())
        put(f"{number}/grad_norm", torch.stack(norms).mean())
        for name, tensor in p.items():
            put(f"{number}/after/{name}", tensor)


def run_radam(generator, put):
    w = torch.zeros(4, requires_grad=True)
    gradients = torch.tensor(generator.normal(size=(12, 4)), dtype=torch.float32)
    optimizer, after = torch.optim.RAdam([w], lr=0.02, eps=1e-5), []
    for gradient in gradients:
        w.grad = gradient.clone()
        optimizer.step()
        after.append(w.detach().clone())
    put("gradients", gradients)
    put("after", torch.stack(after))


def write(path, cases, base, run, first_seed):
    tensors = {}
    cases = {name: {**base, **changes} for name, changes in cases.items()}
    for seed, (name, case) in enumerate(cases.items()):
        run(case, np.random.default_rng(first_seed + seed), lambda key, value, name=name: tensors.__setitem__(f"{name}/{key}", value.detach().clone()))
    save(path, tensors, {"cases": json.dumps(cases), "torch": torch.__version__})
    print(path.name, path.stat().st_size, "bytes")


def main():
    torch.set_num_threads(1)
    parl = pathlib.Path(__file__).resolve().parent.parent / "parl"
    data = parl / "algorithms/testdata"
    write(data / "dqn_reference.safetensors", CASES, BASE, run_case, 100)
    write(data / "rainbow_reference.safetensors", RAINBOW_CASES, RAINBOW_BASE, run_rainbow, 200)
    write(data / "pqn_reference.safetensors", PQN_CASES, PQN_BASE, run_pqn, 300)
    tensors = {}
    run_radam(np.random.default_rng(400), tensors.__setitem__)
    save(parl / "agent/testdata/radam_reference.safetensors", tensors, {"torch": torch.__version__})


if __name__ == "__main__":
    main()
