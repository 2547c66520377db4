"""Instructions of memory: loads, stores, atomics, fences, asynchronous copies, and barriers in shared memory."""

import re
from collections.abc import Callable

from kernels.build.plain.ptx import Instruction, Untaken, bits, typed

_SPACES = {"global": False, "shared": True, "shared::cta": True, "shared::cluster": True}
_SCOPES = ("cta", "cluster", "gpu", "sys")
_SKIPPED = {"weak", "nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", *_SCOPES}


def _shared(one: Instruction) -> bool:
    return any(_SPACES.get(part, False) for part in one.parts)


def _order(one: Instruction) -> int:
    """0: a plain access. 1: volatile. 2: a strong one, which no other strong one races with."""
    if {"relaxed", "acquire", "release"} & set(one.parts):
        return 2
    return int("volatile" in one.parts)


def _access(one: Instruction, *more: str) -> tuple[str, int]:
    """The C++ type of the elements, and their number. Raises Untaken for another word."""
    *words, of = one.parts[1:]
    count = next((int(word[1:]) for word in words if re.fullmatch(r"v[248]", word)), 1)
    for word in words:
        if word not in {*_SPACES, *_SKIPPED, *more, "volatile", f"v{count}"}:
            raise Untaken(one.name[:80])
    if bits(of) * count > 256:
        raise Untaken(one.name[:80])
    return typed(of), count


def _load(one: Instruction) -> str:
    cpp, count = _access(one, "relaxed", "acquire")
    targets, values = one.listed(0), one.array(count)
    if len(targets) != count or len(one.operands) > 3:  # the third is a hint for the cache
        raise Untaken(one.name)
    at = one.address(1, _shared(one))
    rows = [f"unsigned long long {values}[{count}]; simt_ptx_load<{cpp}, {count}, {_order(one)}>({values}, {at});"]
    return " ".join([*rows, *(f"{one.written(text)} = {values}[{n}];" for n, text in enumerate(targets))])


def _store(one: Instruction) -> str:
    cpp, count = _access(one, "relaxed", "release")
    sources, values = one.listed(1), one.array(count)
    if len(sources) != count or len(one.operands) > 3:
        raise Untaken(one.name)
    fence = "simt_ptx_fence(); " if "release" in one.parts and "cta" not in one.parts else ""
    read = ", ".join(one.read(text, "" if bits(one.parts[-1]) < 32 else one.parts[-1]) for text in sources)
    at = one.address(0, _shared(one))
    given = f"const unsigned long long {values}[] = {{{read}}};"
    return f"{fence}{given} simt_ptx_store<{cpp}, {count}, {_order(one)}>({at}, {values});"


_ATOMICS = ("add", "min", "max", "and", "or", "xor", "exch", "inc", "dec", "cas")


def _atomic(one: Instruction) -> str:
    first, *words, of = one.parts
    words = [
        word for word in words if word not in (*_SPACES, *_SCOPES, "relaxed", "acquire", "release", "acq_rel", "noftz")
    ]
    count = next((int(word[1:]) for word in words if re.fullmatch(r"v[248]", word)), 1)
    (how,) = [word for word in words if word != f"v{count}"]
    if how not in _ATOMICS or first == "red" and how in ("exch", "cas"):
        raise Untaken(one.name)
    read = 1 if first == "atom" else 0
    at = one.address(read, _shared(one))
    fence = "simt_ptx_fence(); " if {"release", "acq_rel"} & set(one.parts) and "cta" not in one.parts else ""
    if how == "cas":
        return f"{fence}{one.target(0, of)} = simt_ptx_cas<{typed(of)}>({at}, {one.value(2, of)}, {one.value(3, of)});"
    sources = one.listed(read + 1)
    targets = one.listed(0) if read else ["_"] * count
    if not len(sources) == len(targets) == count or len(one.operands) > read + 3:
        raise Untaken(one.name)
    step = bits(of) // 8
    return fence + " ".join(
        f"{one.written(to, of)} = simt_ptx_atom_{how}<{typed(of)}>({at} + {n * step}, {one.read(text, of)});"
        for n, (to, text) in enumerate(zip(targets, sources))
    )


def _fence(one: Instruction) -> str:
    if set(one.parts[1:]) & {"gl", "gpu", "sys", "cluster"} and not set(one.parts) & {"proxy", "mbarrier_init"}:
        return "simt_ptx_fence();"
    if one.parts[0] == "membar" and one.parts[1] not in ("cta", "proxy"):
        raise Untaken(one.name)
    return ""


def _to_shared(one: Instruction) -> str:
    """Addresses of global memory are generic ones here. An address of shared memory is its offset."""
    to, *_ = [part for part in one.parts[1:] if part != "to"]
    if to == "global":
        return f"{one.target(0)} = {one.value(1)};"
    if not _SPACES.get(to):
        raise Untaken(one.name)
    return f"{one.target(0)} = simt_ptx_{'to_shared' if 'to' in one.parts else 'shared'}({one.value(1)});"


def _nothing(one: Instruction) -> str:
    return ""


def _policy(one: Instruction) -> str:
    return f"{one.target(0)} = 0;"


# ---- asynchronous copies ----


def _copy(one: Instruction) -> str:
    words = one.parts
    if words[:2] != ["cp", "async"]:
        raise Untaken(one.name)
    if words[2] == "bulk":
        return _bulk(one)
    if words[2] == "commit_group":
        return "simt_ptx_commit();"
    if words[2] == "wait_all":
        return "simt_ptx_wait_all();"
    if words[2] == "wait_group":
        return f"simt_ptx_wait_group({one.value(0)});"
    if words[2] == "mbarrier":
        noinc = words[4:5] == ["noinc"]
        return f"simt_ptx_copies_arrive({one.address(0, True)}, {int(noinc)});"
    if words[2] not in ("ca", "cg") or words[3] not in ("shared", "shared::cta") or words[4] != "global":
        raise Untaken(one.name)
    size = one.value(2)
    taken = [*one.operands, ""][3]
    given = one.value(3) if taken and "cache_hint" not in one.name else size
    if taken and one.registers[taken].kind == "pred" if taken in one.registers else False:
        given = f"({one.value(3)} ? 0 : {size})"  # a true predicate ignores the source
    return (
        f"simt_ptx_cp_async({one.address(0, True)}, {one.address(1, False)}, {size}, {given}, {int(words[2] == 'cg')});"
    )


def _bulk(one: Instruction) -> str:
    words = one.parts[3:]
    if words == ["commit_group"]:
        return "simt_ptx_bulk_commit();"
    if words[:1] in (["wait_group"], ["wait_all"]):
        return f"simt_ptx_bulk_wait({one.value(0) if one.operands else 0});"
    if words[:1] == ["prefetch"]:
        return ""
    if "multicast::cluster" in words:
        raise Untaken(one.name[:80])
    if words[:1] == ["tensor"]:
        return _tensor(one, words)
    to_shared = words[0] in ("shared::cluster", "shared::cta") and words[1] == "global"
    if to_shared and "mbarrier::complete_tx::bytes" in words:
        return (
            f"simt_ptx_bulk_load({one.address(0, True)}, {one.address(1, False)}, {one.value(2)}, "
            f"{one.address(3, True)});"
        )
    if words[0] == "global" and words[1] in ("shared::cta", "shared") and "bulk_group" in words:
        return f"simt_ptx_bulk_store({one.address(0, False)}, {one.address(1, True)}, {one.value(2)});"
    raise Untaken(one.name[:80])


def _box(one: Instruction, number: int, dimensions: int) -> tuple[str, list[str]]:
    """The tensor map and the coordinates of [map, {c0, c1}]."""
    found = re.fullmatch(r"\[\s*(\S+?)\s*,\s*\{([^}]*)\}\s*\]", one.operands[number])
    if not found:
        raise Untaken(one.name[:80])
    coordinates = [one.read(text.strip()) for text in found[2].split(",")]
    if len(coordinates) != dimensions:
        raise Untaken(one.name[:80])
    return one.read(found[1], "b64"), coordinates


def _tensor(one: Instruction, words: list[str]) -> str:
    dimensions = int(words[1].rstrip("d"))
    rest = [word for word in words[2:] if word != "tile"]
    loads = rest[0] in ("shared::cluster", "shared::cta") and rest[1] == "global"
    if set(rest[2:]) - {"mbarrier::complete_tx::bytes", "bulk_group"} or not (loads or rest[0] == "global"):
        raise Untaken(one.name[:80])
    tensor, coordinates = _box(one, 1 if loads else 0, dimensions)
    name = one.array(dimensions)
    given = f"const unsigned long long {name}[] = {{{', '.join(coordinates)}}};"
    if loads:
        at = f"{one.address(0, True)}, {tensor}, {name}, {dimensions}, {one.address(2, True)}"
        return f"{given} simt_ptx_box_load({at});"
    return f"{given} simt_ptx_box_store({tensor}, {name}, {dimensions}, {one.address(1, True)});"


# ---- barriers in shared memory ----


def _mbarrier(one: Instruction) -> str:
    words = one.parts[1:]
    if words[0] in ("init", "inval"):
        more = f", {one.value(1)}" if words[0] == "init" else ""
        return f"simt_ptx_mbarrier_{words[0]}({one.address(0, True)}{more});"
    if words[0] == "expect_tx":
        return f"simt_ptx_mbarrier_expect({one.address(0, True)}, {one.value(1)});"
    if words[0] == "arrive":
        reads = 0 if one.operands[0].startswith("[") else 1
        expects = "expect_tx" in words
        if "noComplete" in words:
            raise Untaken(one.name)
        given = one.value(reads + 1) if len(one.operands) > reads + 1 else ""
        count, more = ("1", given) if expects else (given or "1", "0")
        call = f"simt_ptx_mbarrier_arrive({one.address(reads, True)}, {count}, {more})"
        return f"{one.target(0)} = {call};" if reads else f"{call};"
    if words[0] in ("test_wait", "try_wait"):
        parity = int("parity" in words)
        waits = int(words[0] == "try_wait")
        given = f"{one.address(1, True)}, {one.value(2)}, {parity}, {waits}"
        return f"{one.target(0, 'pred')} = simt_ptx_mbarrier_test({given});"
    raise Untaken(one.name)


RULES: dict[str, Callable[[Instruction], str]] = {
    **{"ld": _load, "ldu": _load, "st": _store, "atom": _atomic, "red": _atomic, "cvta": _to_shared},
    **{"fence": _fence, "membar": _fence, "cp": _copy, "mbarrier": _mbarrier, "createpolicy": _policy},
    **dict.fromkeys(("prefetch", "prefetchu", "applypriority", "discard"), _nothing),
}
