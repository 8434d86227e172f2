#!/usr/bin/env python3
"""Records the golden data of the MuJoCo tasks: parl/env_mujoco/testdata/<id>[-options].golden.

    pip install mujoco==3.8.1 gymnasium[mujoco]==1.4.0 numpy==2.4.6      (scripts/requirements-mujoco.txt)
    python3 scripts/record_mujoco.py parl/env_mujoco/testdata

Each task with Gymnasium's defaults for 1,050 steps (so that the time limit is seen), and with other options for 300, each
from reset(seed) on without a seed, with random actions of up to 1.25 of their bounds.

File, little-endian: "PMJG", int32 version of MuJoCo, uint32 fingerprint of the C library's functions (below), texts id,
options ("name=value,...") and info names (","), uint64 seed, int32 nq, nv, observation size, action size, steps, float32
scale of each action; then qpos, qvel, observation (float64) after the reset; for each step: int8 action [nu] (times
scale), uint32 CRC-32 of qpos and qvel, of the observation as float32, of the info values as float64, float64 reward,
uint8 flags (1 terminated, 2 truncated), after steps 1..10 and each 100th qpos, qvel and observation as float64, and where
the episode ended CRC-32 of qpos and qvel and of the observation after the reset that follows. A text: uint16 length, UTF-8.
"""
import math
import struct
import sys
import zlib
from pathlib import Path

import gymnasium
import mujoco
import numpy as np

INF = math.inf
DEFAULTS = ["HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5", "Humanoid-v5", "HumanoidStandup-v5", "Swimmer-v5",
            "InvertedPendulum-v5", "InvertedDoublePendulum-v5", "Reacher-v5", "Pusher-v5"]
OTHERS = [
    ("HalfCheetah-v5", dict(forward_reward_weight=2.0, ctrl_cost_weight=0.3, reset_noise_scale=0.2, frame_skip=3,
                            exclude_current_positions_from_observation=False)),
    ("Hopper-v5", dict(terminate_when_unhealthy=False, healthy_z_range=(0.5, INF), healthy_angle_range=(-1.5, 0.5),
                       healthy_state_range=(-3.0, 5.0), healthy_reward=2.5, ctrl_cost_weight=0.01)),
    ("Walker2d-v5", dict(xml_file="walker2d.xml", terminate_when_unhealthy=False, healthy_z_range=(0.6, 1.5),
                         healthy_angle_range=(-0.7, 2.0), healthy_reward=0.5, reset_noise_scale=0.05,
                         exclude_current_positions_from_observation=False)),
    ("Ant-v5", dict(main_body="torso", contact_force_range=(-0.5, 2.0), contact_cost_weight=0.01, ctrl_cost_weight=0.2,
                    healthy_reward=0.3, healthy_z_range=(0.45, 0.8), include_cfrc_ext_in_observation=False,
                    exclude_current_positions_from_observation=False)),
    ("Ant-v5", dict(main_body=3, terminate_when_unhealthy=False, forward_reward_weight=0.7, reset_noise_scale=0.3,
                    contact_force_range=(0.1, 5.0), max_episode_steps=120)),
    ("Humanoid-v5", dict(contact_cost_weight=1e-3, contact_cost_range=(0.2, 4.0), healthy_z_range=(0.9, 1.45),
                         healthy_reward=2.0, forward_reward_weight=0.5, include_cinert_in_observation=False,
                         include_cfrc_ext_in_observation=False)),
    ("Humanoid-v5", dict(terminate_when_unhealthy=False, ctrl_cost_weight=0.7, include_cvel_in_observation=False,
                         include_qfrc_actuator_in_observation=False, reset_noise_scale=0.1,
                         exclude_current_positions_from_observation=False)),
    ("HumanoidStandup-v5", dict(uph_cost_weight=2.0, impact_cost_weight=1e-4, impact_cost_range=(0.5, 3.0),
                                ctrl_cost_weight=0.5, include_cinert_in_observation=False, frame_skip=4)),
    ("Swimmer-v5", dict(forward_reward_weight=3.0, ctrl_cost_weight=0.5, reset_noise_scale=0.01,
                        exclude_current_positions_from_observation=False)),
    ("InvertedPendulum-v5", dict(reset_noise_scale=0.15, frame_skip=1)),
    ("InvertedDoublePendulum-v5", dict(healthy_reward=3.0, reset_noise_scale=0.02)),
    ("Reacher-v5", dict(reward_dist_weight=0.7, reward_control_weight=0.3)),
    ("Pusher-v5", dict(reward_near_weight=0.9, reward_dist_weight=2.0, reward_control_weight=0.03)),
]


def crc(*arrays):
    return zlib.crc32(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays))


def fingerprint():
    """Simulations agree to the bit only where the C library rounds alike."""
    values = []
    for i in range(1, 1001):
        x = i * 0.0137
        values += [math.sin(x), math.cos(x), math.tan(x), math.exp(-x), math.log(x), math.log1p(-x / 15), math.pow(x, 2.0),
                   math.pow(x, 0.3), math.atan2(x, 3.0 - x), math.acos(x / 14), math.asin(x / 14)]
    return zlib.crc32(struct.pack(f"<{len(values)}d", *values))


def text(value):
    data = value.encode()
    return struct.pack("<H", len(data)) + data


def option_text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"{option_text(value[0])}..{option_text(value[1])}"
    return repr(value) if isinstance(value, float) else str(value)


def flat_info(info):
    out = {}
    for name, value in info.items():
        if np.ndim(value) == 1:
            out.update({f"{name}_{i}": float(x) for i, x in enumerate(value)})
        elif name != "TimeLimit.truncated":
            out[name] = float(value)
    return dict(sorted(out.items()))


class Recorder:
    def __init__(self, name, options, steps, seed):
        self.env = gymnasium.make(name, disable_env_checker=True, **options)
        self.data = self.env.unwrapped.data
        self.random = np.random.default_rng(seed + 1000)
        self.name, self.options, self.steps, self.seed = name, options, steps, seed
        self.episodes = {"terminated": 0, "truncated": 0}

    def state(self):
        return np.concatenate([self.data.qpos, self.data.qvel])

    def full(self, obs):
        return self.state().tobytes() + np.asarray(obs, np.float64).tobytes()

    def record(self):
        obs, _ = self.env.reset(seed=self.seed)
        high = self.env.action_space.high
        scale = (np.float32(1.25 / 127) * high).astype(np.float32)
        body, names, ended = bytearray(self.full(obs)), None, False
        for t in range(1, self.steps + 1):
            levels = self.random.integers(-127, 128, size=len(high), dtype=np.int8)
            obs, reward, terminated, truncated, info = self.env.step(levels.astype(np.float32) * scale)
            info = flat_info(info)
            names = names or list(info)
            body += levels.tobytes()
            body += struct.pack("<III", crc(self.state()), crc(obs.astype(np.float32)), crc(np.array(list(info.values()))))
            body += struct.pack("<dB", float(reward), int(terminated) | int(truncated) << 1)
            if t <= 10 or t % 100 == 0:
                body += self.full(obs)
            if terminated or truncated:
                self.episodes["terminated" if terminated else "truncated"] += 1
                obs, _ = self.env.reset()
                body += struct.pack("<II", crc(self.state()), crc(obs.astype(np.float32)))
        options = ",".join(f"{k}={option_text(v)}" for k, v in self.options.items())
        header = b"PMJG" + struct.pack("<iI", mujoco.mj_version(), fingerprint())
        header += text(self.name) + text(options) + text(",".join(names)) + struct.pack("<Q", self.seed)
        sizes = (len(self.data.qpos), len(self.data.qvel), len(obs), len(high), self.steps)
        return header + struct.pack("<5i", *sizes) + scale.tobytes() + body


def main():
    folder = Path(sys.argv[1])
    print(f"mujoco {mujoco.__version__}, gymnasium {gymnasium.__version__}, numpy {np.__version__}")
    jobs = [(name, {}, 1050, name) for name in DEFAULTS]
    for name, options in OTHERS:
        file = f"{name}-options"
        jobs.append((name, options, 300, file + "2" if file in [job[3] for job in jobs] else file))
    for seed, (name, options, steps, file) in enumerate(jobs):
        recorder = Recorder(name, options, steps, seed)
        data = recorder.record()
        (folder / f"{file}.golden").write_bytes(data)
        print(f"{file}: {len(data)} bytes, {recorder.episodes}")


if __name__ == "__main__":
    main()
