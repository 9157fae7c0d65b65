#!/usr/bin/env python3
"""An agent's loop that may be killed at any moment.

    python3 loop.py JOB

It asks a model what to do, does it, and saves after every step. The same JOB is
the same run: start it again after a crash and it goes on where it stopped.

    SHOP_URL     where prices are posted to
    ON_DOUBT     ask (the default), or retry when the shop honours Idempotency-Key
    LEASE        seconds that one action may take (30)
"""
import json
import os
import sys
import urllib.error
import urllib.request

from holdfast import Holdfast, InDoubt, NotHappened, Stale

SHOP_URL = os.environ.get("SHOP_URL", "http://127.0.0.1:8080")
PRODUCTS = ["lamp", "chair", "desk"]


def model(messages):
    """Stands for a model: the next call of a tool, or the final answer."""
    done = [m for m in messages if m["role"] == "tool"]
    if len(done) < len(PRODUCTS):
        return {"tool": "post_price", "args": {"product": PRODUCTS[len(done)], "cents": 1990 + len(done)}}
    return {"answer": "posted " + ", ".join(m["content"]["id"] for m in done)}


def post_price(args, key):
    """The side effect: tell the shop a price."""
    body = json.dumps(args).encode()
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    try:
        with urllib.request.urlopen(urllib.request.Request(SHOP_URL + "/prices", body, headers), timeout=20) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code in (400, 403, 404, 422):  # the shop has refused: nothing happened
            raise NotHappened(f"the shop says {error.code}") from None
        raise


TOOLS = {"post_price": post_price}


def main(job):
    run = Holdfast().start("price-loop", {"job": job}, key=f"price-loop/{job}")
    status, state = run.load()
    if status != "running":
        print(f"run {run.id} is {status}")
        return
    if state is None:
        state = {"step": 0, "messages": [{"role": "user", "content": f"post the prices of {job}"}]}
        run.save(state)
    while True:
        last = state["messages"][-1]
        if last["role"] != "assistant":
            state["messages"].append({"role": "assistant", "content": model(state["messages"])})
            state["step"] += 1
            run.save(state)  # what the model said is not asked again
            continue
        said = last["content"]
        if "answer" in said:
            run.complete(said["answer"])
            print(f"run {run.id}: {said['answer']}")
            return
        result = run.once(
            f"{state['step']}/{said['tool']}", lambda key: TOOLS[said["tool"]](said["args"], key),
            args=said["args"], tool=said["tool"],
            on_doubt=os.environ.get("ON_DOUBT", "ask"), lease=int(os.environ.get("LEASE", "30")))
        state["messages"].append({"role": "tool", "content": result})
        run.save(state)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        main(sys.argv[1])
    except InDoubt as doubt:
        print(doubt, file=sys.stderr)
        sys.exit(3)  # start it again when somebody has said what happened
    except Stale as late:
        print(late, file=sys.stderr)
        sys.exit(4)  # another process runs the same job
