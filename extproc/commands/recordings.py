"""Recordings as commands are given them: by the paths of their files."""

from __future__ import annotations

from pathlib import Path

from extproc.recording.document import Document, RecordingError


def read_recording(path: Path) -> Document:
    """Raises RecordingError, also for a file that can't be read: of several, the others are told of all the same."""
    try:
        return Document.read(path.read_bytes())
    except FileNotFoundError:
        raise RecordingError("no such file; `extproc record DIRECTORY --backend URL` makes recordings") from None
    except OSError as error:
        raise RecordingError(f"can't be read: {error.strerror}") from error
