"""Environments for the tests of parl/env_gym: every kind of space, and every way to fail."""
import os
import sys
import time

import gymnasium
import numpy as np
from gymnasium import spaces

ACTIONS = {
    "discrete": spaces.Discrete(3, start=-1),
    "multi": spaces.MultiDiscrete([3, 4], dtype=np.int32),
    "binary": spaces.MultiBinary((2, 2)),
    "box": spaces.Box(-2, 2, (2, 1), np.float64),
    "both": spaces.Dict({"go": spaces.Discrete(2), "arms": spaces.Tuple((spaces.Discrete(4, start=1), spaces.MultiBinary(2)))}),
    "floats": spaces.Tuple((spaces.Box(-1, 1, (1,), np.float32), spaces.Box(0, 2, (2,), np.float32))),
    "mixed": spaces.Tuple((spaces.Box(-1, 1, (1,), np.float32), spaces.Discrete(2))),
    "whole": spaces.Box(0, 5, (2,), np.int64),
}


class Spaces(gymnasium.Env):
    """Observes how many steps were made; the reward says which action arrived."""
    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, action="discrete", render_mode=None, **unused):
        self.render_mode = render_mode
        self.action_space = ACTIONS[action]
        self.observation_space = spaces.Dict({
            "camera": spaces.Box(0, 255, (2, 3, 1), np.uint8),
            "inner": spaces.Tuple((spaces.Discrete(5, start=2), spaces.MultiDiscrete([3, 4]), spaces.MultiBinary(3))),
            "wide": spaces.Box(np.full(2, -np.inf), np.array([1.0, 2.0]), dtype=np.float64),
            "word": spaces.Box(0, 60000, (1,), np.uint16)})

    def observe(self):
        n = self.steps
        return {"camera": np.arange(6, dtype=np.uint8).reshape(2, 3, 1) + n, "inner": (2 + n % 5, np.array([n % 3, n % 4]), np.array([1, 0, n % 2])),
                "wide": np.array([-0.5 - n, 0.1]), "word": np.array([40000 + n], np.uint16)}

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.observe(), {}

    def step(self, action):
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        self.steps += 1
        numbers = spaces.flatten(spaces.Box(-9, 9, np.shape(action)), action) if not isinstance(action, (dict, tuple)) else \
            np.array([action["go"], action["arms"][0], *action["arms"][1]]) if isinstance(action, dict) else np.concatenate(action)
        reward = np.array([sum(float(x) * 10.0 ** -i for i, x in enumerate(np.ravel(numbers)))])
        return self.observe(), reward, np.bool_(self.steps == 3), False, {}

    def render(self):
        return np.tile(np.array([10, 20, self.steps], np.uint8), (4, 6, 1))


class Failing(gymnasium.Env):
    """Fails in step `at` of the first episode of the process, or where `fault` says."""
    observation_space = spaces.Box(0, 100, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, fault="", at=2):
        self.fault, self.at, self.steps, self.episode = fault, at, 0, 0
        if fault == "text":
            self.observation_space = spaces.Text(5)
        if fault == "start":
            raise ValueError("the lamp is missing")
        if fault == "exit_start":
            sys.exit("no lamp today")
        if fault == "dependency":
            raise gymnasium.error.DependencyNotInstalled('the lamp is not installed, run `pip install "lamp[bulb]"`')
        if fault == "empty":
            self.observation_space = spaces.Box(0, 1, (0,), np.float32)
        if fault == "empty_action":
            self.action_space = spaces.Box(-1, 1, (2, 0), np.float32)
        while fault == "hang_start":
            time.sleep(1)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.episode += 1
        return np.array([self.np_random.integers(100)], np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.steps == self.at and self.episode == 1:
            if self.fault == "raise":
                raise ValueError("the lamp broke")
            if self.fault == "exit":
                os._exit(7)
            if self.fault == "sysexit":
                sys.exit(5)
            if self.fault == "interrupt":
                raise KeyboardInterrupt
            if self.fault == "kill":
                os.kill(os.getpid(), 9)
            if self.fault == "print":
                print("words for a person")
            while self.fault == "hang":
                pass
            while self.fault == "sleep":
                time.sleep(1)
        return np.array([self.steps], np.float32), 1.0, False, self.steps >= 5, {}


class Scalar(gymnasium.Env):
    """Observes a number without a shape, the action that it was given."""
    observation_space = spaces.Box(-2, 2, (), np.float64)
    action_space = spaces.Box(-1, 1, (), np.float32)

    def reset(self, seed=None, options=None):
        return -0.5, {}

    def step(self, action):
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        return np.array(2 * action), float(action), False, False, {}


class Together(gymnasium.Env):
    """A step ends when all `count` environments are in theirs."""
    observation_space = spaces.Box(0, 100, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, folder="", count=1):
        self.folder, self.count, self.steps = folder, count, 0

    def reset(self, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        open(os.path.join(self.folder, f"{self.steps}-{os.getpid()}"), "w").close()
        while sum(name.startswith(f"{self.steps}-") for name in os.listdir(self.folder)) < self.count:
            time.sleep(0.001)
        return np.zeros(1, np.float32), 1.0, False, False, {}


class Masked(gymnasium.Env):
    """Tells in info which actions are legal."""
    observation_space = spaces.Discrete(4)
    action_space = spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        self.steps = 0
        return 0, {"action_mask": np.array([1, 0, 1], np.int8)}

    def step(self, action):
        self.steps += 1
        return self.steps % 4, 0.0, False, False, {"action_mask": np.array([0, 1, self.steps % 2], np.int8)}


gymnasium.register("ParlSpaces-v0", entry_point=Spaces, max_episode_steps=2)
gymnasium.register("ParlFailing-v0", entry_point=Failing)
gymnasium.register("ParlScalar-v0", entry_point=Scalar)
gymnasium.register("ParlTogether-v0", entry_point=Together)
gymnasium.register("ParlMasked-v0", entry_point=Masked)
