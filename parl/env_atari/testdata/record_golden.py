#!/usr/bin/env python3
"""Records the golden data of atari_golden_test.cc: what the contract of docs/atari.md says, played through ale-py alone.

    pip install ale-py==0.12.1 opencv-python-headless numpy
    python record_golden.py            # writes <game>_<preset>.golden.gz beside this file

Independent of the C++ code: ALEInterface does sticky actions, the cap and grey screens, OpenCV resizes. Wrapper logic is
written after OpenAI Baselines (NoopReset, MaxAndSkip, EpisodicLife, FireReset). The number of no-ops and the seed are
given; actions come from a small generator (lcg below) that the test repeats. `max_frames` is small so that games are
truncated too.

File: gzip of a header line (text, key=value ...), then records, little-endian:
  row    kind u8 (0: step, 1: reset), action u8, raw reward i16, clipped reward i8, lives u8, flags u8 (1: terminated,
         2: truncated), crc32 u32 of: grey frame before the last, last grey frame, their maximum
  image  kind u8 = 2, 84 * 84 bytes, 42 * 42 bytes: the newest picture after the row before
"""
import gzip
import pathlib
import struct
import zlib

import cv2
import numpy as np
from ale_py import ALEInterface, LoggerMode, roms

GAMES = ["pong", "breakout", "seaquest", "qbert"]
STEPS, IMAGE_EVERY, SKIP = 3000, 250, 4
PRESETS = {
    "deepmind": dict(noops=17, sticky=0.0, life_loss=True, fire=True, seed=0, max_frames=3000),
    "v5": dict(noops=0, sticky=0.25, life_loss=False, fire=False, seed=123, max_frames=3000),
}


class Game:
    def __init__(self, game, noops, sticky, life_loss, fire, seed, max_frames):
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self.ale = ALEInterface()
        self.ale.setInt("random_seed", seed)
        self.ale.setFloat("repeat_action_probability", sticky)
        self.ale.setInt("max_num_frames_per_episode", max_frames)
        self.ale.loadROM(roms.get_rom_path(game))
        self.actions = self.ale.getMinimalActionSet()
        self.noops, self.life_loss = noops, life_loss
        self.fire = fire and len(self.actions) >= 3 and self.actions[1].value == 1
        self.fresh, self.real_end, self.lives = True, True, 0
        self.before = self.last = None

    def frame(self, action):
        points = self.ale.act(self.actions[action])
        self.before, self.last = self.last, self.ale.getScreenGrayscale()
        return points

    def over(self):
        return self.ale.game_over() or self.ale.game_truncated()

    def noop_reset(self):
        if not self.fresh:
            self.ale.reset_game()
        self.fresh = False
        self.last = self.ale.getScreenGrayscale()
        for _ in range(self.noops):
            self.frame(0)
            if self.over():
                self.ale.reset_game()
                self.last = self.ale.getScreenGrayscale()
        self.single = True

    def skip_step(self, action):  # MaxAndSkip, over the last two frames really played
        points = 0
        for _ in range(SKIP):
            points += self.frame(action)
            if self.over():
                break
        self.single = False
        return points

    def life_step(self, action):  # EpisodicLife.step
        points = self.skip_step(action)
        self.real_end = self.over()
        lives = self.ale.lives()
        lost = self.life_loss and 0 < lives < self.lives
        self.lives = lives
        return points, lost

    def life_reset(self):  # EpisodicLife.reset
        if self.real_end:
            self.noop_reset()
        else:
            self.skip_step(0)
            if self.over():
                self.noop_reset()
        self.lives = self.ale.lives()
        self.real_end = False

    def reset(self):  # FireReset.reset
        self.life_reset()
        if self.fire:
            for action in (1, 2):
                _, lost = self.life_step(action)
                if lost or self.real_end:
                    self.life_reset()

    def step(self, action):
        points, lost = self.life_step(action)
        terminated = self.ale.game_over(with_truncation=False) or lost
        truncated = self.ale.game_truncated() and not terminated
        return points, terminated, truncated

    def seen(self):
        return self.last if self.single else np.maximum(self.before, self.last)


def crc(picture):
    return zlib.crc32(np.ascontiguousarray(picture).tobytes())


def record(game, preset):
    settings = PRESETS[preset]
    g = Game(game, **settings)
    out = []

    def row(kind, action=0, points=0, terminated=False, truncated=False):
        before = g.last if g.single else g.before
        out.append(struct.pack("<BBhbBBIII", kind, action, points, (points > 0) - (points < 0), g.ale.lives(),
                               terminated + 2 * truncated, crc(before), crc(g.last), crc(g.seen())))

    g.reset()
    row(1)
    state = 12345
    for step in range(1, STEPS + 1):
        state = (state * 1664525 + 1013904223) % 2**32
        action = (state >> 16) % len(g.actions)
        points, terminated, truncated = g.step(action)
        row(0, action, points, terminated, truncated)
        if terminated or truncated:
            g.reset()
            row(1)
        if step % IMAGE_EVERY == 0:
            small = [cv2.resize(g.seen(), (n, n), interpolation=cv2.INTER_AREA) for n in (84, 42)]
            out.append(b"\x02" + small[0].tobytes() + small[1].tobytes())
    header = f"game={game} preset={preset} seed={settings['seed']} noops={settings['noops']} " \
             f"max_frames={settings['max_frames']} actions={len(g.actions)} steps={STEPS}\n"
    path = pathlib.Path(__file__).parent / f"{game}_{preset}.golden.gz"
    with open(path, "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", filename="", mtime=0) as z:
        z.write(header.encode() + b"".join(out))
    ends = [r for r in out if r[0] == 0 and r[6]]
    print(path.name, path.stat().st_size, "bytes;", len(ends), "ends,", sum(r[6] == 2 for r in ends), "truncated")


if __name__ == "__main__":
    for name in GAMES:
        for preset in PRESETS:
            record(name, preset)
