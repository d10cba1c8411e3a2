"""Netlink sockets in a namespace of a test's own: every refusal counts, and nobody stays in the wrong place."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from chaosflow.faults._net.abilities import abilities
from chaosflow.linux import cbpf, nft, tc
from chaosflow.linux.netlink import NETFILTER, ROUTE, Message, Netlink, NetlinkError
from chaosflow.linux.netns import call_inside, new_network_namespace

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes a network namespace"),
]
NOWHERE = 4_000_000


@pytest.fixture
def fd() -> Iterator[int]:
    made = new_network_namespace()
    assert made is not None
    yield made
    os.close(made)


def _ups(*indices: int) -> list[Message]:
    return [tc.up_message(index) for index in indices]


@pytest.mark.parametrize("at", range(3))
def test_a_refusal_counts_wherever_it_stands(fd: int, at: int) -> None:
    """krkn source: an error only if all failed; Chaos Mesh source: only the last one was looked at."""
    with Netlink(ROUTE, fd) as nl:
        lo = tc.link(nl, "lo")
        assert lo
        messages = _ups(lo.index, lo.index, lo.index)
        messages[at] = tc.up_message(NOWHERE)
        with pytest.raises(NetlinkError) as refused:
            nl.request(*messages)
        assert refused.value.errno == errno.ENODEV
        nl.request(*_ups(lo.index))  # no answer of the refused batch is left on the socket


def test_what_a_message_tolerates_is_no_refusal_and_has_no_answer(fd: int) -> None:
    with Netlink(ROUTE, fd) as nl:
        fine = replace(tc.up_message(NOWHERE), tolerate=(errno.ENODEV,))
        assert nl.request(fine, *_ups(1)) == [[], []]
        with pytest.raises(NetlinkError):
            nl.request(fine, tc.up_message(NOWHERE))
        found = tc.links_named(nl, "no-such-link", "lo")
        assert [link and link.name for link in found] == [None, "lo"]


def test_many_requests_cost_one_acknowledgement(fd: int) -> None:
    """Two thousand in several sends; the refused one among them is told."""
    with Netlink(ROUTE, fd) as nl:
        messages = _ups(*[1] * 2000)
        nl.request(*messages)
        messages[1234] = tc.up_message(NOWHERE)
        with pytest.raises(NetlinkError):
            nl.request(*messages)


def test_a_thread_that_went_into_a_namespace_is_back_afterwards(fd: int) -> None:
    home, there = os.stat("/proc/self/ns/net").st_ino, os.fstat(fd).st_ino
    seen: list[int] = []

    def where() -> int:
        return os.stat("/proc/thread-self/ns/net").st_ino

    def fails() -> None:
        seen.append(where())
        raise ValueError("in there")

    def work() -> None:
        seen.append(call_inside(fd, where))
        seen.append(where())
        with pytest.raises(ValueError, match="in there"):
            call_inside(fd, fails)
        seen.append(where())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [there, home, there, home]
    assert call_inside(fd, where) == there  # from the main thread, which stays where it is
    assert where() == home


@pytest.mark.slow
def test_an_answer_that_never_comes_is_an_error_with_words(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaosflow.linux.netlink._TIMEOUT_S", 1)
    with Netlink(ROUTE, fd) as nl, pytest.raises(TimeoutError, match="within 1 s"):
        list(nl._receive())  # nothing was asked


def test_a_batch_is_refused_as_a_whole_and_leaves_no_answer_behind(fd: int) -> None:
    if not abilities().nft_reject:
        pytest.skip("this kernel does not have nf_tables with the inet family")
    chains, match = [nft.Chain("input", nft.LOCAL_IN)], cbpf.Match(cbpf.Endpoint((), (7,)))
    good = nft.rules_for(nft.INET, "input", match, nft.drop())
    lost = nft.rules_for(nft.INET, "no-such-chain", match, nft.drop())
    with Netlink(NETFILTER, fd) as nl:
        for rules in (lost + good, good + lost):  # refused in the middle, and at the end
            with pytest.raises(NetlinkError) as refused:
                nft.create(nl, nft.INET, "some", chains, rules)
            assert refused.value.errno == errno.ENOENT
            assert nft.counted(nl, nft.INET, "some") is None
        nft.create(nl, nft.INET, "some", chains, good)
        with pytest.raises(NetlinkError) as refused:
            nft.create(nl, nft.INET, "some", chains, good)
        assert refused.value.errno == errno.EEXIST
        assert nft.counted(nl, nft.INET, "some") == (0, len(good))
        nft.delete(nl, nft.INET, "some")
        nft.delete(nl, nft.INET, "some")
        assert nft.counted(nl, nft.INET, "some") is None
