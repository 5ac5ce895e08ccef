"""The demo's folder: its own, or a temporary one that goes."""

from pathlib import Path
from random import Random

import pytest

from cli.demo.hardware import NODES, TENANTS
from cli.demo.simulation import begin, document
from cli.demo.workplace import Workplace, workplace
from cli.errors import CommandError
from ownership import parse_document
from proxy.configured import configure


def test_the_configuration_is_good(tmp_path: Path) -> None:
    """The configuration that is written can be used, and has the tenants that are counted, even at an odd path."""
    place = Workplace(tmp_path / 'odd "path": {x} #')
    place.folder.mkdir()
    place.write_config(0)
    settings = configure(place.config).settings
    assert tuple(tenant.id for tenant in settings.tenants) == TENANTS
    assert all(tenant.endpoint.embedded and tenant.write_relabel_configs for tenant in settings.tenants)
    assert [Path(file) for file in settings.ownership.files] == [
        place.document(node.name) for node in NODES if node.observed
    ]
    assert Path(settings.proxy.data_dir) == place.folder / "data"


def test_documents_are_replaced_whole(tmp_path: Path) -> None:
    """Each write leaves one whole document, under its own name, and no other file."""
    place = Workplace(tmp_path)
    cluster = begin(1_767_225_000_000, Random(1))
    for now_ms in (1_767_225_000_000, 1_767_225_001_000):
        place.write_documents([document(cluster, NODES[0], now_ms)])
        path = place.document(NODES[0].name)
        assert parse_document(path.read_bytes()).observed_until_ms == now_ms
        assert list(path.parent.iterdir()) == [path]


def test_a_temporary_folder_goes() -> None:
    """Without a name the folder is a new one, gone after the demo, however it ends."""
    places: list[Workplace] = []

    def interrupted() -> None:
        with workplace(None) as place:
            places.append(place)
            place.write_config(0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not places[0].folder.exists()


def test_a_named_folder_stays_and_can_be_used_again(tmp_path: Path) -> None:
    """A named folder is made, keeps its files, and is taken again by the next demo."""
    for _ in range(2):
        with workplace(tmp_path / "a" / "b") as place:
            place.write_config(0)
    assert (tmp_path / "a" / "b" / "demo.yaml").exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    """A folder with other files is refused with a sentence, and nothing is written into it."""
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(CommandError, match="has files of something else; name an empty folder"), workplace(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    """A file where the folder should be is a sentence."""
    (tmp_path / "file").touch()
    with pytest.raises(CommandError, match="cannot be used: "), workplace(tmp_path / "file"):
        pass


def test_a_store_that_is_not_there_has_no_count(tmp_path: Path) -> None:
    """Before the first sample there is nothing to count, and a damaged file is nothing to fail for."""
    place = Workplace(tmp_path)
    assert place.stored_series("team-ml") is None
    (tmp_path / "data/tenants").mkdir(parents=True)
    (tmp_path / "data/tenants/team-ml.db").write_bytes(b"no database")
    assert place.stored_series("team-ml") is None
