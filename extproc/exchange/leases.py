"""What one exchange holds of what clients share (`concurrency`), from when it is taken until it is given back."""

from __future__ import annotations

from extproc.config import Backend, Team
from extproc.contract.errors import (
    ApiError,
    too_many_batch_requests,
    too_many_of_team,
    too_many_requests,
    too_many_uploads,
)
from extproc.exchange.concurrency import TEAMS, UPLOAD_BYTES, UPLOADS, Lease, batch_of
from extproc.exchange.context import ExchangeContext
from extproc.names import SMALL_BODY


class Leases:
    """Of one exchange. `close` must follow, whatever happened."""

    def __init__(self, context: ExchangeContext) -> None:
        self._terms = context
        self.client: str | None = None
        """Whose exchange it is, where clients are told from each other."""
        self.team: Team | None = None
        """Of that client, where the settings name it."""
        self._place: Lease | None = None
        self._upload: Lease | None = None

    def place_at(self, backend: Backend) -> Lease | None:
        """A place at the backend; None where nobody counts them. Raises ApiError when the client, or its team, has its
        share."""
        concurrency, limit = self._terms.concurrency, self._terms.config.limits.concurrent_requests
        if self.client is None:
            # Whether others are to be asked hangs on how many it has.
            if backend in self._terms.config.backends_with_fallback:
                self._place = concurrency.take("", backend.name, backend.max_requests, alone=True)
            return self._place
        first = self._place_of_batch(backend, self.client, limit, self._place_of_team())
        self._place = concurrency.take(
            self.client, backend.name, backend.max_requests, limit, alone=self._alone, together_with=first
        )
        if self._place is None:
            self._give_back(first)
            raise too_many_requests(concurrency.used(self.client, backend.name))
        return self._place

    def _place_of_batch(self, backend: Backend, client: str, limit: int | None, of_team: Lease | None) -> Lease | None:
        """One among those that batch requests may have there, with `of_team`; that alone for any other request."""
        if self.team is None or not self.team.is_batch:
            return of_team
        concurrency, most, resource = self._terms.concurrency, backend.batch_places, batch_of(backend.name)
        place = concurrency.take(client, resource, most, limit, alone=self._alone, bounded=True, together_with=of_team)
        if place is None:
            self._give_back(of_team)
            raise too_many_batch_requests(concurrency.used(client, resource), concurrency.used_by_all(resource), most)
        return place

    def _give_back(self, lease: Lease | None) -> None:
        if lease is not None:
            self._terms.concurrency.release(lease.number)

    def _place_of_team(self) -> Lease | None:
        """One among those of the client's team; None where nobody counts them."""
        concurrency, team = self._terms.concurrency, self.team
        if team is None or (most := team.concurrent_requests) is None:
            return None
        place = concurrency.take(team.name, TEAMS, most, alone=True)
        if place is None:
            raise too_many_of_team(team.name, concurrency.used(team.name, TEAMS))
        return place

    def let_in(self, announced: str, *, counted: bool = True) -> None:
        """Count a body against what its client may send at a time; `announced` is its `content-length`.

        One that isn't `counted` is a round's: its run's own body was.

        One of unknown length may be as large as any. Raises ApiError when it is too large, or too much.
        """
        limit = self._terms.config.limits.max_body_bytes
        size = int(announced) if len(announced) < 20 and announced.isdecimal() else limit
        if size > limit:
            raise too_large(limit)
        if not counted:
            return
        self._upload = self._upload_of(size)
        if size > SMALL_BODY and self._upload is None:
            raise too_many_uploads(self._terms.concurrency.used(self.client or "", UPLOADS))

    def arrived(self, size: int) -> None:
        """The body is as large as it is, whatever was announced: Envoy keeps it until the answer begins."""
        if self._upload is not None:
            self.uploaded()
            self._upload = self._upload_of(size)

    def uploaded(self) -> None:
        """Envoy has let go of the request's body, or is about to."""
        if self._upload is not None:
            self._terms.concurrency.release(self._upload.number)
            self._upload = None

    def close(self, *, passed_by: bool) -> None:
        """The exchange is over; `passed_by`: only for the processor, while its answer goes on."""
        self.uploaded()
        if self._place is not None:
            if passed_by:
                self._terms.concurrency.passed(self._place)
            else:
                self._terms.concurrency.release(self._place.number)
            self._place = None

    def _upload_of(self, size: int) -> Lease | None:
        if size <= SMALL_BODY:
            return None
        return self._terms.concurrency.take(self.client or "", UPLOADS, UPLOAD_BYTES, amount=size, alone=self._alone)

    @property
    def _alone(self) -> bool:
        """Whether there is nobody to share with, or nobody is told from another."""
        if self._terms.config.jwt is not None:
            return False  # nobody knows how many have tokens
        return self._terms.keys is None or len(self._terms.keys.names) == 1


def too_large(limit: int) -> ApiError:
    """A 413: the request's body has more bytes than `limit`."""
    message = f"The request body is larger than {limit} bytes, the most that this gateway accepts."
    return ApiError(413, message, code="request_too_large")
