"""Options that several verbs have, and the exit statuses of all."""

from pathlib import Path
from typing import Annotated, Final

import typer

NOT_DONE: Final = 1

ConfigOption = Annotated[Path, typer.Option("--config", metavar="FILE", help="The configuration file.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
