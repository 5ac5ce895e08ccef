"""The wire module alone: series a second through frames and scan, with the join of each tenant's part.

Both twins, few and many tenants, a warm and a cold cache, series in the order of last time and shuffled. Cold is the
slow way: parse, decide, encode, once for each new series. Memory is what a cached series with one output takes.
"""

import gc
import importlib.machinery
import importlib.util
import itertools
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from types import ModuleType

import cramjam

from ownership import Fleet, parse_document
from proxy.core import fields, wire
from proxy.core.books import Books
from proxy.core.gathering import Moment
from proxy.core.intake import Intake
from proxy.core.series_cache import CacheBudget
from proxy.core.sorter import Limits
from proxy.core.tenancy import Tenancy, Tenant, Trust
from tests.bench.load import BEGIN_MS, FAMILIES, Load, blocks_of, make_load, ownership_document, request_of

RUNS = 15
MOMENT = Moment(BEGIN_MS, 1)


def twins() -> Iterator[tuple[str, ModuleType]]:
    """The compiled module where there is one, and the same file as plain Python."""
    if wire.COMPILED:
        yield "compiled", wire
    path = Path(wire.__file__).parent / "wire.py"
    loader = importlib.machinery.SourceFileLoader("proxy.core.plain_wire", str(path))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    plain = importlib.util.module_from_spec(spec)
    loader.exec_module(plain)
    yield "plain", plain


def seconds(call: Callable[[], object], runs: int = RUNS) -> float:
    """Median of some runs."""
    times = []
    for _ in range(runs):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return median(times)


def scan_rates(load: Load) -> Iterator[tuple[str, float]]:
    """Series a second of both twins with a warm cache: in the order of last time, and in another order each time."""
    blocks = list(blocks_of(load.devices))
    bodies = {
        "in order": [request_of(blocks, BEGIN_MS)],
        "shuffled": [request_of(random.Random(seed).sample(blocks, len(blocks)), BEGIN_MS) for seed in range(5)],
    }
    for name, module in twins():
        cache = _warm_cache(module, load, blocks)
        numbers = itertools.count(1)
        for order, requests in bodies.items():
            once = partial(_scan, module, cache, itertools.cycle(requests), numbers)
            yield f"{name}, {order}", len(blocks) / seconds(once)


def _scan(module: ModuleType, cache: wire.SeriesCache, requests: Iterator[bytes], numbers: Iterator[int]) -> None:
    """Scan the next request, and join what each tenant gets."""
    body = next(requests)
    for slot in module.scan(body, fields.frames(body).bounds, cache, next(numbers), 1):
        b"".join(slot.take().chunks)


def _warm_cache(module: ModuleType, load: Load, blocks: list[bytes]) -> wire.SeriesCache:
    def never(*_: object) -> None:
        raise AssertionError("a warm series took the slow way")

    cache: wire.SeriesCache = module.SeriesCache(never)
    epoch, fate = module.Epoch(1, module.ALWAYS_TO), module.Fate("routed", "", "")
    slots = {tenant: module.Slot(tenant, ("", "")) for tenant in load.tenants}
    families = len(blocks) // len(load.devices)
    for number, block in enumerate(blocks):
        entry = module.Entry(block, epoch, fate)
        entry.generation, entry.from_ms, entry.to_ms = 1, module.ALWAYS_FROM, module.ALWAYS_TO
        entry.device = entry.fast = True
        entry.outputs = (module.Output(slots[load.devices[number // families].tenant], block),)
        cache.add(entry)
    return cache


def make_intake(load: Load) -> Intake:
    """An intake that knows the owners of the load's devices."""
    fleet = Fleet(30_000, 10_800_000)
    tenants = tuple(Tenant(name, order, "owned") for order, name in enumerate(load.tenants))
    tenancy = Tenancy(tenants, {tenant.id: tenant for tenant in tenants})
    intake = Intake(tenancy, fleet, Books(), Limits(), CacheBudget())
    changes = fleet.replace(parse_document(ownership_document(load)), static=True)
    intake.ownership_changed(changes.node, changes.keys, changes.all_keys, changes.open_until_ms)
    return intake


def cold_rate(load: Load) -> float:
    """Series a second when each is new."""
    bodies = [bytes(cramjam.snappy.decompress_raw(body)) for body in load.bodies[0]]

    def once(intake: Intake) -> None:
        for body in bodies:
            intake.take(body, Trust(), MOMENT)

    times = [seconds(partial(once, make_intake(load)), 1) for _ in range(3)]
    return len(bodies) * load.series / median(times)


def bytes_per_series(load: Load) -> float:
    """Resident memory that a cached series with one output takes, measured over the load's series."""
    intake = make_intake(load)
    bodies = [bytes(cramjam.snappy.decompress_raw(body)) for body in load.bodies[0]]
    gc.collect()
    before = _resident()
    for body in bodies:
        intake.take(body, Trust(), MOMENT)
    gc.collect()
    return (_resident() - before) / intake.cached_series


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def report(tenant_counts: tuple[int, ...] = (1, 20, 1000)) -> None:
    """Print the table."""
    for count in tenant_counts:
        load = make_load(count, shards=8, scrapes=1)
        for name, rate in scan_rates(load):
            print(f"  wire, {count:4d} tenants, warm, {name:20} {rate:12,.0f} series/s", flush=True)
    load = make_load(20, shards=8, scrapes=1)
    print(f"  wire,   20 tenants, cold (parsed, decided, encoded)  {cold_rate(load):12,.0f} series/s")
    fresh = [sys.executable, "-c", "from tests.bench.wire import tell_memory; tell_memory()"]
    subprocess.run(fresh, check=True)


def tell_memory() -> None:
    """Memory of a cached series; in a process of its own, because freed memory would be used again."""
    large = make_load(20, shards=50, scrapes=1)
    size = bytes_per_series(large)
    label_bytes = sum(map(len, blocks_of(large.devices[:50]))) / (50 * len(FAMILIES))
    print(f"  memory of a cached series of {label_bytes:.0f} label bytes: {size:,.0f} bytes (goal at most 1,500)")
