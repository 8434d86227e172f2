#!/usr/bin/env python3
"""Loads a run's weights into the same PyTorch network: load_run.py WEIGHTS.safetensors OBS.safetensors ...

WEIGHTS: RUN/checkpoints/<any>/weights.safetensors of a network mlp, minatar, atari42, nature or impala_shallow, or of one of these with LayerNorm (..._norm).
OBS holds "obs", and "logits" and "value" if the outputs are to be compared (exit code 1 when they differ)."""
import json, struct, sys
import torch

TYPES = {"F32": torch.float32, "U8": torch.uint8, "I64": torch.int64}
GEOMETRY = {(4, 4, 11): [(2, 1), (2, 2), (1, 0)], (8, 4, 3, 7): [(4, 0), (2, 0), (1, 0), (1, 0)], (8, 4, 9): [(4, 0), (2, 0), (1, 0)], (3, 8): [(1, 0), (1, 0)]}

def load(path):
    data = bytearray(open(path, "rb").read())
    start = 8 + struct.unpack("<Q", data[:8])[0]
    return {name: torch.frombuffer(data, dtype=TYPES[t["dtype"]], count=(t["data_offsets"][1] - t["data_offsets"][0]) // TYPES[t["dtype"]].itemsize,
                                   offset=start + t["data_offsets"][0]).view(t["shape"])
            for name, t in json.loads(data[8:start]).items() if name != "__metadata__"}

def norm(w, number, x):
    name = f"norm{number}"
    return torch.nn.functional.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"]) if name + ".weight" in w else x

def forward(w, obs):
    if "conv1.weight" in w:
        x = obs.permute(0, 3, 1, 2).float() / (255 if obs.dtype == torch.uint8 else 1)
        convs = [name[:-7] for name in w if name.startswith("conv") and name.endswith(".weight")]
        for name, (stride, padding) in zip(convs, GEOMETRY[tuple(w[c + ".weight"].shape[2] for c in convs)]):
            x = torch.nn.functional.conv2d(x, w[name + ".weight"], w[name + ".bias"], stride, padding)
            x = torch.relu(norm(w, name[4:], x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))
        x = x.flatten(1)
    else:
        x = obs.float().flatten(1)
        for number in (1, 2):
            x = norm(w, number, x @ w[f"layer{number}.weight"].T + w[f"layer{number}.bias"])
            x = torch.relu(x) if "norm1.weight" in w else torch.tanh(x)
    return x @ w["policy.weight"].T + w["policy.bias"], (x @ w["value.weight"].T + w["value.bias"])[:, 0]

for weights_path, obs_path in zip(sys.argv[1::2], sys.argv[2::2]):
    given = load(obs_path)
    logits, value = forward(load(weights_path), given["obs"])
    print("logits\n", logits, "\nvalue\n", value)
    for name, mine in (("logits", logits), ("value", value)):
        if name in given and not torch.allclose(mine, given[name], rtol=1e-4, atol=1e-5):
            sys.exit(f"{weights_path}: {name} differ from those in {obs_path}")
