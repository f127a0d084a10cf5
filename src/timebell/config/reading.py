"""Where settings come from: `timebell.toml`, the environment and arguments, read once."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from timebell.config.provider_reading import PROVIDER_PREFIX, ProviderReader
from timebell.config.settings import RULES, Settings, Source
from timebell.config.tuning import RETIRED
from timebell.errors import ConfigurationError
from timebell.logs import Logger

log = Logger("timebell.config")

PREFIX: Final = "TIMEBELL_"
FILE_NAME: Final = "timebell.toml"
FILE_BYTES_MAX: Final = 65_536
UNKNOWN_MAX: Final = 20


def load_settings(
    path: str | Path | None = None, environ: Mapping[str, str] | None = None, **explicit: Any
) -> Settings:
    """Read the settings: an argument wins over the environment, and the environment over the file.

    The file is `path`, else the one that TIMEBELL_CONFIG names, else `timebell.toml` in the current folder if
    there is one. An argument of None and an empty variable count as not given.
    """
    environ = os.environ if environ is None else environ
    arguments = {name: value for name, value in explicit.items() if value is not None}
    _refuse_unknown("the call", arguments)
    file, environment = _from_file(path or environ.get(PREFIX + "CONFIG")), _from_environment(environ)
    layers: dict[Source, Mapping[str, Any]] = {
        "file": file,
        "environment": environment,
        "argument": arguments,
    }
    named = {name: source for source, layer in layers.items() for name in layer}
    retired = {name: source for name, source in named.items() if name in RETIRED}
    sources = {name: source for name, source in named.items() if name not in RETIRED}
    values = {name: layers[source][name] for name, source in sources.items()}
    if "providers" not in arguments:
        reader = ProviderReader(environ, _own(environ))
        values["providers"] = reader.read(file.get("providers", []), environment.get("providers"))
    if "data" in arguments and "database_url" in values:
        raise ConfigurationError(
            f"data: names a folder for the embedded server, but database_url ({sources['database_url']}) "
            "names a server; leave one of them out"
        )
    return Settings(**values, sources=tuple(sources.items()), retired=tuple(retired.items()))


def warn_of_retired(settings: Settings) -> None:
    """For one version whoever names what Timebell chooses by now is told so, and not refused."""
    for name, source in settings.retired:
        log.warning("this is no longer a setting; Timebell chooses it", setting=name, source=source)


def _from_file(named: str | Path | None) -> dict[str, Any]:
    path = Path(named or FILE_NAME)
    if not named and not path.exists():
        return {}
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise ConfigurationError(f"{path}: is over {FILE_BYTES_MAX} bytes; keep only settings in it")
        values = tomllib.loads(content.decode("utf-8-sig"))
    except OSError as error:
        raise ConfigurationError(
            f"{path}: cannot be read ({error.strerror}); correct --config or TIMEBELL_CONFIG"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path}: is not TOML ({error}); correct it there") from error
    _refuse_unknown(str(path), values)
    if isinstance(data := values.get("data"), str) and data[:1] not in ("", "~"):
        values["data"] = path.parent / data
    return values


# A Kubernetes service whose name begins with timebell puts variables such as TIMEBELL_PORT=tcp://10.0.0.9:80
# into every pod beside it. They are nobody's settings, and refusing them would keep the pod from starting.
_SERVICE_LINK = re.compile(
    r"TIMEBELL_(\w+_)?(SERVICE_(HOST|PORT)\w*=.*|PORT_\d+_(TCP|UDP|SCTP)\w*=.*|PORT=(tcp|udp|sctp)://.*)"
)


def _own(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that are meant for Timebell and have a value."""
    given = {name: text for name, text in environ.items() if name.startswith(PREFIX) and text}
    return {name: text for name, text in given.items() if not _SERVICE_LINK.fullmatch(f"{name}={text}")}


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    own = {name: text for name, text in _own(environ).items() if not name.startswith(PROVIDER_PREFIX)}
    own.pop(PREFIX + "CONFIG", None)
    texts = {name.removeprefix(PREFIX).lower(): text for name, text in own.items()}
    _refuse_unknown("the environment", texts, spell=lambda name: PREFIX + name.upper())
    if environ.get("DATABASE_URL"):
        texts.setdefault("database_url", environ["DATABASE_URL"])
    return {name: RULES[name].read(text) if name in RULES else text for name, text in texts.items()}


def _refuse_unknown(origin: str, names: Iterable[str], *, spell: Callable[[str], str] = str) -> None:
    unknown = sorted(name for name in names if name not in RULES and name not in RETIRED)[:UNKNOWN_MAX]
    if unknown:
        nearest = {name: difflib.get_close_matches(name, RULES, n=1, cutoff=0.0)[0] for name in unknown}
        lines = [f"{spell(name)}: is no setting; did you mean {spell(nearest[name])}?" for name in unknown]
        raise ConfigurationError(f"{origin} is refused; correct or remove these\n" + "\n".join(lines))
