"""An explanation as a person reads it: what came in, whose it is, what each tenant's rules do, what goes out.

Every text of a label may come from anywhere, so each is made printable. Lines break between labels where they can.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from cli.text import printable
from proxy.core.explain import Explanation, TenantExplanation
from proxy.core.labels import METRIC_NAME, LabelSet, quoted, valid_label_name
from proxy.core.text import parse_line

LEAST_WIDTH: Final = 40  # narrower terminals wrap by themselves
LABEL_WIDTH: Final = 10

_KINDS: Final = {
    "device": "a device series",
    "trusted": "a trusted job's series, already attributed",
    "other": "no device series",
}
_CLAIMS: Final = {
    "owner": "owns the device at that time",
    "joined": "sees every series with its owner's labels (view: joined)",
    "raw": "sees every series as sent (view: raw)",
    "idle": "gets what no pod owns (idle_tenant)",
    "unowned": "gets what nobody owns (unowned)",
    "namespace label": "has the namespace that the series names (trust_namespace_label)",
    "attributed": "is the tenant that the trusted series names",
}
_FATES: Final = {
    "routed": ("green", "is sent to each tenant that keeps it"),
    "filtered": ("yellow", "is sent to nobody"),
    "quarantined": ("yellow", "waits on disk until its owner is known"),
    "rejected": ("red", "is refused"),
}
_DROPPED_BY: Final = {
    "no_labels": "its rules leave no label",
    "no_name": "its rules leave no metric name",
    "labels_per_series": "it has more labels than limits.labels_per_series",
}


def rendered(found: Sequence[Explanation], width: int) -> list[Text]:
    """All lines of several explanations, an empty one between them."""
    out: list[Text] = []
    for position, explanation in enumerate(found):
        out += [Text()] if position else []
        out += lines(explanation, max(LEAST_WIDTH, width))
    return out


def lines(explanation: Explanation, width: int) -> Iterable[Text]:
    """The explanation in lines of at most that many columns, as far as its texts allow."""
    yield from flow(_series(explanation.series), width, "  ")
    yield Text()
    for label, tokens in _facts(explanation):
        yield from _row(label, tokens, width)
    for tenant in explanation.tenants:
        yield Text()
        yield from _tenant(tenant, explanation, width)


def flow(tokens: Iterable[Text], width: int, indent: str) -> list[Text]:
    """Tokens side by side, on as many lines as it takes; all but the first line begin with `indent`."""
    out = [Text()]
    for token in tokens:
        used = out[-1].cell_len
        if used > len(indent) and used + token.cell_len > width:
            out[-1].rstrip()
            out.append(Text(indent))
        out[-1].append_text(token)
    out[-1].rstrip()
    return out


def _row(label: str, tokens: Iterable[Text], width: int) -> list[Text]:
    indent = " " * (LABEL_WIDTH + 2)
    head = Text(f"  {label:<{LABEL_WIDTH}}", "dim")
    return flow([head, *tokens], width, indent)


def _rows(label: str, groups: Iterable[Iterable[Text]], width: int) -> Iterable[Text]:
    for position, tokens in enumerate(groups):
        yield from _row("" if position else label, tokens, width)


def _words(text: str, style: str = "") -> list[Text]:
    return [Text(f"{word} ", style) for word in printable(text).split(" ")]


def _parts(texts: Iterable[str], style: str = "") -> list[Text]:
    """Texts with commas between them, each a token of its own; empty ones are left out."""
    there = [text for text in texts if text]
    return [
        Text(printable(text) + (", " if position < len(there) else ""), style) for position, text in enumerate(there, 1)
    ]


def _series(text: str) -> list[Text]:
    """A series, each label a token of its own."""
    labels = _labels(text)
    pairs = [pair for pair in labels.pairs if pair[0] != METRIC_NAME]
    name = str(LabelSet.of({METRIC_NAME: labels.get(METRIC_NAME)}))
    bare = not name.startswith("{")
    out = [Text(printable(name if bare else name[:-1] + ("," if pairs else "")), "bold")]
    if bare and pairs:
        out[0].append("{")
    for position, (label, value) in enumerate(pairs):
        out.append(_pair(label, value))
        out[-1].append("," if position + 1 < len(pairs) else "")
    if pairs or not bare:
        out[-1].append("}")
    return out


def _pair(label: str, value: str) -> Text:
    name = label if valid_label_name(label, "legacy") else quoted(label)
    return Text.assemble((printable(name), "cyan"), "=", printable(quoted(value)))


def _facts(explanation: Explanation) -> Iterable[tuple[str, list[Text]]]:
    yield "at", _words(explanation.at)
    yield "kind", _words(_KINDS.get(explanation.kind, explanation.kind))
    if explanation.device is not None:
        yield "device", _parts(_device(explanation.device))
    if explanation.owner is not None:
        yield "owner", _parts(_owner(explanation.owner), "bold")
    if explanation.device is not None and "from" in explanation.device:
        until = explanation.device.get("to")
        yield "since", _words(f"{explanation.device['from']}, {'until ' + until if until else 'still open'}")
    style, meaning = _FATES.get(explanation.fate["kind"], ("", ""))
    yield "fate", [Text(f"{printable(explanation.fate['kind'])} ", style), *_words(_fate(explanation.fate, meaning))]
    if explanation.reason:
        yield "why", _words(explanation.reason, "yellow")


def _device(device: Mapping[str, Any]) -> list[str]:
    instance = f"GPU instance {device['gpu_instance_id']}" if device.get("gpu_instance_id") else ""
    found = [f"on {device['node']}", device["model"], device["sharing"]] if "node" in device else []
    return [device["uuid"], instance, *found]


def _owner(owner: Mapping[str, str]) -> list[str]:
    if owner.get("unattributed"):
        return [f"no pod ({owner['unattributed']})"]
    pod = "/".join(part for part in (owner.get("namespace"), owner.get("pod")) if part)
    controller = " ".join(part for part in (owner.get("controller_kind"), owner.get("controller_name")) if part)
    container = f"container {owner['container']}" if owner.get("container") else ""
    uid = f"pod_uid {owner['pod_uid']}" if owner.get("pod_uid") else ""
    return [pod, container, controller, uid]


def _fate(fate: Mapping[str, str], meaning: str) -> str:
    said = ", ".join(part for part in (fate.get("tenant"), fate.get("detail")) if part)
    return f"({said}): it {meaning}" if said else f"- it {meaning}"


def _tenant(tenant: TenantExplanation, explanation: Explanation, width: int) -> Iterable[Text]:
    title = [Text(f"{printable(tenant.tenant)} ", "bold magenta"), *_words(_CLAIMS.get(tenant.claim, tenant.claim))]
    yield from flow(title, width, "  ")
    labels = _labels(explanation.series)
    received = _labels(tenant.labels_in)
    if received != labels:
        yield from _rows("joined", _difference(labels, received), width)
    for step in tenant.steps:
        after = None if step["after"] is None else _labels(step["after"])
        yield from _row(f"rule {_number(step['rule'])}", _words(step["text"]), width)
        yield from _rows("", _done(received, after), width)
        received = received if after is None else after
    if tenant.labels_out is None:
        why = _DROPPED_BY.get(tenant.dropped_by, f"dropped by {tenant.dropped_by}")
        yield from _row("out", [Text("nothing: ", "red"), *_words(why)], width)
    else:
        yield from _row("out", _series(tenant.labels_out), width)


def _done(before: LabelSet, after: LabelSet | None) -> list[list[Text]]:
    if after is None:
        return [[Text("dropped", "red")]]
    return _difference(before, after) if after != before else [[Text("kept as it is", "dim")]]


def _difference(before: LabelSet, after: LabelSet) -> list[list[Text]]:
    """Labels taken off, changed, and put on; each kind is a line of its own."""
    old, new = dict(before.pairs), dict(after.pairs)
    off = [_sign("- ", "red", _pair(name, old[name])) for name in old if name not in new]
    changed = [
        _sign("~ ", "yellow", _pair(name, old[name]).append(f" -> {printable(quoted(new[name]))}"))
        for name in old
        if name in new and old[name] != new[name]
    ]
    on = [_sign("+ ", "green", _pair(name, new[name])) for name in new if name not in old]
    return [kind for kind in (off, changed, on) if kind]


def _sign(sign: str, style: str, text: Text) -> Text:
    return Text.assemble((sign, style), text, "  ")


def _labels(text: str) -> LabelSet:
    return parse_line(text).labels


def _number(rule: str) -> str:
    """The position in `write_relabel_configs[3]`."""
    return printable(rule).rpartition("[")[2].rstrip("]")
