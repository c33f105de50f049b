"""Token buckets, and who is asking."""

import gc
from collections.abc import Callable
from types import FunctionType

import pytest

from sudare.collector import _limits as limits
from sudare.collector._limits import Bucket, Clients, Limiter
from sudare.foundations.checks import InvalidInput


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_grants_its_burst_and_then_its_rate() -> None:
    bucket = Bucket(2.0, 3)
    assert [bucket.take(0.0) for _ in range(4)] == [0, 0, 0, 0.5]
    assert bucket.take(0.49) > 0
    assert bucket.take(0.51) == 0
    granted = sum(bucket.take(1 + n / 100) == 0 for n in range(1000))
    assert 20 <= granted <= 22
    assert not bucket.full(11.0)
    assert bucket.full(13.0)


def test_no_rate_is_no_limit() -> None:
    bucket = Bucket(0.0, 1)
    assert not any(bucket.take(0.0) for _ in range(100))


def test_a_clock_that_goes_backwards_grants_nothing_extra() -> None:
    bucket = Bucket(1.0, 1)
    assert bucket.take(50.0) == 0
    assert bucket.take(10.0) > 0
    assert bucket.take(10.5) > 0


def test_clients_do_not_wait_for_each_other() -> None:
    clock = Clock()
    limiter = Limiter((1.0, 2), (0.0, 1), clock)
    assert [limiter.take(b"a") for _ in range(3)] == [0, 0, 1.0]
    assert limiter.take(b"b") == 0
    clock.now += 1
    assert limiter.take(b"a") == 0


def test_all_together_have_a_limit() -> None:
    clock = Clock()
    limiter = Limiter((10.0, 10), (1.0, 2), clock)
    granted = [limiter.take(bytes([n])) == 0 for n in range(5)]
    assert granted == [True, True, False, False, False]


def test_clients_are_forgotten() -> None:
    clock = Clock()
    limiter = Limiter((1.0, 2), (0.0, 1), clock)
    for n in range(50):
        limiter.take(bytes([n]))
    assert len(limiter) == 50
    clock.now += 61
    limiter.take(b"x")
    assert len(limiter) == 1


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_MOST_CLIENTS", 100)
    limiter = Limiter((0.001, 2), (0.0, 1), Clock())
    for n in range(1000):
        limiter.take(n.to_bytes(2))
    assert len(limiter) <= 100


def test_the_connection_tells_who_it_is() -> None:
    clients = Clients()
    one = clients.of("198.51.100.1")
    assert one == clients.of("198.51.100.1", b"203.0.113.5")
    assert one != clients.of("198.51.100.2")
    assert one == clients.of("::ffff:198.51.100.1")


def test_one_client_has_a_whole_ipv6_network() -> None:
    clients = Clients()
    assert clients.of("2001:db8:0:1::1") == clients.of("2001:db8:0:1:ffff::2")
    assert clients.of("2001:db8:0:1::1") != clients.of("2001:db8:0:2::1")


def test_proxies_tell_who_is_behind_them() -> None:
    clients = Clients(["10.0.0.0/8", "2001:db8::1"])
    known = clients.of("198.51.100.1")
    assert known == clients.of("10.1.2.3", b"198.51.100.1")
    assert known == clients.of("2001:db8::1", b"198.51.100.1")
    assert known == clients.of("10.1.2.3", b"203.0.113.9, 198.51.100.1 , 10.9.9.9")
    assert known != clients.of("10.1.2.3", b"198.51.100.1, 203.0.113.9")
    assert known != clients.of("192.0.2.1", b"198.51.100.1")
    for strange in (b"", b",,,", b"\xff\xfe", b"unknown", b"x" * 9000, b"1.2.3.4:80"):
        assert len(clients.of("10.1.2.3", strange)) == 8


def test_what_a_client_adds_itself_is_not_believed() -> None:
    """Some proxies add a line of their own below the client's, and some name the port."""
    clients = Clients(["10.0.0.1"])
    known = clients.of("198.51.100.1")
    assert known == clients.of("10.0.0.1", b"203.0.113.9", b"198.51.100.1")
    assert known == clients.of("10.0.0.1", b"198.51.100.1:4711")
    assert known == clients.of("10.0.0.1", b"[::ffff:198.51.100.1]:80")
    assert clients.of("2001:db8::1") == clients.of("10.0.0.1", b"2001:db8::1")


def test_many_clients_are_not_looked_through_for_every_newcomer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "_MOST_CLIENTS", 100)
    clock = Clock()
    limiter = Limiter((1.0, 98), (0.0, 1), clock)
    sweeps = 0

    def counted(now: float, sweep: Callable[[float], None] = limiter._sweep) -> None:
        nonlocal sweeps
        sweeps += 1
        sweep(now)

    monkeypatch.setattr(limiter, "_sweep", counted)
    for n in range(1000):  # always one that is full again, and nearly all that are not
        clock.now += 0.01
        limiter.take(n.to_bytes(2))
    assert 1 <= sweeps <= 20


def strings_of(owner: object) -> set[str]:
    """All strings that it leads to in a few steps."""
    reached = [owner]
    found: set[str] = set()
    for _ in range(5):
        reached = [o for o in gc.get_referents(*reached) if not isinstance(o, type | FunctionType)]
        found |= {o for o in reached if isinstance(o, str)}
    return found


def test_addresses_are_kept_nowhere() -> None:
    clients = Clients(["10.0.0.0/8"])
    limiter = Limiter((1.0, 2), (0.0, 1))
    address = "198.51.100." + str(int("177"))  # no constant of this module
    limiter.take(clients.of(address))
    limiter.take(clients.of("10.0.0.1", address.encode()))
    held = [o for o in gc.get_referrers(address) if isinstance(o, dict | list | tuple | set)]
    assert not [o for o in held if o is not locals() and "address" not in o]
    assert all(address.encode() not in key for key in limiter._buckets)
    assert address not in strings_of(clients) | strings_of(limiter)
    # Another process hashes by another key.
    assert clients.of(address) != Clients().of(address)


@pytest.mark.parametrize("text", ["x", "10.0.0.0/33", "", "localhost"])
def test_proxies_are_addresses(text: str) -> None:
    with pytest.raises(InvalidInput, match="Expected proxies"):
        Clients([text])


def test_collectors_share_what_is_meant_for_one() -> None:
    """Four that share a database grant together what one would."""
    now = 0.0
    limiters = [Limiter((2.0, 20), (40.0, 100), lambda: now) for _ in range(4)]
    for each in limiters:
        each.share(4)

    def granted(client: bytes, tries: int = 50) -> int:
        return sum(each.take(client) == 0.0 for each in limiters for _ in range(tries))

    assert granted(b"one") == 20
    now = 10.0
    assert granted(b"one") == 20
    now = 12.0
    assert granted(b"one") == 4
    now = 1000.0
    for each in limiters:
        each.share(1)
    assert sum(limiters[0].take(b"one") == 0.0 for _ in range(50)) == 20


def test_looking_takes_nothing() -> None:
    now = 0.0
    limiter = Limiter((1.0, 2), (0.0, 1.0), lambda: now)
    assert [limiter.wait(b"a") for _ in range(9)] == [0.0] * 9
    assert [limiter.take(b"a") for _ in range(2)] == [0.0] * 2
    assert limiter.wait(b"a") == 1.0
    limiter.give_back(b"a")
    assert limiter.wait(b"a") == 0.0
    assert limiter.wait(b"other") == 0.0
