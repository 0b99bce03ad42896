"""Envoy's files where Envoy can't be asked what it has taken of them, or not always: written in order, given time."""

from __future__ import annotations

import asyncio
import logging
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from extproc.config import Backend, Config, parse
from extproc.control import publishing
from extproc.control.envoy_admin import EnvoyAdmin, Tries
from extproc.control.publishing import UNSEEN, EnvoyFiles, RefusedByEnvoyError
from extproc.envoy.bootstrap import bootstrap, to_yaml
from extproc.envoy.dynamic import ENVOY_ARGUMENTS, files, version_of
from extproc.envoy.sources import CLUSTERS, ROUTES, Directory
from tests.gateway import ENVOY


def config(*backends: str, **at: str) -> Config:
    """Backends by name, and others with their addresses. These alone are asked how they are."""
    return parse(
        yaml.safe_dump(
            {
                "models": [{"name": "m", "backend": backends[0], "tools": "prompt"}],
                "backends": [
                    *({"name": name, "address": "127.0.0.1:8000", "health_check": False} for name in backends),
                    *({"name": name, "address": address} for name, address in at.items()),
                ],
            }
        )
    )


def clusters(directory: Path) -> list[str]:
    return [cluster["name"] for cluster in yaml.safe_load((directory / "clusters.yaml").read_text())["resources"]]


def test_the_backends_that_are_left_stay_until_nobody_uses_them(tmp_path: Path) -> None:
    directory = tmp_path / "run" / "envoy"

    async def main() -> None:
        files = EnvoyFiles(directory, None)
        await files.begin(config("one"))
        assert {path.name for path in directory.glob("[!.]*")} == {"clusters.yaml", "routes.yaml", "listener.yaml"}
        assert clusters(directory) == ["one"]
        before = time.monotonic()
        await files.offer(config("two"), config("one").backends)
        assert clusters(directory) == ["two", "one"]
        assert time.monotonic() - before >= UNSEEN, "Envoy had no time to learn of it"
        await files.settle(config("two"), ())
        assert clusters(directory) == ["two"]

    asyncio.run(main())


def test_the_routes_follow_when_models_come_to_need_it() -> None:
    def serving(*names: str) -> Config:
        models = [{"name": f"model-{name}", "backend": name, "tools": "prompt"} for name in names]
        backends = [{"name": name, "address": "127.0.0.1:8000"} for name in names]
        return Config.model_validate({"other_paths": ["/v1/embeddings"], "backends": backends, "models": models})

    one, two = serving("one"), serving("one", "two")
    first, then, again = (files(config, (), "/run")[ROUTES] for config in (one, two, one))
    assert first == again != then


def test_a_processor_that_makes_no_files_is_spared_the_import_of_envoys_types() -> None:
    program = "import extproc.control.process, sys; assert 'envoy_data_plane' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_stays_the_same_is_not_written_again(tmp_path: Path) -> None:
    def written() -> dict[str, int]:
        return {path.name: path.stat().st_ino for path in tmp_path.glob("[!.]*")}

    async def main() -> None:
        files = EnvoyFiles(tmp_path, None)
        await files.begin(config("one"))
        before = written()
        await files.offer(config("one", "two"), ())
        assert [name for name, inode in written().items() if inode != before[name]] == ["clusters.yaml"]

    asyncio.run(main())


def test_an_envoy_that_does_not_run_yet_is_no_reason_to_stop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        files = EnvoyFiles(tmp_path, EnvoyAdmin(str(tmp_path / "admin.sock")))
        await files.begin(config("one"))
        await files.offer(config("one", "two"), ())

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert clusters(tmp_path) == ["one", "two"]
    assert "Envoy's admin interface doesn't answer: " in caplog.text


def test_a_directory_that_can_not_be_written_leaves_all_as_it_was(tmp_path: Path) -> None:
    async def main() -> None:
        files = EnvoyFiles(tmp_path, None)
        await files.begin(config("one"))
        before = texts(tmp_path)
        (tmp_path / ".listener.yaml.new").mkdir()  # where the new one would be written, after the others
        with pytest.raises(OSError, match="directory"):
            await files.offer(config("one", "two").model_copy(update={"listen": "127.0.0.1:1"}), ())
        assert texts(tmp_path) == before, "a processor that is started again finds what was in force"

    asyncio.run(main())


def test_what_envoy_refuses_is_put_back_without_room_for_it(tmp_path: Path) -> None:
    async def main() -> None:
        files = EnvoyFiles(tmp_path, None)
        await files.begin(config("one"))
        before = texts(tmp_path)
        listener = tmp_path / "listener.yaml"
        listener.rename(tmp_path / "kept")
        listener.mkdir()  # it is replaced after the others
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        offered = asyncio.create_task(
            files.offer(config("one", "two").model_copy(update={"listen": "127.0.0.1:1"}), ())
        )
        while not (tmp_path / ".clusters.yaml.old").exists():  # noqa: ASYNC110 - it has no other sign
            await asyncio.sleep(0)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))  # as good as a disk that is full
        try:
            with pytest.raises(IsADirectoryError):
                await offered
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        listener.rmdir()
        (tmp_path / "kept").rename(listener)
        del before[".made-for.json"]  # all would be made anew
        assert texts(tmp_path) == before

    asyncio.run(main())


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


# ---- an Envoy that is there, behind an interface that isn't always


@asynccontextmanager
async def envoy(folder: Path, files: EnvoyFiles) -> AsyncIterator[EnvoyAdmin]:
    """A real Envoy that goes by the files; yields its own interface."""
    admin, told = folder / "admin.sock", folder / "envoy.yaml"
    made = bootstrap(Directory(str(folder / "files")), processor=str(folder / "nobody.sock"), admin=str(admin))
    told.write_text(to_yaml(made))
    await files.begin(config("one"))
    command: list[str | Path] = [ENVOY, "-c", told, *ENVOY_ARGUMENTS, "--use-dynamic-base-id"]
    command += ["--concurrency", "1", "-l", "off"]
    child = await asyncio.create_subprocess_exec(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        async with asyncio.timeout(30):
            await EnvoyAdmin(str(admin)).until_ready()
        yield EnvoyAdmin(str(admin))
    finally:
        child.terminate()
        await child.wait()


class Relay:
    """Stands before Envoy's interface, and hangs up on some who ask."""

    def __init__(self, folder: Path) -> None:
        self.address = folder / "relay.sock"
        self._admin = folder / "admin.sock"
        self.asked = 0
        self.lost: set[int] = set()
        """Which questions get no answer."""
        self.heard = asyncio.Condition()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        server = await asyncio.start_unix_server(self._serve, self.address)
        try:
            yield
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked += 1
        if self.asked not in self.lost:
            question = await reader.readuntil(b"\r\n\r\n")
            answers, questions = await asyncio.open_unix_connection(str(self._admin))
            questions.write(question)
            writer.write(await answers.read())
            questions.close()
        writer.close()
        async with self.heard:
            self.heard.notify_all()


def test_a_question_without_an_answer_is_asked_again_until_envoy_is_ready(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Envoy isn't ready before the new backend has said how it is; and that says it after the lost questions."""

    async def main() -> None:
        relay = Relay(tmp_path)
        relay.lost = {2, 3}

        async def health(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            async with relay.heard:
                await relay.heard.wait_for(lambda: relay.asked >= 5)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            writer.close()

        backend = await asyncio.start_server(health, "127.0.0.1", 0)
        port = backend.sockets[0].getsockname()[1]
        files = EnvoyFiles(tmp_path / "files", EnvoyAdmin(str(relay.address)))
        async with relay.running(), envoy(tmp_path, files) as admin:
            await files.offer(config("one", two=f"127.0.0.1:{port}"), ())
            assert relay.asked >= 5
            taken = await admin.taken()
            assert version_of((tmp_path / "files" / CLUSTERS).read_text()) in taken.versions.values()
            assert taken.warming == 0
        backend.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert caplog.text.count("Envoy's admin interface doesn't answer: ") == 1


def test_an_envoy_that_stops_answering_is_given_all_the_time_there_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        relay = Relay(tmp_path)
        relay.lost = set(range(2, 10_000))
        files = EnvoyFiles(tmp_path / "files", EnvoyAdmin(str(relay.address)), patience=0.5)
        async with relay.running(), envoy(tmp_path, files):
            before = time.monotonic()
            await files.offer(config("one", "two"), ())
            assert time.monotonic() - before >= 0.5

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "Envoy isn't ready with clusters.yaml after 0.5 seconds; going on without waiting" in caplog.text


def test_a_refusal_that_nobody_saw_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The question before the file was written got lost: what Envoy refused since looks as if it had been before."""
    monkeypatch.setattr(publishing, "UNSEEN", 3.0)  # in which Envoy does refuse it

    class Spoilt(EnvoyFiles):
        async def _made(self, config: Config, leaving: Sequence[Backend]) -> dict[str, str]:
            made = await super()._made(config, leaving)
            told = yaml.safe_load(made[CLUSTERS])
            told["resources"][-1]["type"] = "STATIC" if len(config.backends) > 1 else "STRICT_DNS"
            return {**made, CLUSTERS: yaml.safe_dump(told, sort_keys=False)}

    async def main() -> None:
        relay = Relay(tmp_path)
        relay.lost = {1}
        files = Spoilt(tmp_path / "files", EnvoyAdmin(str(relay.address)), patience=2.0)
        async with relay.running(), envoy(tmp_path, files) as admin:
            before = texts(tmp_path / "files")[CLUSTERS]
            with pytest.raises(RefusedByEnvoyError, match=r"doesn't go by clusters\.yaml after 2 seconds"):
                await files.offer(config("one", two="a.name.that.is.no.address:80"), ())
            assert (await admin.taken()).refused["cds"] == 1
            assert texts(tmp_path / "files")[CLUSTERS] == before

    asyncio.run(main())


def test_a_processor_that_is_started_again_makes_nothing_anew(tmp_path: Path) -> None:
    def written() -> dict[str, int]:
        return {path.name: path.stat().st_ino for path in tmp_path.glob("[!.]*")}

    async def main() -> None:
        await EnvoyFiles(tmp_path, None).begin(config("one"))
        before = written()
        await EnvoyFiles(tmp_path, None).begin(config("one"))
        assert written() == before
        await EnvoyFiles(tmp_path, None).begin(config("two"))
        assert clusters(tmp_path) == ["two"], "made for another configuration"

    asyncio.run(main())


def test_what_was_refused_and_taken_back_is_nothing_that_is_waited_for(tmp_path: Path) -> None:
    """Else a processor that is started again would wait for a secret that no Envoy asks for."""
    old = config("one")
    backend = old.backends[0].model_copy(update={"api_key": tmp_path / "key"})
    refused = old.model_copy(update={"backends": (backend,), "listen": "127.0.0.1:1"})
    secret = tmp_path / "secret-key-one.yaml"

    async def main() -> None:
        files = EnvoyFiles(tmp_path, None)
        await files.begin(old)
        listener = tmp_path / "listener.yaml"
        listener.unlink()
        listener.mkdir()
        with pytest.raises(OSError, match="directory"):
            await files.offer(refused, ())
        assert secret.exists()
        listener.rmdir()
        await files.offer(old, ())
        assert not secret.exists()

    asyncio.run(main())


def test_what_is_not_as_it_was_made_is_made_anew(tmp_path: Path) -> None:
    """Whoever changed it: a hand, or a processor that was killed while it wrote for another configuration."""

    async def main() -> None:
        await EnvoyFiles(tmp_path, None).begin(config("one"))
        before = (tmp_path / "clusters.yaml").read_text()
        (tmp_path / "clusters.yaml").write_text(before.replace("one", "two"))
        await EnvoyFiles(tmp_path, None).begin(config("one"))
        assert (tmp_path / "clusters.yaml").read_text() == before

    asyncio.run(main())


def test_what_a_processor_left_unsettled_is_made_anew(tmp_path: Path) -> None:
    async def main() -> None:
        files = EnvoyFiles(tmp_path, None)
        await files.begin(config("one"))
        await files.offer(config("two"), config("one").backends)
        assert clusters(tmp_path) == ["two", "one"]
        await EnvoyFiles(tmp_path, None).begin(config("two"))
        assert clusters(tmp_path) == ["two"]

    asyncio.run(main())


def test_a_file_that_would_come_again_as_it_was_is_left_alone(tmp_path: Path) -> None:
    """Envoy counts a secret's file with the same text as taken, though it could never use what it names."""
    told = config("one")
    key = told.backends[0].model_copy(update={"api_key": tmp_path / "key"})

    async def main() -> None:
        await EnvoyFiles(tmp_path, None).begin(told.model_copy(update={"backends": (key,)}))
        before = (tmp_path / "secret-key-one.yaml").stat().st_ino
        longer = config("one", "two")
        await EnvoyFiles(tmp_path, None).begin(longer.model_copy(update={"backends": (key, *longer.backends[1:])}))
        assert clusters(tmp_path) == ["one", "two"]
        assert (tmp_path / "secret-key-one.yaml").stat().st_ino == before

    asyncio.run(main())


def test_a_file_that_envoy_has_to_try_again_says_the_same_in_other_words(tmp_path: Path) -> None:
    """An Envoy that could use it at once, and one that found a directory only later."""
    folder = tmp_path / "keys"
    told = config("one")
    backend = told.backends[0].model_copy(update={"api_key": folder / "key"})

    async def main() -> None:
        files = EnvoyFiles(tmp_path / "files", EnvoyAdmin(str(tmp_path / "admin.sock")))
        async with envoy(tmp_path, files) as admin:
            await files.until_taken()
            await files.begin(told.model_copy(update={"backends": (backend,)}))
            async with asyncio.timeout(30):
                waiting = asyncio.create_task(files.until_taken())
                while True:  # it has been refused again
                    if (await admin.taken()).secrets.get("key-one", Tries()).refused >= 2:
                        break
                    await asyncio.sleep(0.02)
                assert not waiting.done()
                folder.mkdir()
                (folder / "key").write_text("the-backends-own")
                await waiting
            tries = (await admin.taken()).secrets["key-one"]
            assert tries.all == tries.refused + 1

    asyncio.run(main())
