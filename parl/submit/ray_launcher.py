# Workers as restartable Ray actors: the part of `parl submit --on ray` that talks to Ray. It is part of the program,
# which gives it to a Python that has the package ray, and a description of the run as JSON on stdin, secrets included;
# nothing is read from the command line. Each line on stdout is for the program: "state <worker> <state> <node> <text>"
# or "line <worker> <text>". The end of stdin is the end of the workers.
import collections
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading


def tell(*words):
    print(*words, flush=True)


def end_with_parent():  # the program must not outlive its actor, which may be killed
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Worker:
    """One worker: its constructor starts the program, so that an actor that Ray restarts starts it again."""

    def __init__(self, command, environment, token, directory):
        import ray
        self.node = ray.util.get_node_ip_address()
        secret = os.memfd_create("token", 0)  # in memory: nothing to clean up, however this ends
        os.write(secret, token.encode())
        environment = {**os.environ, **environment, "PARL_TOKEN_FILE": f"/proc/self/fd/{secret}"}
        try:
            self.process = subprocess.Popen(
                command, env=environment, cwd=directory or None, pass_fds=[secret], start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=end_with_parent)
        except OSError as error:
            self.process = None
            self.error = str(error)
        os.close(secret)
        self.lines = collections.deque(maxlen=10000)
        self.change = threading.Condition()
        if self.process:
            self.reader = threading.Thread(target=self._read, daemon=True)
            self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self.change:
                self.lines.append(line.decode(errors="replace").rstrip("\r\n"))
                self.change.notify()
        with self.change:
            self.change.notify()

    def poll(self, seconds):
        """(node, pid, lines, exit code or None, error); waits for news at most `seconds`."""
        if not self.process:
            return self.node, 0, [], None, self.error
        with self.change:
            if not self.lines and self.reader.is_alive():
                self.change.wait(seconds)
            is_over = not self.reader.is_alive()  # asked first: then these are its last lines
            lines = list(self.lines)
            self.lines.clear()
        code = None
        if is_over:
            code = self.process.wait()
            self._signal(signal.SIGKILL)  # what it left behind
        return self.node, self.process.pid, lines, code, ""

    def stop(self):
        if self.process:
            self._signal(signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                pass
            self._signal(signal.SIGKILL)

    def _signal(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass


def watch(ray, number, actor, restarts, is_over):
    """Follows one worker to its end; one thread each."""
    failures = 0
    while not is_over.is_set():
        try:
            node, pid, lines, code, error = ray.get(actor.poll.remote(1.0))
        except ray.exceptions.ActorUnavailableError:  # being restarted
            if not is_over.wait(0.5):
                tell("state", number, "pending", "-", "")
            continue
        except ray.exceptions.RayError as reason:
            if not is_over.is_set():
                first = (str(reason).splitlines() or [type(reason).__name__])[0]
                tell("state", number, "failed", "-", first)
            return
        tell("state", number, "running", node, "")
        for line in lines:
            tell("line", number, line)
        if error:
            tell("state", number, "failed", node, error)
            return
        if code is None:
            continue
        if code == 0:
            tell("state", number, "ended", node, "")
            return
        failures += 1
        why = f"ended with code {code}" if code >= 0 else f"was killed by signal {-code}"
        if failures > restarts:
            tell("state", number, "failed", node, why)
            return
        tell("state", number, "pending", node, f"{why}; Ray starts it again ({failures} of {restarts})")
        ray.kill(actor, no_restart=False)  # the actor fails like its program; Ray starts it again, perhaps elsewhere
        is_over.wait(1.0)


def main():
    try:
        import ray
    except ImportError as error:
        tell("error", f"{sys.executable} has no package ray ({error}); pip install ray, or name another Python: --ray-python")
        return 3
    run = json.loads(sys.stdin.readline())
    try:
        cluster = run["cluster"] or os.environ.get("RAY_ADDRESS") or "auto"
        ray.init(address=cluster, log_to_driver=False, logging_level="warning", namespace=run["name"])
    except Exception as error:  # no cluster, another version, no token
        tell("error", "no Ray cluster: " + " ".join(str(error).split()))
        return 4
    # max_task_retries: a call that meets an actor being restarted is made again.
    actor_class = ray.remote(num_cpus=run["cpus"], num_gpus=run["gpus"], memory=run["memory"], max_restarts=-1,
                             max_task_retries=-1)(Worker)
    actors = [actor_class.remote(run["command"], run["environment"], run["token"], run["directory"])
              for _ in range(run["workers"])]
    is_over = threading.Event()
    threads = [threading.Thread(target=watch, args=(ray, i, actor, run["restarts"], is_over), daemon=True)
               for i, actor in enumerate(actors)]
    for thread in threads:
        thread.start()
    sys.stdin.read()  # until the program closes it, or ends
    is_over.set()
    ray.wait([actor.stop.remote() for actor in actors], num_returns=len(actors), timeout=8)
    for actor in actors:
        ray.kill(actor, no_restart=True)
    ray.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
