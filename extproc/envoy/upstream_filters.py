"""What is done to a request behind the choice of its replica: filters of the cluster, which run for every route.

They run for every try again, with the headers of the request as they were before. So a retry still knows the header
that a replica is chosen by, which a route couldn't remove: Envoy removes a route's headers before it chooses.
"""

from __future__ import annotations

from envoy_data_plane.envoy.config.common.mutation_rules.v3 import HeaderMutation as Mutation
from envoy_data_plane.envoy.extensions.filters.http.credential_injector.v3 import CredentialInjector
from envoy_data_plane.envoy.extensions.filters.http.header_mutation.v3 import HeaderMutation, Mutations
from envoy_data_plane.envoy.extensions.filters.http.upstream_codec.v3 import UpstreamCodec
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager.v3 import HttpFilter
from envoy_data_plane.envoy.extensions.http.injected_credentials.generic.v3 import Generic

from extproc.config import Backend
from extproc.envoy.extensions import extension, packed
from extproc.envoy.secrets import key_name, reference
from extproc.names import AFFINITY_HEADER


def upstream_filters(backend: Backend, directory: str | None) -> list[HttpFilter]:
    """The whole chain, or nothing where Envoy's own will do. `directory`: see `extproc.envoy.secrets.reference`."""
    filters = []
    if backend.affinity:
        filters.append(_without(AFFINITY_HEADER))
    if backend.api_key is not None:
        filters.append(_with_key(backend, directory))
    if filters:
        filters.append(HttpFilter(name="envoy.filters.http.upstream_codec", typed_config=packed(UpstreamCodec())))
    return filters


def _without(header: str) -> HttpFilter:
    removed = HeaderMutation(mutations=Mutations(request_mutations=[Mutation(remove=header)]))
    return HttpFilter(name="envoy.filters.http.header_mutation", typed_config=packed(removed))


def _with_key(backend: Backend, directory: str | None) -> HttpFilter:
    """`Authorization: Bearer` with what is in the key's file, without the white space around it."""
    bearer = Generic(
        credential=reference(key_name(backend), directory), header="authorization", header_value_prefix="Bearer "
    )
    injector = CredentialInjector(
        overwrite=True, credential=extension("envoy.http.injected_credentials.generic", bearer)
    )
    return HttpFilter(name="envoy.filters.http.credential_injector", typed_config=packed(injector))
