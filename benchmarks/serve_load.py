"""Requests a second and their times, of clients that change a plan by small steps.

    python -m benchmarks.serve_load [--clients 20] [--seconds 20] [--rate 200] [--new 0.1]

Clients ask at an even pace that makes the rate together, each on a connection of its own; printed
are the rate that was answered, errors, and the times of answers, from when each was due.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time

from fuzz.served import serving
from planner.base import resources
from planner.documents.source import preset_names

#: What is changed, and to what.
CHANGES = {
    "training.micro_batch": ("1", "2", "4"),
    "training.recompute": ("none", "selective", "full"),
    "training.sequence_length": ("2048", "4096", "8192"),
    "parallelism.zero": ("0", "1", "2", "3"),
}


async def client(number: int, port: int, how: argparse.Namespace, until: float) -> list[float]:
    """Times of answers, -1 for an error; that a layout cannot be is an answer."""
    path, pace = how.path, how.clients / how.rate
    chance, times = random.Random(number), list[float]()
    names = preset_names("plan")
    texts = [
        resources.load_own_text(resources.folder("presets") / f"{name}.yaml") for name in names
    ]
    text, plan = texts[number % len(texts)], names[number % len(names)]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    due = time.perf_counter() + pace * chance.random()
    while due < until:
        await asyncio.sleep(max(0, due - time.perf_counter()))
        key = chance.choice(sorted(CHANGES))
        change = {key: chance.choice(CHANGES[key])}
        if chance.random() < how.new:
            change = {"training.tokens": str(chance.randrange(10**10, 10**13))}
        body = {"text": text, "set": change}
        if path.startswith("/v1"):
            body = {"plan": plan, "set": change, "quantities": ["time.training_days"]}
        raw = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(raw)}\r\n\r\n"
        )
        writer.write(head.encode() + raw)
        said = await reader.readuntil(b"\r\n\r\n")
        length = int(said.lower().partition(b"content-length:")[2].partition(b"\r")[0])
        await reader.readexactly(length)
        good = said.split(None, 2)[1] in (b"200", b"422")
        times.append(time.perf_counter() - due if good else -1)
        due += pace
    writer.close()
    return times


async def load(port: int, how: argparse.Namespace) -> list[float]:
    """Times of all clients."""
    until = time.perf_counter() + how.seconds
    each = (client(n, port, how, until) for n in range(how.clients))
    return [one for times in await asyncio.gather(*each) for one in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--new", type=float, default=0.1, help="share of changes never seen before")
    parser.add_argument("--path", default="/page/change")
    options = parser.parse_args()
    with serving() as server:
        first = {"clients": 4, "rate": 20, "seconds": 5, "new": 0}
        asyncio.run(load(server.port, argparse.Namespace(**{**vars(options), **first})))
        begun = time.perf_counter()
        times = asyncio.run(load(server.port, options))
        took = time.perf_counter() - begun
    good = sorted(one for one in times if one >= 0)
    at = {share: 1000 * good[int(share * (len(good) - 1) / 100)] for share in (50, 95, 99)}
    print(f"{len(good) / took:.0f} answers a second, {len(times) - len(good)} errors; "
          + ", ".join(f"{share} %: {value:.0f} ms" for share, value in at.items()))  # fmt: skip


if __name__ == "__main__":
    main()
