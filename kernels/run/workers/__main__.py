"""Workers on several hosts, for WARPGLASS_WORKERS=dask://HOST:PORT:

python -m kernels.run.workers schedule [--host HOST] [--port 8786]
python -m kernels.run.workers work HOST:PORT [--host HOST] [--cpu 2] [--no-gpu]
"""

import argparse
import asyncio
import sys

LOCAL = "127.0.0.1"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m kernels.run.workers", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(dest="command", required=True)
    schedule = commands.add_parser("schedule", help="the scheduler that the server and the workers' hosts connect to")
    schedule.add_argument("--port", type=int, default=8786)
    work = commands.add_parser("work", help="this host's workers: one for each GPU, and some of the CPU")
    work.add_argument("scheduler", help="HOST:PORT of the scheduler")
    work.add_argument("--cpu", type=int, default=2, help="workers of the CPU (2)")
    work.add_argument("--no-gpu", action="store_true", help="none of the GPUs")
    for command in (schedule, work):
        command.add_argument("--host", default=LOCAL, help=f"address to listen at ({LOCAL}: only this host)")
    args = parser.parse_args()
    try:
        from kernels.run.workers import agent
    except ImportError as missing:
        print(f"{missing}. Run: pip install -r app/requirements.txt", file=sys.stderr)
        return 1
    try:
        if args.command == "schedule":
            asyncio.run(agent.schedule(args.host, args.port))
        else:
            asyncio.run(agent.work(args.scheduler, args.host, args.cpu, not args.no_gpu))
    except (OSError, TimeoutError) as error:
        print(f"{args.command} could not start: {error}. See whether the address is right.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
