"""One line for each kind of request: what its sender is answered, and which counter moves.

The rows are in `tests/vectors/ingest/requests.txt`. Where a request is refused as a whole, `bad` is `-` and nothing of
it is received; elsewhere `bad` counts the samples refused, `kept` those that the tenant's store gets.
"""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from tests.proxy.client import ask, request
from tests.proxy.core.messages import NOW_MS, blob, block, double, exemplar, label, number, sample, varint
from tests.proxy.receiver import Receiver, listening
from tests.proxy.running import PUSH, Running, check_form, config_of, decoded, running, snappy, tenant

pytestmark = pytest.mark.asyncio(loop_scope="module")

TABLE: Final = Path(__file__).parents[1] / "vectors/ingest/requests.txt"
LIMITS: Final = {"compressed_bytes": 65_536, "decoded_bytes": 131_072}
GOOD: Final = blob(1, block(("__name__", "good"), ("job", "a")) + sample())
METADATA: Final = blob(3, number(1, 2) + blob(2, b"good") + blob(4, b"Help."))
V2: Final = blob(4, b"") + blob(4, b"__name__") + blob(5, blob(1, b"\x01\x02") + sample())
LONG: Final = blob(1, block(("__name__", "long"), ("k", "x" * 140_000)) + sample())


def entry(*parts: bytes) -> bytes:
    """A good series, one of these fields, and another good series."""
    return snappy(GOOD + blob(1, b"".join(parts)) + GOOD.replace(b"good", b"fine"))


def named(*pairs: tuple[str, str]) -> bytes:
    """A series called m with these labels, between good ones."""
    return entry(block(("__name__", "m"), *pairs), sample())


BODIES: Final[Mapping[str, bytes]] = {
    "good": snappy(GOOD),
    "nothing": b"",
    "zero byte": b"\x00",
    "metadata": snappy(METADATA),
    "both": snappy(METADATA + GOOD),
    "hello": b"hello",
    "plain": GOOD,
    "framed": b"\xff\x06\x00\x00sNaPpY\x01\x09\x00\x00" + GOOD,
    "zstd": b"\x28\xb5\x2f\xfd\x04\x00" + GOOD,
    "half": snappy(GOOD[: len(GOOD) // 2]),
    "group": snappy(b"\x0b" + GOOD),
    "number": snappy(number(1, 7) + GOOD),
    "2.0": snappy(V2),
    "behind": snappy(GOOD) + b"\x00",
    "cut": snappy(GOOD)[:-3],
    "4 GiB": varint(2**32 - 1) + b"\x00" * 8,
    "endless size": b"\xff" * 12,
    "declares much": varint(131_073) + b"\x00" * 8,
    "cannot hold": varint(131_072) + b"\x00" * 8,
    "decodes long": snappy(LONG),
    "long": b"\x00" + bytes(range(256)) * 256,
    "source": snappy(number(2, 1) + number(1000, 1) + number(1001, 1) + number(1002, 1) + GOOD),
    "no name": entry(block(("job", "a")), sample()),
    "empty name": entry(block(("__name__", ""), ("job", "a")), sample()),
    "no labels": entry(sample()),
    "same label": named(("k", "x"), ("k", "x")),
    "other label": named(("k", "x"), ("k", "y")),
    "name twice": named(("__name__", "n")),
    "no label name": named(("", "x")),
    "bad value": entry(block(("__name__", "m")), label(b"k", b"\xc3\x28"), sample()),
    "bad label": entry(block(("__name__", "m")), label(b"\xff", b"x"), sample()),
    "controls": named(("k", "x\n\r\x00\x1b[31m\u2028\x85" * 300)),
    "2048": named(("k", "x" * 2048)),
    "2049": named(("k", "x" * 2049)),
    "1024": named(("k" * 1024, "x")),
    "1025": named(("k" * 1025, "x")),
    "ö 2050": named(("k", "ö" * 1025)),
    "unsorted": named(("z", "1"), ("a", "2")),
    "empty value": named(("z", ""), ("a", "2")),
    "dotted": entry(block(("__name__", "m.n"), ("a-b", "x")), sample()),
    "3 samples": entry(block(("__name__", "m")), sample(1.0, NOW_MS), sample(2.0, NOW_MS + 1), sample(3.0, NOW_MS + 2)),
    "3 bad": entry(block(("job", "a")), sample(), sample(1.0, NOW_MS + 1), sample(2.0, NOW_MS + 2)),
    "exemplar": entry(block(("__name__", "m")), exemplar()),
    "no points": entry(block(("__name__", "m"))),
    "histogram": entry(block(("__name__", "m")), blob(4, number(1, 3) + double(3, 2.5) + number(15, NOW_MS))),
    "time 0": entry(block(("__name__", "m")), sample(1.0, 0)),
    "last time": entry(block(("__name__", "m")), sample(1.0, (1 << 63) - 1)),
    "first time": entry(block(("__name__", "m")), sample(1.0, -(1 << 63))),
    "torn label": entry(b"\x0a\x05\x0a\x09abc", sample()),
    "torn sample": entry(block(("__name__", "m")), b"\x12\x20\x09"),
    "text": entry(b"what is this?"),
}


def rows() -> list[dict[str, str]]:
    """The table, each row by its columns."""
    head, *lines = [[cell.strip() for cell in line.split("|")] for line in TABLE.read_text("utf-8").splitlines()]
    found = [dict(zip(head, line, strict=True)) for line in lines]
    assert {row["body"] for row in found} == set(BODIES), "every body has a row"
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Running, Receiver]]:
    """A proxy with one tenant that gets everything, and that tenant's store."""
    folder = tmp_path_factory.mktemp("table")
    async with listening(Receiver()) as store:
        config = config_of(folder, [tenant("all", store)], proxy={"limits": LIMITS})
        async with running(folder, config) as proxy:
            yield proxy, store


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["what it is"])
async def test_each_request_gets_its_answer(scene: tuple[Running, Receiver], row: dict[str, str]) -> None:
    """Status, reason, counters and what the store gets are those of the row; no answer bears a Written header."""
    proxy, store = scene
    before = await proxy.balanced()
    kept_before = samples_at(store)
    headers = {"Content-Type": row["content type"], "Content-Encoding": row["encoding"]}
    said = {name: value for name, value in headers.items() if value != "-"}
    data = request(row["method"], PUSH, said, BODIES[row["body"]] if row["method"] != "GET" else None)
    answer = await ask(proxy.address, data, head=row["method"] == "HEAD")
    after = await proxy.balanced()

    assert answer.status == int(row["status"]), answer.text
    if row["method"] != "HEAD":
        assert answer.reason == row["reason"]
    check_form(answer)
    refused = row["bad"] == "-"
    bad, kept = 0 if refused else int(row["bad"]), int(row["kept"])
    assert after.moved(before, "requests_rejected_total", "reason") == ({row["reason"]: 1} if refused else {})
    assert after.moved(before, "samples_rejected_total", "reason") == ({row["reason"]: bad} if bad else {})
    assert after.total("samples_received_total") - before.total("samples_received_total") == bad + kept
    assert after.moved(before, "samples_delivered_total", "tenant") == ({"all": kept} if kept else {})
    assert after.moved(before, "requests_total", "code")[row["status"]] == 1
    assert samples_at(store) - kept_before == kept


def samples_at(store: Receiver) -> int:
    """Samples and histograms that a store got so far."""
    return sum(len(entry.samples) + len(entry.histograms) for each in store.requests for entry in decoded(each))
