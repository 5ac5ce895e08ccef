"""What is held back for an owner, when the disk does not take it."""

import os
import threading
from pathlib import Path

import pytest

from proxy import holding
from tests.peers.push import encode
from tests.proxy.core.messages import NOW_MS
from tests.proxy.receiver import Receiver, listening
from tests.proxy.running import config_of, running, tenant


async def test_a_disk_that_hangs_holds_no_sender(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What must be held back and does not come to the disk in time is sent again; the books stay right."""
    monkeypatch.setattr(holding, "ANSWER_SECONDS", 0.1)
    hung = threading.Event()
    synced = os.fdatasync

    def hangs(fd: int) -> None:
        hung.wait(10)
        synced(fd)

    async with listening(Receiver()) as store:
        config = config_of(tmp_path, [tenant("t", store)], ownership={"files": [str(tmp_path / "none.json")]})
        async with running(tmp_path, config) as proxy:
            monkeypatch.setattr(os, "fdatasync", hangs)
            try:
                answer = await proxy.push(encode([({"__name__": "util", "UUID": "GPU-1"}, [(NOW_MS, 1.0)])]))
            finally:
                hung.set()
            assert (answer.status, answer.reason) == (503, "storage")
            await proxy.reaches(lambda seen: seen.total("samples_quarantined") == 1)
