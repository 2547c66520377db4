"""Coroutines in tests: a browser test may have left a running loop in this thread, which asyncio.run refuses."""

import asyncio
from concurrent.futures import ThreadPoolExecutor


def run(coroutine):
    """asyncio.run in a thread of its own."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()
