"""gRPC's health service, `grpc.health.v1.Health`: asked once, or watched."""

from __future__ import annotations

from google.protobuf.message import DecodeError
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from extproc.transport.call import Call, Services, Status

NAME = "grpc.health.v1.Health"


class Health:
    """What is known of the services, and who watches."""

    def __init__(self) -> None:
        self._serving: dict[str, bool] = {}
        self._watchers: dict[_Watch, None] = {}

    def set(self, service: str, *, serving: bool) -> None:
        """Tell of a service; of the whole server if its name is empty."""
        self._serving[service] = serving
        for watch in list(self._watchers):
            if watch.service == service:
                watch.tell(self.status(service))

    def status(self, service: str) -> int:
        """A number of HealthCheckResponse's; that of an unknown service if it is one."""
        match self._serving.get(service):
            case None:
                return HealthCheckResponse.SERVICE_UNKNOWN
            case serving:
                return HealthCheckResponse.SERVING if serving else HealthCheckResponse.NOT_SERVING

    @property
    def services(self) -> Services:
        """Its methods."""
        return {f"/{NAME}/Check": lambda call: _Check(self, call), f"/{NAME}/Watch": lambda call: _Watch(self, call)}

    def watched_by(self, watch: _Watch) -> None:
        self._watchers[watch] = None

    def left_by(self, watch: _Watch) -> None:
        self._watchers.pop(watch, None)


class _Check:
    def __init__(self, health: Health, call: Call) -> None:
        self._health = health
        self._call = call

    def received(self, message: bytes) -> None:
        service = _asked(self._call, message)
        if service is None:
            return
        status = self._health.status(service)
        if status == HealthCheckResponse.SERVICE_UNKNOWN:
            self._call.finish(Status.NOT_FOUND, "no such service")
            return
        self._call.send(_answer(status))
        self._call.finish()

    def half_closed(self) -> None:
        self._call.finish(Status.INVALID_ARGUMENT, "nothing was asked")

    def closed(self) -> None:
        pass


class _Watch:
    def __init__(self, health: Health, call: Call) -> None:
        self._health = health
        self._call = call
        self._told: int | None = None
        self.service: str | None = None
        """Which one; None before it was said."""

    def received(self, message: bytes) -> None:
        if self.service is None and (service := _asked(self._call, message)) is not None:
            self.service = service
            self._health.watched_by(self)
            self.tell(self._health.status(service))

    def tell(self, status: int) -> None:
        """Unless it is what the client knows."""
        if status != self._told:
            self._told = status
            self._call.send(_answer(status))

    def half_closed(self) -> None:
        if self.service is None:
            self._call.finish(Status.INVALID_ARGUMENT, "nothing was asked")

    def closed(self) -> None:
        self._health.left_by(self)


def _asked(call: Call, message: bytes) -> str | None:
    try:
        return HealthCheckRequest.FromString(message).service
    except DecodeError:
        call.finish(Status.INVALID_ARGUMENT, "not a HealthCheckRequest")
        return None


def _answer(status: int) -> bytes:
    return HealthCheckResponse(status=HealthCheckResponse.ServingStatus.ValueType(status)).SerializeToString()
