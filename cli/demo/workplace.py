"""The demo's folder: the configuration, the ownership documents, and what the proxy keeps.

Either a folder that was named, which stays, or a temporary one, which goes.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cli.demo.hardware import NODES, PLATFORM
from cli.errors import CommandError
from ownership import NodeDocument, to_json
from store.errors import StoreError
from store.reading import SampleReader
from store.schema import store_path

_CONFIG: Final = """\
# What `whosegpu demo` runs by; written anew at each start.
proxy:
  listen: 127.0.0.1:{port}
  data_dir: {data}
  idle_tenant: {platform}             # gets idle cards
tenants:
  - id: team-ml
    namespaces: [team-ml]
    endpoint: {{embedded: true}}
    write_relabel_configs:
      - {{action: labeldrop, regex: "pci_bus_id|device"}}
  - id: team-nlp
    namespaces: [team-nlp]
    endpoint: {{embedded: true}}
    write_relabel_configs:          # only what its dashboards show
      - {{action: keep, source_labels: [__name__], regex: "DCGM_FI_(DEV_(GPU_UTIL|FB_.*|POWER_USAGE)|PROF_.*)"}}
  - id: team-vision
    namespaces: [team-vision]
    endpoint: {{embedded: true}}
    write_relabel_configs:
      - {{action: drop, source_labels: [__name__], regex: "DCGM_FI_DEV_(VGPU_LICENSE_STATUS|PCIE_REPLAY_COUNTER)"}}
      - {{action: replace, target_label: team, replacement: vision}}
  - id: {platform}                    # no namespaces: everything, with its owner's labels
    endpoint: {{embedded: true}}
    write_relabel_configs:
      - {{action: drop, source_labels: [__name__], regex: DCGM_FI_DEV_VGPU_LICENSE_STATUS}}
ownership:
  files: {files}
"""


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where everything of one demo is."""

    folder: Path

    @property
    def config(self) -> Path:
        """The configuration file."""
        return self.folder / "demo.yaml"

    @property
    def log(self) -> Path:
        """What the proxy logs."""
        return self.folder / "proxy.log"

    def document(self, node: str) -> Path:
        """A node's ownership document."""
        return self.folder / "ownership" / f"{node}.json"

    def write_config(self, port: int) -> None:
        """Write the configuration; the ownership documents that it names are those of the observed nodes."""
        files = [str(self.document(node.name)) for node in NODES if node.observed]
        text = _CONFIG.format(
            port=port, data=json.dumps(str(self.folder / "data")), files=json.dumps(files), platform=PLATFORM
        )
        self.config.write_text(text, encoding="utf-8")

    def write_documents(self, documents: Iterable[NodeDocument]) -> None:
        """Replace the ownership documents; whoever reads one finds the old or the new, never a half."""
        for document in documents:
            path = self.document(document.node)
            path.parent.mkdir(exist_ok=True)
            new = path.with_suffix(".new")
            new.write_bytes(to_json(document))
            os.replace(new, path)  # noqa: PTH105 - Path.replace says the same, and returns what nobody needs

    def stored_series(self, tenant: str) -> int | None:
        """How many series the tenant's embedded storage has; None while it has none that can be read."""
        try:
            return sum(1 for _ in SampleReader(store_path(self.folder / "data", tenant)).series())
        except StoreError:
            return None


@contextmanager
def workplace(data_dir: Path | None) -> Iterator[Workplace]:
    """A folder to work in; raises CommandError for one that is somebody else's, or cannot be made."""
    if data_dir is None:
        folder = Path(tempfile.mkdtemp(prefix="whosegpu-demo-"))
        try:
            yield Workplace(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    folder = data_dir.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        strange = any(folder.iterdir()) and not (folder / "demo.yaml").is_file()
    except OSError as error:
        raise CommandError(f"--data-dir {data_dir} cannot be used: {error.strerror}; name another folder") from error
    if strange:
        raise CommandError(f"--data-dir {data_dir} has files of something else; name an empty folder")
    yield Workplace(folder)
