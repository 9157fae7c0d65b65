"""The few calls of Holdfast that a loop needs, in the standard library.

A run's state lives in Holdfast, and so does the record of what was done to the
outside world, so the program may die at any moment and come back.
"""
import json
import os
import time
import urllib.error
import urllib.request
import uuid


class Refused(Exception):
    """The server said no; a repeat will not help."""

    def __init__(self, status, problem):
        super().__init__(problem.get("detail") or f"{status} {problem.get('code')}")
        self.status, self.code = status, problem.get("code")


class Stale(Refused):
    """Another process has saved this run since it was loaded, or ended it."""


class InDoubt(Exception):
    """It may have happened. Nobody acts under the key until that is settled."""


class NotHappened(Exception):
    """Raise it in an action that surely did not happen: its key is free again."""


class Holdfast:
    def __init__(self, server=None, token=None):
        self.server = (server or os.environ.get("HOLDFAST_SERVER", "http://127.0.0.1:8787")).rstrip("/")
        self.token = token or os.environ.get("HOLDFAST_TOKEN")

    def call(self, method, path, body=None, patience=60, **headers):
        """Send one request that is safe to repeat, until it is answered."""
        data = None if body is None else json.dumps(body).encode()
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        headers["Content-Type"] = "application/json"
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        end, wait = time.monotonic() + patience, 0.1
        while True:
            request = urllib.request.Request(self.server + path, data, headers, method=method)
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    # Integers keep every digit; json makes floats of fractions,
                    # so money is cents here.
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                problem = problem_of(error)
                if error.code not in (429, 502, 503, 504):
                    late = error.code == 412 or problem.get("code") == "run_ended"
                raise (Stale if late else Refused)(error.code, problem) from None
                last = Refused(error.code, problem)
            except (urllib.error.URLError, OSError, ValueError) as error:
                last = error  # no answer, or half of one
            if time.monotonic() + wait > end:
                raise last
            time.sleep(wait)
            wait = min(wait * 2, 5)

    def start(self, name, input, key):
        """Start a run, or find the one that the same key has started."""
        started = self.call("POST", "/v1/runs", {"name": name, "input": input}, Idempotency_Key=key)
        return Run(self, started["run_id"])

    def once(self, key, action, args=None, tool="act", on_doubt="ask", lease=30, run_id=None):
        """Run action(key) at most once per key and return its result.

        The action must end within the lease: this small version does not renew
        it. An action that raises NotHappened frees the key; any other error means
        that nobody knows, and on_doubt follows once the lease is over:
        "ask" a person, "retry" where the other side honours the key, or "fail".
        """
        begin = {"key": key, "tool": tool, "args": args, "on_doubt": on_doubt, "lease_seconds": lease,
                 "holder": str(uuid.uuid4())}  # of this attempt: a program that was killed is another holder
        if run_id:
            begin["run_id"] = run_id
        while True:
            answer = self.call("POST", "/v1/effects", begin)
            if answer["status"] == "done":
                return answer.get("result")
            if answer["status"] == "unknown":
                raise InDoubt(answer["advice"])
            if answer["status"] == "proceed":
                break
            time.sleep(min(answer["retry_after"], 1))  # busy, or held by a stop
        effect = "/v1/effects/" + answer["effect_id"]
        try:
            result = action(key)
        except NotHappened as error:
            self.call("PUT", effect, {"fence": answer["fence"], "status": "failed",
                                      "error": {"code": "not_happened", "message": str(error)[:1000]}})
            raise
        self.call("PUT", effect, {"fence": answer["fence"], "status": "succeeded", "result": result})
        return result


class Run:
    """One run of a program of yours."""

    def __init__(self, holdfast, run_id):
        self.holdfast, self.id, self.version = holdfast, run_id, 0
        self.path = "/v1/runs/" + run_id

    def load(self):
        """Return (status, state); the state is None before the first save."""
        saved = self.holdfast.call("GET", self.path + "/checkpoint")
        self.version = saved["version"]
        return saved["status"], saved.get("state")

    def save(self, state):
        """Save the state over the version that was loaded. Raises Stale."""
        saved = self.holdfast.call("PUT", self.path + "/checkpoint", {"state": state},
                                   If_Match=f'"{self.version}"', Idempotency_Key=str(uuid.uuid4()))
        self.version = saved["version"]

    def once(self, key, action, **more):
        """Holdfast.once with a key of this run's own."""
        return self.holdfast.once(f"{self.id}/{key}", action, run_id=self.id, **more)

    def complete(self, output):
        self.holdfast.call("POST", self.path + "/complete", {"status": "completed", "output": output})


def problem_of(error):
    try:
        return json.load(error)
    except ValueError:
        return {"code": f"http_{error.code}"}
