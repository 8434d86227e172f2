#!/usr/bin/env python3
"""Writes parl/algorithms/testdata/es_reference.safetensors: what Es must compute, worked out by numpy.

Independent of the C++ code: Philox4x32-10 after Salmon et al. 2011, the table of noise and the places in it from that,
ranks by counting, the estimate as a sum over all 2n perturbed networks, Adam after its paper in double precision.
Run: python3 scripts/reference_es.py (torch and numpy; the file is committed, so only after a change of the cases).
"""
import json
import pathlib

import numpy as np
import torch

from reference_actor_critic import layers, save

SEED, TABLE, PAIRS, GENERATIONS = 12345678901, 1000, 5, 3
SIGMA, LR, EPS, DECAY = 0.07, 0.02, 1e-8, 0.01
NOISE_STREAM = 3_000_000_019
LOW = 0xFFFFFFFF


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & LOW, (a >> 32) ^ c[3] ^ k[1], a & LOW]
        k = [(k[0] + 0x9E3779B9) & LOW, (k[1] + 0xBB67AE85) & LOW]
    return c


def words(seed, stream, count):
    out = []
    for block in range((count + 3) // 4):
        out += philox([block & LOW, block >> 32, stream & LOW, stream >> 32], [seed & LOW, seed >> 32])
    return out[:count]


def derive_seed(seed, index):
    block = philox([LOW, LOW, index & LOW, index >> 32], [seed & LOW, seed >> 32])
    return block[0] | block[1] << 32


def uniforms(seed, stream, count):
    w = words(seed, stream, 2 * count)
    return np.array([((w[2 * i + 1] << 32 | w[2 * i]) >> 11) * 2.0 ** -53 for i in range(count)])


def noise_table():
    u = uniforms(derive_seed(SEED, NOISE_STREAM), 0, TABLE)
    radius, angle = np.sqrt(-2 * np.log1p(-u[0::2])), 2 * np.pi * u[1::2]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).reshape(-1).astype(np.float32)


def place(generation, pair, count):
    u = uniforms(derive_seed(derive_seed(SEED, NOISE_STREAM + 1), generation), pair, 1)[0]
    return min(TABLE - count, int(u * (TABLE - count + 1)))


def centred_ranks(values):
    below = (values[None, :] < values[:, None]).sum(1)
    equal = (values[None, :] == values[:, None]).sum(1)
    return (below + (equal - 1) / 2) / (len(values) - 1) - 0.5


def main():
    generator = np.random.default_rng(300)
    tensors = {}
    put = lambda name, value: tensors.__setitem__(name, torch.tensor(np.asarray(value, dtype=np.float32)))
    p = {name: value.numpy().astype(np.float64) for name, value in layers(generator).items()}
    for name, value in p.items():
        put("initial/" + name, value)
    table, count = noise_table(), sum(v.size for v in p.values())
    put("table", table)
    theta = np.concatenate([v.reshape(-1) for v in p.values()])
    m, v = np.zeros(count), np.zeros(count)
    for step in range(GENERATIONS):
        returns = np.round(generator.normal(size=(PAIRS, 2)) * 3) / 2  # some are equal
        eps = np.stack([table[(at := place(step, pair, count)):at + count] for pair in range(PAIRS)]).astype(np.float64)
        put(f"{step}/returns", returns)
        put(f"{step}/noise", eps)
        put(f"{step}/perturbed", theta - SIGMA * eps[2])  # the minus of the third pair
        rank = centred_ranks(returns.reshape(-1)).reshape(PAIRS, 2)
        put(f"{step}/rank", rank)
        signed = np.stack([eps, -eps], 1)  # [pair, sign, parameter]
        g = np.einsum("ps,psk->k", rank, signed) / (2 * PAIRS)
        put(f"{step}/gradient", g)
        total = DECAY * theta - g
        m, v = 0.9 * m + 0.1 * total, 0.999 * v + 0.001 * total ** 2
        theta = theta - LR * (m / (1 - 0.9 ** (step + 1))) / (np.sqrt(v / (1 - 0.999 ** (step + 1))) + EPS)
        at = 0
        for name, value in p.items():
            put(f"{step}/after/{name}", theta[at:at + value.size].reshape(value.shape))
            at += value.size
    path = pathlib.Path(__file__).resolve().parent.parent / "parl/algorithms/testdata/es_reference.safetensors"
    settings = dict(seed=SEED, table=TABLE, pairs=PAIRS, generations=GENERATIONS, sigma=SIGMA, lr=LR, eps=EPS, decay=DECAY)
    save(path, tensors, {"settings": json.dumps(settings)})
    print(path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
