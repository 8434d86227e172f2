"""The Python side of parl/env_gym: some Gymnasium environments of one kind, stepped by the C++ program that started this
process.

File descriptor 3 is a socket for commands and answers, 4 shared memory for actions, observations and rewards, 5 a pipe
whose other end goes when the program does. First a JSON text says what to make; the answer describes the spaces; a
second one says where everything lies in the shared memory: a slot for each environment. Then commands: a letter, a count,
and so many slots, a byte each. N makes an environment in a slot, C closes it, R resets it, D draws it, S steps all that are
named, E asks for the text of a slot's error. An answer is one byte: k, or e and a text; what became of each step stands in
its slot. At the end of the socket the process ends.
"""
import json
import mmap
import os
import struct
import sys
import traceback

SOCKET, MEMORY = 3, 4
RESULT = struct.Struct("<dBBB")  # reward, terminated, truncated, status (1 well, 2 failed): at 0 of a slot
STATUS = 10
SEED = struct.Struct("<QB")  # seed, whether there is one: at 16
ACTION = 64


class Refusal(Exception):
    """Says all there is to say: no traceback."""


def read_exactly(count):
    data = b""
    while len(data) < count:
        more = os.read(SOCKET, count - len(data))
        if not more:
            os._exit(0)
        data += more
    return data


def read_text():
    return read_exactly(struct.unpack("<I", read_exactly(4))[0]).decode()


def write(data):
    view = memoryview(data)
    while view:
        view = view[os.write(SOCKET, view):]


def write_text(status, text):
    data = text.encode("utf-8", "replace")
    write(status + struct.pack("<I", len(data)) + data)


def error_text():
    """What was raised, with its traceback where that tells more; what is missing comes first, with the Python that lacks it."""
    kind, error, _ = sys.exc_info()
    if kind is Refusal:
        return str(error).rstrip()
    missing = f"{error}\nThe Python that lacks it is {sys.executable}: install it there, with {sys.executable} -m pip install ..."
    if kind.__name__ == "DependencyNotInstalled":  # of gymnasium: says what to install
        return missing
    return (missing + "\n" if isinstance(error, ImportError) else "") + traceback.format_exc().rstrip()


for descriptor in (SOCKET, MEMORY, 5):
    os.set_inheritable(descriptor, False)
request = json.loads(read_text())
try:
    try:
        import gymnasium
        import numpy as np
        from gymnasium import spaces
    except ImportError as error:
        raise Refusal(f"{sys.executable} cannot import gymnasium ({error}). Install it with: {sys.executable} -m pip install "
                      "gymnasium   or name another Python: --env-args python=PATH, or PARL_PYTHON") from None
except Refusal:
    write_text(b"e", error_text())
    os._exit(1)

# Element types that travel as others: networks compute in float32.
TRAVELS_AS = {"bool": "b1", "uint8": "u1", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint16": "i4",
              "uint32": "i8", "uint64": "i8", "float16": "f4", "float32": "f4", "float64": "f4"}


def bounds(values, dtype):
    with np.errstate(over="ignore"):
        flat = np.asarray(values).astype(dtype if dtype == "f4" else np.float64).ravel()
    if flat.size and (flat == flat[0]).all():
        flat = flat[:1]
    return [float(x) if np.isfinite(x) else ("inf" if x > 0 else "-inf") for x in flat]


def unsupported(space, what):
    return Refusal(f"{space} as {what}: Box, Discrete, MultiDiscrete, MultiBinary and Dict and Tuple of these can be used; "
                   "wrap the environment (gymnasium.wrappers) so that it has one of these")


def check_size(space, what):
    shapes = [item.shape for _, item in leaves(space)]
    if all(shape is not None and np.prod(shape) == 0 for shape in shapes):
        raise Refusal(f"{space} as {what} holds no number at all; wrap the environment (gymnasium.wrappers) so that it does")


def describe(space, what):
    if isinstance(space, spaces.Box):
        dtype = TRAVELS_AS.get(str(space.dtype))
        if dtype is None:
            raise unsupported(space, what)
        return dict(kind="box", dtype=dtype, shape=list(space.shape) or [1], low=bounds(space.low, dtype), high=bounds(space.high, dtype))
    if isinstance(space, spaces.Discrete):
        return dict(kind="discrete", n=int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        return dict(kind="multi_discrete", n=[int(n) for n in np.ravel(space.nvec)])
    if isinstance(space, spaces.MultiBinary):
        return dict(kind="multi_binary", n=int(np.prod(space.shape)))
    if isinstance(space, spaces.Dict):
        return dict(kind="dict", items=[[str(name), describe(item, what)] for name, item in space.spaces.items()])
    if isinstance(space, spaces.Tuple):
        return dict(kind="tuple", items=[describe(item, what) for item in space.spaces])
    raise unsupported(space, what)


def leaves(space, path=()):
    """The parts in the order in which C++ lays them out: (path, space)."""
    if isinstance(space, spaces.Dict):
        return [leaf for name, item in space.spaces.items() for leaf in leaves(item, path + (name,))]
    if isinstance(space, spaces.Tuple):
        return [leaf for i, item in enumerate(space.spaces) for leaf in leaves(item, path + (i,))]
    return [(path, space)]


def describe_action(space):
    """As describe(); a Dict or Tuple becomes one action of several numbers."""
    parts = [describe(item, "an action") for _, item in leaves(space)]
    for part, (_, item) in zip(parts, leaves(space)):
        if part["kind"] == "box" and not np.issubdtype(item.dtype, np.floating):
            raise unsupported(item, "an action")
    if len(parts) == 1:
        if parts[0]["kind"] == "box":
            parts[0]["dtype"] = "f4"
        return parts[0]
    if all(part["kind"] == "box" for part in parts):
        size = lambda part: int(np.prod(part["shape"]))
        spread = lambda part, key: part[key] * size(part) if len(part[key]) == 1 else part[key]
        return dict(kind="box", dtype="f4", shape=[sum(map(size, parts))], low=[x for p in parts for x in spread(p, "low")],
                    high=[x for p in parts for x in spread(p, "high")])
    if any(part["kind"] == "box" for part in parts):
        raise Refusal(f"{space} as an action: floats and choices together cannot be played; wrap the environment")
    choices = {"discrete": lambda p: [p["n"]], "multi_discrete": lambda p: p["n"], "multi_binary": lambda p: [2] * p["n"]}
    return dict(kind="multi_discrete", n=[n for part in parts for n in choices[part["kind"]](part)])


def make_env():
    for module in request["import"]:
        __import__(module)
    kwargs = request["kwargs"]
    if "render_mode" not in kwargs:
        try:  # pictures on demand, where the environment has them
            entry = gymnasium.spec(request["id"]).entry_point
            creator = gymnasium.envs.registration.load_env_creator(entry) if isinstance(entry, str) else entry
            if "rgb_array" in getattr(creator, "metadata", {}).get("render_modes", []):
                kwargs["render_mode"] = "rgb_array"
        except Exception:
            pass  # gymnasium.make says what is wrong
    return gymnasium.make(request["id"], disable_env_checker=True, **kwargs)


def put_discrete(view, start):
    def put(value):
        view[0] = value - start
    return put


def put_array(view, start):
    def put(value):
        view[...] = np.asarray(value).reshape(view.shape) - start
    return put


def put_box(view):
    def put(value):
        view[...] = value
    return put


def make_put(space, memory, offset, dtype):
    """A function that writes one part of an observation into its place."""
    if isinstance(space, spaces.Box):
        return put_box(np.ndarray(space.shape, dtype, memory, offset))
    if isinstance(space, spaces.Discrete):
        return put_discrete(np.ndarray((1,), np.int64, memory, offset), int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        start = np.ravel(getattr(space, "start", np.zeros_like(space.nvec)))
        return put_array(np.ndarray((space.nvec.size,), np.int64, memory, offset), start)
    return put_array(np.ndarray((int(np.prod(space.shape)),), np.uint8, memory, offset), np.uint8(0))


def make_put_observation(space, memory, base, parts):
    found = leaves(space)
    if len(found) == 1 and found[0][0] == ():
        return make_put(space, memory, base + parts[0][0], parts[0][1])
    puts = [(path, make_put(item, memory, base + offset, dtype)) for (path, item), (offset, dtype) in zip(found, parts)]

    def put(observation):
        for path, put_part in puts:
            value = observation
            for key in path:
                value = value[key]
            put_part(value)
    return put


def make_take(space, values, at):
    """A function that reads one part of an action, and the place behind it. Copies: environments may keep actions."""
    if isinstance(space, spaces.Box):
        end, dtype, shape = at + int(np.prod(space.shape)), space.dtype, space.shape
        part = values[at:end].reshape(shape)
        return (lambda: part.astype(dtype)), end
    if isinstance(space, spaces.Discrete):
        start, part = int(space.start), values[at:at + 1]
        return (lambda: start + int(part[0])), at + 1
    if isinstance(space, spaces.MultiDiscrete):
        end, dtype = at + space.nvec.size, space.dtype
        start = getattr(space, "start", np.zeros_like(space.nvec))
        part = values[at:end].reshape(space.nvec.shape)
        return (lambda: (part + start).astype(dtype)), end
    end, dtype = at + int(np.prod(space.shape)), space.dtype
    part = values[at:end].reshape(space.shape)
    return (lambda: part.astype(dtype)), end


def make_take_action(space, values):
    at = [0]

    def build(item):
        if isinstance(item, spaces.Dict):
            inner = {name: build(sub) for name, sub in item.spaces.items()}
            return lambda: {name: take() for name, take in inner.items()}
        if isinstance(item, spaces.Tuple):
            inner = [build(sub) for sub in item.spaces]
            return lambda: tuple(take() for take in inner)
        take, at[0] = make_take(item, values, at[0])
        return take
    return build(space)


def with_mask(space, action):
    choices = {"discrete": lambda: action["n"], "multi_discrete": lambda: sum(action["n"]), "multi_binary": lambda: 2 * action["n"]}
    if action["kind"] not in choices:
        raise Refusal("action_mask=info is for actions to choose, not for a Box")
    mask = spaces.MultiBinary(choices[action["kind"]]())
    inner = dict(space.spaces) if isinstance(space, spaces.Dict) else {"obs": space}
    return spaces.Dict({**inner, "action_mask": mask})


def picture(env):
    frame = env.render()
    if isinstance(frame, list):
        frame = frame[-1] if frame else None
    if frame is None:
        raise Refusal("render() gave no picture: the environment has no render_mode rgb_array")
    frame = np.ascontiguousarray(frame, dtype=np.uint8)
    if frame.ndim != 3 or frame.shape[2] != 3:
        raise Refusal(f"render() gave an array of shape {frame.shape}, not height x width x 3")
    return frame


spare = []  # the environment that described the spaces, until a slot wants it


class Slot:
    """One environment and its place in the shared memory."""

    def __init__(self, memory, place, base):
        self.memory, self.base = memory, base
        self.env = spare.pop() if spare else make_env()
        space, action_space = self.env.observation_space, self.env.action_space
        if request["mask_from_info"]:
            space = with_mask(space, describe_action(action_space))
        put = make_put_observation(space, memory, base + place["observation"], place["parts"])
        if request["mask_from_info"] and not isinstance(self.env.observation_space, spaces.Dict):
            self.put = lambda observation, info: put({"obs": observation, "action_mask": info["action_mask"]})
        elif request["mask_from_info"]:
            self.put = lambda observation, info: put({**observation, "action_mask": info["action_mask"]})
        else:
            self.put = lambda observation, info: put(observation)
        values = np.ndarray((place["actions"],), place["action_type"], memory, base + ACTION)
        self.take_action = make_take_action(action_space, values)
        self.error = ""

    def step(self):
        try:
            observation, reward, terminated, truncated, info = self.env.step(self.take_action())
            self.put(observation, info)
            if isinstance(reward, np.ndarray):
                reward = reward.item()
            RESULT.pack_into(self.memory, self.base, reward, bool(terminated), bool(truncated), 1)
        except BaseException:  # sys.exit() and KeyboardInterrupt are the environment's, too: nobody else raises them here
            self.error = error_text()
            self.memory[self.base + STATUS] = 2

    def reset(self):
        seed, is_given = SEED.unpack_from(self.memory, self.base + 16)
        observation, info = self.env.reset(seed=seed if is_given else None)
        self.put(observation, info)


def start():
    env = make_env()
    spare.append(env)
    check_size(env.observation_space, "an observation")
    check_size(env.action_space, "an action")
    action = describe_action(env.action_space)
    space = with_mask(env.observation_space, action) if request["mask_from_info"] else env.observation_space
    limit = env.spec.max_episode_steps if env.spec else None
    write_text(b"k", json.dumps(dict(
        observation=describe(space, "an observation"), action=action, max_episode_steps=limit or 0,
        version=gymnasium.__version__, python=sys.executable)))
    place = json.loads(read_text())
    return mmap.mmap(MEMORY, place["size"]), place


def serve(memory, place):
    slots = {}
    while True:
        message = os.read(SOCKET, 512)
        while message and (len(message) < 2 or len(message) < 2 + message[1]):
            message += read_exactly(1)
        if not message:
            break
        command, named = message[:1], message[2:]
        try:
            if command == b"S":
                for slot in named:
                    slots[slot].step()
            elif command == b"R":
                slots[named[0]].reset()
            elif command == b"N":
                slots[named[0]] = Slot(memory, place, named[0] * place["stride"])
            elif command == b"C":
                slots.pop(named[0]).env.close()
            elif command == b"E":
                write_text(b"k", slots[named[0]].error)
                continue
            else:
                frame = picture(slots[named[0]].env)
                write(b"k" + struct.pack("<II", frame.shape[1], frame.shape[0]))
                write(frame.data.cast("B"))
                continue
        except BaseException:
            write_text(b"e", error_text())
        else:
            os.write(SOCKET, b"k")
    for slot in slots.values():
        slot.env.close()


try:
    memory_and_place = start()
except BaseException:
    write_text(b"e", error_text())
    os._exit(1)
try:
    serve(*memory_and_place)
except OSError:
    pass  # the program is gone
except BaseException:  # of a close() that fails, when all is over
    traceback.print_exc()
finally:
    os._exit(0)
