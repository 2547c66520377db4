"""The table of access kinds, and that the device headers know the same kinds."""

import re

from kernels.catalog import DEVICE, KERNELS
from kernels.core.request import Request
from kernels.trace import kinds
from kernels.trace.probes import sites_of

PROBE, COMMON, HOPPER = ((DEVICE / name).read_text() for name in ("probe.cuh", "common.cuh", "hopper.cuh"))


def test_the_tables_macros_are_those_of_the_header_its_comment_and_every_kernel():
    unprobed, probed = PROBE.split("#ifndef PROBED")[1].split("#else\n\n")
    probed_of_hopper, unprobed_of_hopper = HOPPER.split("#ifdef PROBED")[1].split("#endif")[0].split("#else")
    off = set(re.findall(r"#define (PROBE_\w+)\(\.\.\.\) \(\(void\)0\)", unprobed + unprobed_of_hopper))
    assert off - {"PROBE_MARK", "PROBE_VALUE", "PROBE_ROLE"} == set(kinds.MACROS)
    calls = r"#define (PROBE_\w+)\(\.\.\.\) probe_writer\.access\(PROBE_HERE, (?:AccessKind::)?(\w+),"
    on = dict(re.findall(calls, probed + probed_of_hopper))
    assert {macro: event.lower() for macro, event in on.items()} == kinds.MACROS
    said = PROBE.split("#pragma once")[0]
    assert set(re.findall(r"#define (PROBE_[A-Z_0-9]+)", PROBE)) - {"PROBE_HERE"} == set(
        re.findall(r"^//   (PROBE_[A-Z_0-9]+)", said, re.M)
    )
    for spec in KERNELS.values():
        for site in sites_of(Request(spec, spec.problem_type())):
            assert site.kind != "access" or kinds.kind_of(site.event, site.space)


def test_the_shim_compares_the_same_events_and_a_kind_is_known_by_name_and_by_event_and_space():
    listed = re.search(r"enum class AccessKind \{ (.*) \};", COMMON)[1].lower().split(", ")
    more = {int(number): name.lower() for name, number in re.findall(r"\b([A-Z_]+) = AccessKind\((\d+)\)", HOPPER)}
    assert (*listed, *(more[number] for number in range(len(listed), len(listed) + len(more)))) == kinds.EVENTS
    named = re.search(r"KIND_NAMES\[\] = \{(.*)\};", (DEVICE / "simt" / "simt.h").read_text())[1]
    assert tuple(re.findall(r'"(\w+)"', named)) == kinds.EVENTS
    assert len({kind.name for kind in kinds.KINDS}) == len(kinds.KINDS)
    assert all(kinds.kind_of(kind.event, kind.space) is kind for kind in kinds.KINDS)
    assert kinds.READS == ("load", "ldmatrix", "tma", "product")
    assert kinds.WRITES == ("store", "cp_async", "cp_async_l2", "tma_smem", "atomic")
    assert {kind.direction for kind in kinds.KINDS if kind.event in kinds.READS} == {"read"}
