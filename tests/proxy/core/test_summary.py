from dataclasses import replace

import pytest

from proxy.core.record import QuarantineRecord
from proxy.core.summary import Summary, summarise
from tests.proxy.core.held import RECEIVED_MS, held_back
from tests.proxy.core.routing import eventful_fleet, tenancy_of
from tests.proxy.core.scene import CARD, Series, ms, util


def _record(at: float) -> QuarantineRecord:
    return held_back(tenancy_of(), Series(util(), (at, 1)))[0]


def test_a_record_as_a_person_is_shown_it() -> None:
    """Who sent what when, why it was held back, and in a sentence why it still waits."""
    assert summarise(_record(45), tenancy_of(), eventful_fleet()) == Summary(
        received_ms=RECEIVED_MS,
        sample_ms=ms(45),
        sender="sender",
        reason="unknown_owner",
        samples=1,
        series=f'DCGM_FI_DEV_GPU_UTIL{{UUID="{CARD}",gpu="0",instance="10.0.0.7:9400",job="dcgm"}}',
        namespace="",
        why=f"node node-a does not know the owner of {CARD} from 2026-11-30T16:39:00.000Z to 2026-11-30T16:39:10.000Z",
    )


@pytest.mark.parametrize(
    ("at", "namespace", "why"),
    [
        (55, "stray", "belongs to no tenant"),
        (65, "", "not split yet"),
        (75, "", "not known yet"),
        (5, "ml", "answered by now"),
        (25, "", "answered by now"),
    ],
)
def test_why_it_waits(at: float, namespace: str, why: str) -> None:
    """The sentence is that of the decision of the moment, which may be another one than when it was held back."""
    shown = summarise(_record(at), tenancy_of(), eventful_fleet())
    assert shown.namespace == namespace
    assert why in shown.why


def test_shared_ones() -> None:
    """A sample that was shared or a copy waits for that, whoever owns the device by now."""
    shown = summarise(replace(_record(5), reason="shared_not_split"), tenancy_of(), eventful_fleet())
    assert "or this is a copy" in shown.why


@pytest.mark.parametrize("entry", [b"", b"junk", Series({"a": "b"}, (5, 1)).to_bytes(), Series({"": "b"}).to_bytes()])
def test_what_cannot_be_read(entry: bytes) -> None:
    """A record of nonsense is shown as that."""
    shown = summarise(replace(_record(5), entry=entry), tenancy_of(), eventful_fleet())
    assert (shown.series, "cannot be read" in shown.why) == ("", True)
