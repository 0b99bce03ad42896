"""What is done between the choice of a replica and the replica: filters of the cluster, which run for every route.

They run for every try again, with the headers of the request as they were before. So a retry still knows the header
that a replica is chosen by, which a route couldn't remove: Envoy removes a route's headers before it chooses. Of
answers they see a backend's own alone: neither Envoy's replies nor the processor's pass here.
"""

from __future__ import annotations

from envoy_data_plane.envoy.config.common.mutation_rules.v3 import HeaderMutation as Mutation
from envoy_data_plane.envoy.config.common.mutation_rules.v3 import HeaderMutationRemoveOnMatch
from envoy_data_plane.envoy.extensions.filters.http.credential_injector.v3 import CredentialInjector
from envoy_data_plane.envoy.extensions.filters.http.header_mutation.v3 import HeaderMutation, Mutations
from envoy_data_plane.envoy.extensions.filters.http.upstream_codec.v3 import UpstreamCodec
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager.v3 import HttpFilter
from envoy_data_plane.envoy.extensions.http.injected_credentials.generic.v3 import Generic
from envoy_data_plane.envoy.type.matcher.v3 import RegexMatcher, StringMatcher

from extproc.config import Backend
from extproc.envoy.extensions import extension, packed
from extproc.envoy.passing_headers import TO_BACKENDS, TO_CLIENTS, all_but
from extproc.envoy.secrets import key_name
from extproc.envoy.sources import Sources


def upstream_filters(backend: Backend, sources: Sources) -> list[HttpFilter]:
    """The whole chain."""
    filters = [_with_passing_headers(backend)]
    if backend.api_key is not None:
        filters.append(_with_key(backend, sources))
    filters.append(HttpFilter(name="envoy.filters.http.upstream_codec", typed_config=packed(UpstreamCodec())))
    return filters


def _with_passing_headers(backend: Backend) -> HttpFilter:
    mutations = Mutations(
        request_mutations=[_without_all_but(*TO_BACKENDS, *backend.headers)],
        response_mutations=[_without_all_but(*TO_CLIENTS)],
    )
    return HttpFilter(
        name="envoy.filters.http.header_mutation", typed_config=packed(HeaderMutation(mutations=mutations))
    )


def _without_all_but(*names: str) -> Mutation:
    matcher = StringMatcher(safe_regex=RegexMatcher(regex=all_but(names)))
    return Mutation(remove_on_match=HeaderMutationRemoveOnMatch(key_matcher=matcher))


def _with_key(backend: Backend, sources: Sources) -> HttpFilter:
    """`Authorization: Bearer` with what is in the key's file, without the white space around it."""
    key = sources.secret(key_name(backend))
    bearer = Generic(credential=key, header="authorization", header_value_prefix="Bearer ")
    injector = CredentialInjector(
        overwrite=True, credential=extension("envoy.http.injected_credentials.generic", bearer)
    )
    return HttpFilter(name="envoy.filters.http.credential_injector", typed_config=packed(injector))
