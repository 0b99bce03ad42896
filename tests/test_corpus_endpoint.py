"""What the corpus makes of servers that break: a row fails, and the others are judged all the same."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from extproc.corpus import judge_url, load
from extproc.corpus.command import main

ROW = next(row for row in load(["hermes"]) if row.expected.content and not row.expected.calls)
_HEAD = b"HTTP/1.1 200 OK\r\nconnection: close\r\n"


@contextmanager
def answering(*answers: bytes) -> Iterator[str]:
    """A server that answers each connection with the next of these bytes, and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            for answer in answers:
                connection, _ = listening.accept()
                with connection:
                    _read(connection)  # all of it: what is left unread would reset the connection
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        thread.join(10)


def _read(connection: socket.socket) -> None:
    with connection.makefile("rb") as request:
        lines = iter(request.readline, b"\r\n")
        headers = dict(line.lower().split(b":", 1) for line in lines if b":" in line)
        request.read(int(headers[b"content-length"]))


def _whole() -> bytes:
    return _HEAD + b"\r\n" + json.dumps({"choices": [{"message": {"content": ROW.expected.content}}]}).encode()


def _events(separator: str, line_end: str) -> bytes:
    chunk = json.dumps({"choices": [{"delta": {"content": ROW.expected.content}}]})
    text = f"data:{separator}{chunk}{line_end * 2}data:{separator}[DONE]{line_end * 2}"
    return _HEAD + b"\r\n" + text.encode()


@pytest.mark.parametrize(("separator", "line_end"), [(" ", "\n"), ("", "\n"), (" ", "\r\n")])
def test_events_are_read_in_each_legal_form(separator: str, line_end: str) -> None:
    with answering(_whole(), _events(separator, line_end)) as url:
        assert judge_url(url, [ROW], model="m").failures == ()


def test_what_breaks_fails_a_row_and_not_the_judgement() -> None:
    cut = _HEAD + b"transfer-encoding: chunked\r\n\r\n40\r\ndata: {"
    with answering(b"", cut, _whole(), _events(" ", "\n")) as url:
        report = judge_url(url, [ROW, ROW], model="m")
    assert len(report.verdicts) == 2
    [failed] = report.failures
    assert "the connection broke: RemoteDisconnected" in str(failed)
    assert "IncompleteRead" in str(failed)


def test_others_are_asked_only_when_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["http://192.0.2.1/v1", "--format", "hermes"]) == 2
    assert "--allow-remote asks it anyway" in capsys.readouterr().err
