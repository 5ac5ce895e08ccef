"""The settings as a whole: their defaults, their documentation, the shipped examples."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel, ValidationError

from config.headers import HIDDEN
from config.load import load, parse
from config.redacted import redacted
from config.reload import needs_restart
from config.settings import Settings
from config.tree import compose

INTERFACE = Path(__file__).parent.parent / "vectors" / "config" / "interface.yaml"
EXAMPLES = sorted((Path(__file__).parent.parent.parent / "config" / "examples").glob("*.yaml"))
NOT_COMPARED = (
    "dynamic_tenants.endpoint.",  # the documented file shows these keys once, under tenants
    "proxy.senders.",  # shown in comments, as are the next two
    "tenants.endpoint.embedded",
    "tenants.namespace_selector",
    "signer.focus.prices.",  # names of models, not settings
    "tenants.write_relabel_configs.",  # Prometheus' own keys
    "dynamic_tenants.write_relabel_configs.",
)


def sections(annotation: Any) -> Iterator[type[BaseModel]]:
    """The sections that a type consists of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from sections(inner)


def keys(section: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every setting below a section, as `proxy.limits.read_timeout`."""
    for name, field in section.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        yield key
        for each in sections(field.annotation):
            yield from keys(each, f"{key}.")


def written(value: object, prefix: str = "") -> Iterator[str]:
    """Every key that a file has, list positions left out."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{prefix}{key}"
            yield from written(inner, f"{prefix}{key}.")
    elif isinstance(value, list):
        for inner in value:
            yield from written(inner, prefix)


@pytest.mark.parametrize("section", ["proxy", "ownership", "labeler", "signer"])
def test_defaults_are_the_documented_ones(section: str) -> None:
    """The documented file, whose values of these four sections are the defaults, says what an empty file says."""
    documented = getattr(load(INTERFACE).settings, section)
    default = getattr(Settings(), section)
    assert documented.model_copy(update={"focus": None}) == default.model_copy(update={"focus": None})


def test_every_documented_setting_exists_and_every_setting_is_documented() -> None:
    """The documented file and the models have the same keys, so that no default is equal by being absent."""
    root, problems = compose(INTERFACE.read_text(), "interface.yaml")
    assert problems == []
    in_file, in_models = (
        {key for key in found if not key.startswith(NOT_COMPARED)} for found in (written(root.plain()), keys(Settings))
    )
    assert in_file == in_models


def test_the_documented_tenant_is_read() -> None:
    """The example tenant of the documentation is what its comments say."""
    settings = load(INTERFACE).settings
    (tenant,) = settings.tenants
    assert (tenant.id, tenant.namespaces, tenant.view) == ("team-ml", ("team-ml",), "owned")
    assert tenant.endpoint.url == "https://mimir.example/api/v1/push"
    assert tenant.endpoint.basic_auth is None
    assert settings.dynamic_tenants is not None
    assert settings.dynamic_tenants.endpoint_of("x").org_id == "x"


def test_durations_and_sizes_are_numbers() -> None:
    """The program sees milliseconds, bytes and parts of one, never text."""
    settings = Settings()
    assert settings.proxy.limits.read_timeout == 30_000
    assert settings.proxy.limits.decoded_bytes == 33_554_432
    assert settings.proxy.quarantine.age == 86_400_000
    assert settings.labeler.share_step == 0.01


def every_section() -> set[type[BaseModel]]:
    """All models of the configuration."""
    found: set[type[BaseModel]] = set()
    waiting: list[type[BaseModel]] = [Settings]
    while waiting:
        section = waiting.pop()
        if section not in found:
            found.add(section)
            waiting += [each for field in section.model_fields.values() for each in sections(field.annotation)]
    return found


@pytest.mark.parametrize("section", sorted(every_section(), key=str))
def test_every_setting_has_a_description(section: type[BaseModel]) -> None:
    """Nobody has to read code to know what a setting does."""
    assert [name for name, field in section.model_fields.items() if not field.description] == []


def test_settings_do_not_change() -> None:
    """What was read is what holds until the next reload."""
    settings = Settings()
    with pytest.raises(ValidationError):
        settings.proxy.workers = 2  # type: ignore[misc]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_shipped_examples_load(path: Path) -> None:
    """Each file in config/examples is without a problem, and has tenants."""
    assert load(path).settings.tenants


def test_there_are_examples() -> None:
    """The test above runs on something."""
    assert [path.name for path in EXAMPLES] == ["small.yaml", "tenants.yaml"]


def test_what_is_shown_has_no_secrets() -> None:
    """Paths of secrets and effective defaults are shown, header values and queries of URLs are not."""
    text = (
        "proxy: {senders: [{name: p, bearer_token_file: /t}]}\n"
        "tenants: [{id: a, endpoint: {url: 'http://s/p?token=hush', headers: {X-Key: hush}}}]\n"
        "signer: {focus: {currency: EUR, prices: {A100: '2.50'}}}\n"
    )
    shown = redacted(parse(text, "f.yaml").settings)
    assert "hush" not in str(shown)
    assert shown["proxy"]["senders"][0]["bearer_token_file"] == "/t"
    assert shown["proxy"]["limits"]["read_timeout"] == "30s"
    assert shown["tenants"][0]["endpoint"]["url"] == f"http://s/p?{HIDDEN}"
    assert shown["tenants"][0]["endpoint"]["headers"] == {"X-Key": HIDDEN}
    assert shown["signer"]["focus"]["prices"] == {"A100": "2.50"}


def test_what_is_shown_can_be_read_again() -> None:
    """The shown settings are a configuration that says the same, but for what is hidden."""
    settings = parse("tenants: [{id: a, endpoint: {url: http://s/p}}]\nproxy: {listen: '[::1]:0'}", "f.yaml").settings
    assert Settings.model_validate(redacted(settings)) == settings


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("", []),
        ("proxy: {limits: {inflight_requests: 1}}\nlabeler: {listen: '127.0.0.1:1'}", []),
        ("proxy: {listen: '127.0.0.1:1'}", [("proxy", "listen")]),
        ("proxy: {data_dir: other, listen: '127.0.0.1:1'}", [("proxy", "listen"), ("proxy", "data_dir")]),
    ],
)
def test_a_reload_names_what_needs_a_restart(text: str, places: list[tuple[str, str]]) -> None:
    """Address and data folder of the service itself cannot change while it runs, everything else can."""
    assert [place for place, _ in needs_restart("proxy", Settings(), parse(text, "f.yaml").settings)] == places


def test_a_reload_says_what_would_change() -> None:
    """The sentence has both values."""
    new = parse("proxy: {listen: '127.0.0.1:1'}", "f.yaml").settings
    ((_, sentence),) = needs_restart("proxy", Settings(), new)
    assert sentence == "cannot change from 127.0.0.1:9009 to 127.0.0.1:1 while it runs; restart it instead"
