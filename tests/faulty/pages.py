"""The memory of a process, from outside."""

from pathlib import Path


def holds(pid, word):
    """Whether a readable page of the process holds the bytes."""
    with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            first, end = (int(number, 16) for number in line.split()[0].split("-"))
            if line.split()[1][0] != "r" or line.endswith(("[vvar]", "[vvar_vclock]", "[vsyscall]")):
                continue
            memory.seek(first)
            rest = b""
            for at in range(first, end, 2**24):
                try:
                    data = rest + memory.read(min(2**24, end - at))
                except OSError:  # a page beyond the end of its file
                    break
                if word in data:
                    return True
                rest = data[-len(word) :]
    return False
