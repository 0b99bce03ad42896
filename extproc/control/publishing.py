"""Gives Envoy its part of the configuration, in the order in which nothing breaks.

    begin    all of them, before anybody is served. `until_taken` tells when Envoy goes by them
    offer    the new backends beside those that are still in use, then the routes and the listener; wait until Envoy
             goes by them, and has the keys and certificates that they refer to. The processor may choose the new
             backends from then on
    settle   leave out the backends that nobody uses any more

Envoy answers 503 for a backend that it doesn't know yet. Where its admin interface can be reached, it is asked until
it is ready; a question without an answer says nothing, and is asked again. Elsewhere it is given UNSEEN seconds, which
is a hundred times what it takes unless it has to look up a name that can't be found, or to wait for a server's first
health check.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from extproc import names
from extproc.config import Backend, Config
from extproc.control.envoy_admin import EnvoyAdmin, Taken, Tries
from extproc.control.secret_files import blank, in_other_words, is_secret, secret_of
from extproc.envoy.key_check import FILE as KEYS
from extproc.envoy.key_check import keys_file
from extproc.exchange.api_keys import ApiKeys

log = logging.getLogger(__name__)

UNSEEN = 1.0
PATIENCE = 15.0
"""For an Envoy that says that it isn't ready: a health check without an answer takes this long."""
_POLL = 0.02
_POLL_AT_START = 0.2
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 15.0
"""Seconds until Envoy is made to look again at what it refused, twice as many each time."""
_INTERFACES = {"clusters.yaml": "cds", "routes.yaml": "rds", "listener.yaml": "lds"}
"""How Envoy calls what it reads from these files. Named here too, because what knows them takes long to import."""
_MADE_FOR = ".made-for.json"
"""Tells what the files beside it were made for, while they are exactly that."""


class RefusedByEnvoyError(Exception):
    """Envoy can't go by a file. Its log tells why; the files are as they were before."""


class EnvoyFiles:
    """The files in one directory, which only this object writes."""

    def __init__(self, directory: Path, admin: EnvoyAdmin | None, patience: float = PATIENCE) -> None:
        """`patience`: how many seconds Envoy gets to be ready with one file."""
        self._directory = directory
        self._admin = admin
        self._patience = patience
        self._complaint = ""  # why Envoy couldn't be asked the last time, if it couldn't
        self._written: dict[str, str] = {}
        self._staged: dict[str, str] = {}
        """Files that lie beside those they are to replace, so that nothing changes before all of them found room."""
        self._needed = frozenset[str]()
        """Those of them that what is in force leads to; a file that Envoy refused may lie beside them."""
        self._busy = asyncio.Lock()  # what Envoy makes of a file is seen in its counters: one at a time

    @property
    def can_be_asked(self) -> bool:
        """Whether Envoy tells what it has taken."""
        return self._admin is not None

    async def begin(self, config: Config) -> None:
        """Write all of them, for an Envoy that starts later or runs already. Raises OSError.

        A processor that is started again finds them as it would make them, and is spared the making: 0.9 of the 1.3
        seconds of processor time that a start takes, while every request is refused.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        self._written = self._found(config)
        if not self._written:
            made = await self._made(config, ())
            # Envoy would count a secret's file that comes again with the same text as taken, without looking at it.
            self._written = {name: text for name, text in made.items() if self._on_disk(name) == text}
            self._stage(made)
            (self._directory / _MADE_FOR).unlink(missing_ok=True)
            for name, text in made.items():
                self._write(name, text)
            self._needed = frozenset(made)
            self._record(config)
        self._needed = frozenset(self._written)

    async def until_taken(self) -> None:
        """Wait until Envoy goes by the files, with all keys and certificates that they lead to; log why it doesn't.

        Whether it can reach the backends is no part of it. What it refuses it is made to look at again, now and then:
        an address may have become free, or a directory come that wasn't there; and when it has read a better
        certificate by itself, it doesn't say so.
        """
        if self._admin is None:
            return
        told = set[str]()
        clock = asyncio.get_running_loop().time
        pause, again = _FIRST_PAUSE, clock() + _FIRST_PAUSE
        late = clock() + self._patience  # until then it may well be starting
        while True:
            async with self._busy:
                refused: list[str] = []
                try:
                    missing, refused = _not_taken(await self._admin.taken(), self._told_to_envoy())
                    if not missing:
                        break
                    reason = f"it refuses {', '.join(refused)}; its own log tells why" if refused else "it is starting"
                except OSError:
                    reason = "its admin interface doesn't answer"
                if reason not in told and (refused or clock() >= late):
                    told.add(reason)
                    log.error("Envoy doesn't serve yet: %s", reason)
                if refused and clock() >= again:
                    self._show_again(refused)
                    pause, again = min(2 * pause, _LONGEST_PAUSE), clock() + pause
                    await asyncio.sleep(UNSEEN)
            await asyncio.sleep(_POLL_AT_START)
        if told:
            log.info("Envoy serves: it has taken all of its files")

    def publish_keys(self, keys: ApiKeys | None) -> None:
        """Have Envoy check clients' keys by these, from its next look at the file on: that takes it milliseconds.

        Raises OSError. Without keys there is nothing that would look.
        """
        if keys is None:
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        text = keys_file(keys)
        if self._on_disk(KEYS) != text:
            self._put(KEYS, text)

    def _told_to_envoy(self) -> dict[str, str]:
        return {name: self._written[name] for name in sorted(self._needed)}

    def _show_again(self, names: Iterable[str]) -> None:
        try:
            for name in names:
                text = self._written[name]
                if is_secret(name):
                    self._write(name, in_other_words(text))
                else:
                    self._put(name, text)
        except OSError as error:
            log.warning("Envoy's files can't be written: %s", error)

    async def offer(self, config: Config, leaving: Sequence[Backend]) -> None:
        """Have Envoy go by `config`, and keep the backends that are `leaving` too.

        Raises OSError when the files can't be written, and RefusedByEnvoyError.
        """
        async with self._busy:
            await self._offer(config, leaving)

    async def _offer(self, config: Config, leaving: Sequence[Backend]) -> None:
        before = dict(self._written)
        made = await self._made(config, leaving)
        self._stage(made)
        (self._directory / _MADE_FOR).unlink(missing_ok=True)
        self._keep_old(made)
        secrets = [secret_of(name) for name, text in made.items() if is_secret(name) and before.get(name) != text]
        known = await self._taken() if secrets else None
        try:
            for name, text in made.items():
                await self._replace(name, text)
            if known is not None:
                await self._until(lambda now: _have_secrets(now, secrets, known), "keys and certificates")
        except (OSError, RefusedByEnvoyError):
            for name in self._written.keys() - before.keys():
                with suppress(OSError):  # the others are put back all the same
                    self._write(name, blank(name))
            for name, text in before.items():
                self._put_back(name, text)
            raise
        finally:
            self._unlink(f".{name}.{kind}" for name in made for kind in ("old", "new"))
            self._staged.clear()
        self._needed = frozenset(made)
        if not leaving:
            self._leave_out(self._written.keys() - self._needed)  # what was offered, and refused, before
            self._record(config)

    async def settle(self, config: Config, leaving: Sequence[Backend]) -> None:
        """Keep no other backends than those of `config` and these. Raises OSError."""
        from extproc.envoy.dynamic import backend_files
        from extproc.envoy.sources import LISTENER, ROUTES

        async with self._busy:
            made = await asyncio.to_thread(backend_files, config, leaving, str(self._directory))
            for name, text in made.items():
                self._write(name, text)
            self._needed = frozenset(made) | {ROUTES, LISTENER}
            self._leave_out(self._written.keys() - self._needed)  # secrets of backends that are gone
            if not leaving:
                self._record(config)

    def _record(self, config: Config) -> None:
        digests = {name: _digest(self._written[name]) for name in sorted(self._needed)}
        try:
            self._put(_MADE_FOR, json.dumps({"for": self._purpose(config), "files": digests}))
        except OSError as error:  # it only spares the making
            log.warning("a processor that is started again will have to make Envoy's files anew: %s", error)

    def _found(self, config: Config) -> dict[str, str]:
        """The files that lie there, if they were made for this very configuration; else nothing."""
        with suppress(OSError, ValueError, LookupError):
            made = json.loads((self._directory / _MADE_FOR).read_bytes())
            if made["for"] == self._purpose(config):
                texts = {name: (self._directory / name).read_text(encoding="utf-8") for name in made["files"]}
                if {name: _digest(text) for name, text in texts.items()} == made["files"]:
                    return texts
        return {}

    def _purpose(self, config: Config) -> str:
        """All that the files' texts hang on, as a hash: the configuration, where they lie, and who makes them."""
        purpose = sha256(f"{self._directory}\n{config.model_dump_json()}\n".encode())
        package = Path(names.__file__).parent
        for module in (package / "names.py", *sorted((package / "envoy").rglob("*.py"))):
            purpose.update(module.read_bytes())
        return purpose.hexdigest()

    async def _made(self, config: Config, leaving: Sequence[Backend]) -> dict[str, str]:
        def made() -> dict[str, str]:
            # Takes half a second to import, and 13 MB: only for an Envoy to be told, and beside the exchanges.
            from extproc.envoy.dynamic import files

            return files(config, leaving, str(self._directory))

        return await asyncio.to_thread(made)

    async def _replace(self, name: str, text: str) -> None:
        from extproc.envoy.dynamic import VERSIONED, version_of
        from extproc.envoy.sources import CLUSTERS

        if self._written.get(name) == text:
            return
        if name not in VERSIONED:
            self._write(name, text)
            return
        before = await self._taken()
        self._write(name, text)
        if before is None:
            await asyncio.sleep(UNSEEN)
            before = await self._taken()  # it may have been a single question that got lost
        if before is not None:
            version, refusals = version_of(text), before.refusals

            def taken(now: Taken) -> bool:
                # Routes may hang on a listener that is yet to come; clusters on nothing.
                return name != CLUSTERS or version in now.versions.values()

            await self._until(lambda now: _goes_by(now, name, version, refusals), name, taken)

    async def _until(
        self, ready: Callable[[Taken], bool], name: str, needed: Callable[[Taken], bool] = lambda _: True
    ) -> None:
        """Wait until it is, as long as patience lasts.

        Raises RefusedByEnvoyError when `ready` does, and when by Envoy's last answer not even what is `needed` holds:
        the file may have been refused between two questions, of which one got lost.
        """
        last = None
        try:
            async with asyncio.timeout(self._patience):
                while True:
                    if (now := await self._taken()) is not None:
                        if ready(now):
                            return
                        last = now
                    await asyncio.sleep(_POLL)
        except TimeoutError:
            late = f"after {self._patience:g} seconds"
            if last is not None and not needed(last):
                reason = f"Envoy answers, and doesn't go by {name} {late}; if it refused it, its log tells why"
                raise RefusedByEnvoyError(reason) from None
            log.warning("Envoy isn't ready with %s %s; going on without waiting", name, late)

    async def _taken(self) -> Taken | None:
        """What Envoy goes by; None when it can't be asked, as when it has yet to start."""
        if self._admin is None:
            return None
        try:
            taken = await self._admin.taken()
        except OSError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.warning("Envoy's admin interface doesn't answer: %s", error)
            return None
        self._complaint = ""
        return taken

    def _on_disk(self, name: str) -> str | None:
        try:
            return (self._directory / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None

    def _write(self, name: str, text: str) -> None:
        if self._written.get(name) == text:
            return
        self._put(name, text)
        self._written[name] = text

    def _put(self, name: str, text: str) -> None:
        new = self._directory / f".{name}.new"
        if self._staged.pop(name, None) != text:
            try:
                new.write_text(text, encoding="utf-8")
            except OSError:
                self._unlink([new.name])  # half of it may lie there, on a disk that is full
                raise
        os.replace(new, self._directory / name)

    def _stage(self, made: Mapping[str, str]) -> None:
        """Lay ready what differs. Raises OSError, with nothing changed, when there is no room for all of it."""
        self._staged.clear()
        try:
            for name, text in made.items():
                if self._written.get(name) != text:
                    (self._directory / f".{name}.new").write_text(text, encoding="utf-8")
                    self._staged[name] = text
        except OSError:
            self._staged.clear()
            self._unlink(f".{name}.new" for name in made)
            raise

    def _keep_old(self, names: Iterable[str]) -> None:
        """Have what is about to be replaced by another name too, which takes no room."""
        self._unlink(f".{name}.old" for name in names)
        for name in self._staged:
            with suppress(OSError):  # it is new, or the file system has no such links
                os.link(self._directory / name, self._directory / f".{name}.old")

    def _put_back(self, name: str, text: str) -> None:
        if self._written.get(name) == text:
            return
        try:
            os.replace(self._directory / f".{name}.old", self._directory / name)
        except OSError:
            self._put(name, text)
        self._written[name] = text

    def _unlink(self, names: Iterable[str]) -> None:
        for name in names:
            with suppress(OSError):
                (self._directory / name).unlink()

    def _leave_out(self, names: Iterable[str]) -> None:
        for name in names:
            (self._directory / name).unlink(missing_ok=True)
            del self._written[name]


def _not_taken(taken: Taken, told: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The files that Envoy doesn't go by, and those among them that it has refused."""
    missing, refused = list[str](), list[str]()
    for name, text in told.items():
        if is_secret(name):
            tries = taken.secrets.get(secret_of(name), Tries())
            goes_by, refusals = tries.all > tries.refused, tries.refused
        else:
            interface = _INTERFACES[name]
            goes_by, refusals = taken.versions.get(interface) == _version(text), taken.refused.get(interface, 0)
        if not goes_by:
            missing.append(name)
            if refusals:
                refused.append(name)
    return missing, refused


def _goes_by(taken: Taken, name: str, version: str, refusals: int) -> bool:
    """Whether Envoy goes by this version of a file. Raises RefusedByEnvoyError when it refused more than before."""
    if version in taken.versions.values():
        return not taken.warming
    if taken.refusals > refusals:
        raise RefusedByEnvoyError(f"Envoy refuses {name}; its log tells why")
    return False


def _have_secrets(taken: Taken, names: Sequence[str], known: Taken) -> bool:
    """Whether Envoy has read anew all the secrets of these names. Raises RefusedByEnvoyError when it couldn't.

    It takes what refers to a secret that it can't find: a listener like that closes every connection.
    """
    nothing = Tries()
    refused = [n for n in names if taken.secrets.get(n, nothing).refused > known.secrets.get(n, nothing).refused]
    if refused:
        raise RefusedByEnvoyError(f"Envoy can't use the files for {', '.join(refused)}; its log tells why")
    return all(taken.secrets.get(n, nothing).all != known.secrets.get(n, nothing).all for n in names)


def _version(text: str) -> str:
    return text.partition("\n")[0].removeprefix("version_info: ")


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
