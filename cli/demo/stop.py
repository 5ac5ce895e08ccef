"""When the demo is told to stop."""

import signal
import time
from types import FrameType, TracebackType
from typing import Any, Final, Self

NAP_SECONDS: Final = 0.1  # how late a signal may be noticed

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop:
    """Inside the block the first SIGINT, SIGTERM or SIGHUP only sets `wanted`; a second SIGINT ends at once."""

    def __init__(self) -> None:
        self.wanted = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._came) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def wait(self, until: float) -> None:
        """Sleep until the monotonic clock says `until`, or until stopping is wanted."""
        while not self.wanted and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, NAP_SECONDS))

    def _came(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.wanted and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.wanted = True
