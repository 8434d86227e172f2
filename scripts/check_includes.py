#!/usr/bin/env python3
"""Checks who includes whom (docs/architecture.md) and how headers are kept. Usage: check_includes.py [ROOT | --self-test]

  - a room includes only rooms below it; algorithms know neither environments nor remote objects
  - <room>/internal/ is included from its own room only
  - torch stays in the learning rooms; <torch/torch.h> in .cc files only; of headers only agent/model.h pays for
    <torch/nn/module.h>, the others stop at <ATen/core/Tensor.h>
  - nlohmann-json, CLI11 and the ALE's headers are seen by .cc files only; the ALE by env_atari alone,
    MuJoCo by env_mujoco alone
  - includes of our files carry their whole path and exist
  - a header has #pragma once and opens with a comment, its contract; no file is longer than 500 lines
"""
import re
import sys
import tempfile
from pathlib import Path

CORE = {"core"}
ROOMS = {  # what a room may include besides itself
    "core": set(),
    "wire": CORE,
    "remote": CORE | {"wire"},
    "submit": CORE | {"wire", "remote"},
    "env": CORE,
    "env_pixel": CORE | {"env"},
    "env_multi": CORE | {"env"},
    "env_gym": CORE | {"env"},
    "env_atari": CORE | {"env"},
    "env_mujoco": CORE | {"env"},
    "agent": CORE | {"wire"},
    "models": CORE | {"wire", "agent"},
    "algorithms": CORE | {"wire", "agent"},
    "data": CORE | {"wire", "env", "agent"},
}
ROOMS["train"] = set(ROOMS)
FOR_TESTS = {"algorithms": {"models"}, "agent": {"models"}}  # a test may use what stands beside or above it
PROGRAMS = {"cli", "examples", "bench", "tests"}
PUBLIC_OF_PROGRAMS = {"cli/command_line.h"}  # parl::cli
WITHOUT_TORCH = {"core", "wire", "remote", "submit", "env", "env_pixel", "env_multi", "env_gym", "env_atari", "env_mujoco"}
TORCH = re.compile(r"^(torch|ATen|c10|caffe2)/")
HEADERS_MAY = {"ATen/core/Tensor.h"}
CC_ONLY = re.compile(r"^(nlohmann|CLI)/")
MAX_LINES = 500
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def room_of(path):
    parts = path.parts
    return parts[1] if parts[0] == "parl" else parts[0]


def check_include(root, path, quote, target):
    room, header, test = room_of(path), path.suffix == ".h", path.name.endswith("_test.cc")
    if target.startswith(("ale/", "ale_")):
        if room != "env_atari" or header:
            yield f"only env_atari's .cc files may include the ALE (GPL-2.0): <{target}>"
        return
    if target.startswith("mujoco/"):
        if room != "env_mujoco" or header:
            yield f"only env_mujoco's .cc files may include MuJoCo: <{target}>"
        return
    if quote == "<":
        if TORCH.match(target):
            if room in WITHOUT_TORCH:
                yield f"room '{room}' is free of torch, but includes <{target}>"
            elif target == "torch/torch.h" and header:
                yield "<torch/torch.h> costs every includer 18 s: .cc files only"
            elif header and room not in PROGRAMS and target not in HEADERS_MAY and not (
                    target == "torch/nn/module.h" and path.as_posix() == "parl/agent/model.h"):
                yield f"a public header stops at <ATen/core/Tensor.h>, but this includes <{target}>"
        if CC_ONLY.match(target) and header:
            yield f"<{target}> belongs in a .cc file"
        if target.startswith(("parl/", "cli/")):
            yield f'our own files are included with quotes: "{target}"'
        return
    if not (root / target).is_file():
        yield f'"{target}" does not exist under the root: includes carry their whole path'
        return
    goal = Path(target)
    other = room_of(goal)
    if "internal" in goal.parts and other != room:
        yield f'"{target}" is internal to room \'{other}\''
    if room in PROGRAMS:
        if other in PROGRAMS and other != room and target not in PUBLIC_OF_PROGRAMS:
            yield f"'{room}' must not include '{other}'"
        return
    allowed = ROOMS.get(room, set()) | {room} | (FOR_TESTS.get(room, set()) if test else set())
    if other not in allowed:
        yield f"room '{room}' must not include room '{other}' (it may include: {', '.join(sorted(allowed))})"


def check_file(root, path):
    text = (root / path).read_text(encoding="utf-8")
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        yield 1, f"{len(lines)} lines; split what is longer than {MAX_LINES}"
    if path.suffix == ".h":
        if "#pragma once" not in text:
            yield 1, "a header needs #pragma once"
        if not text.lstrip().startswith(("//", "/*")):
            yield 1, "a header opens with its contract as a comment"
    for number, line in enumerate(lines, 1):
        if match := INCLUDE.match(line):
            for problem in check_include(root, path, *match.groups()):
                yield number, problem


def check_tree(root):
    problems = []
    for top in sorted(PROGRAMS | {"parl"}):
        for file in sorted((root / top).rglob("*")):
            path = file.relative_to(root)
            if file.suffix not in (".h", ".cc") or "must_not_compile" in path.parts or "testdata" in path.parts:
                continue
            if path.parts[0] == "parl" and room_of(path) not in ROOMS:
                problems.append(f"{path}:1: '{room_of(path)}' is not a room that scripts/check_includes.py knows")
                continue
            problems += [f"{path}:{number}: {problem}" for number, problem in check_file(root, path)]
    return problems


def self_test():
    """Every rule, broken once, must be noticed."""
    cases = {
        "parl/core/a.h": ("", "opens with its contract"),
        "parl/core/b.h": ("// b\n", "needs #pragma once"),
        "parl/core/c.h": ('// c\n#pragma once\n#include "parl/wire/w.h"\n', "must not include room 'wire'"),
        "parl/core/d.cc": ("#include <torch/torch.h>\n", "free of torch"),
        "parl/core/e.cc": ("\n" * 501, "501 lines"),
        "parl/agent/f.h": ("// f\n#pragma once\n#include <torch/torch.h>\n", "costs every includer"),
        "parl/agent/g.h": ("// g\n#pragma once\n#include <torch/nn/module.h>\n", "stops at <ATen/core/Tensor.h>"),
        "parl/algorithms/h.cc": ('#include "parl/env/env.h"\n', "must not include room 'env'"),
        "parl/wire/i.cc": ('#include "parl/remote/internal/r.h"\n', "internal to room 'remote'"),
        "parl/wire/j.cc": ('#include "w.h"\n', "whole path"),
        "parl/wire/k.cc": ("#include <parl/wire/w.h>\n", "included with quotes"),
        "parl/wire/l.h": ("// l\n#pragma once\n#include <nlohmann/json.hpp>\n", "belongs in a .cc file"),
        "cli/m.cc": ("#include <ale/ale_interface.hpp>\n", "only env_atari's"),
        "parl/train/p.cc": ("#include <mujoco/mujoco.h>\n", "only env_mujoco's"),
        "cli/n.cc": ('#include "tests/t.h"\n', "must not include 'tests'"),
        "parl/attic/o.cc": ("", "is not a room"),
    }
    fine = {
        "parl/wire/w.h": '// w\n#pragma once\n#include "parl/core/fine.h"\n',
        "parl/core/fine.h": "// fine\n#pragma once\n",
        "parl/env/env.h": "// env\n#pragma once\n",
        "parl/remote/internal/r.h": "// r\n#pragma once\n",
        "parl/remote/x.cc": '#include "parl/remote/internal/r.h"\n#include "parl/wire/w.h"\n',
        "parl/agent/model.h": "// model\n#pragma once\n#include <torch/nn/module.h>\n",
        "parl/agent/model.cc": "#include <torch/torch.h>\n",
        "parl/train/t.cc": '#include "parl/env/env.h"\n#include "parl/agent/model.h"\n',
        "tests/t.h": '// t\n#pragma once\n#include "parl/train/t.h"\n',
        "parl/train/t.h": "// t\n#pragma once\n#include <ATen/core/Tensor.h>\n",
    }
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in {**{k: v[0] for k, v in cases.items()}, **fine}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        problems = check_tree(root)
    for name, (_, expected) in cases.items():
        mine = [p for p in problems if p.startswith(name + ":")]
        assert any(expected in p for p in mine), f"{name}: '{expected}' was not noticed; got {mine}"
    wrong = [p for p in problems if p.split(":")[0] in fine]
    assert not wrong, wrong
    print(f"{len(cases)} broken rules noticed")


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    problems = check_tree(root)
    print("\n".join(problems) if problems else "includes: in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
