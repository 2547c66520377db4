"""What a question costs the process that serves pages, for every page over many links, in this process:

python -m tests.load.asks [--seed 0] [--count 2000] [--over 50]
"""

import argparse
import sys
import time
import traceback
from collections import defaultdict

import psutil

from app.stories import STORIES
from app.web import asking, keys
from kernels.run import workers
from kernels.run.backends import Survey
from tests.load.figures import percentiles
from tests.load.links import Link, allowed, hostile


def cost(link: Link, survey: Survey) -> tuple[float, str]:
    """Seconds of this thread for an answer, and its error, if any."""
    query = dict(link.query)
    params = {name: text for name, text in query.items() if not name.startswith("_")}
    change = (query["_set"], query.get("_to", "")) if "_set" in query else None
    begin = time.thread_time()
    made = asking.ask(STORIES[link.story], params, survey, change, "_carried" in query)
    if made.subject is not None:
        keys.key_of(link.story, query.get("_part", ""), made.subject, "device")
    return time.thread_time() - begin, made.error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--over", type=float, default=50.0, help="milliseconds")
    args = parser.parse_args()
    survey, process = workers.survey(), psutil.Process()
    for path in STORIES:
        cost(Link(path, ()), survey)
    before = process.memory_info().rss
    for maker in (hostile, allowed):
        found, slow, faults = defaultdict(list), [], 0
        for link in maker(args.seed, args.count):
            try:
                seconds, _ = cost(link, survey)
            except Exception:
                faults += 1
                print(f"FAULT {link}", *traceback.format_exc().splitlines()[-3:], sep="\n  ")
                continue
            found[link.story].append(seconds)
            if seconds * 1000 > args.over:
                slow.append((seconds, link))
        print(f"{maker.__name__}: {faults} faults, {len(slow)} over {args.over:g} ms")
        for path, seconds in found.items():
            print(f"  {path:20s} {percentiles(seconds)}")
        for seconds, link in sorted(slow, key=lambda one: -one[0])[:25]:
            print(f"  {seconds * 1000:7.0f} ms  {str(link)[:300]}")
        print(f"  memory: {(process.memory_info().rss - before) / 2**20:,.0f} MB more than before")
    workers.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
