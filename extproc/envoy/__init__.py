"""Envoy's configuration, as ours implies it.

Built with the typed classes of `envoy-data-plane`, so that a misspelt field or a wrong type is an error here and not
in a cluster. Every setting stands beside its reason; the facts about Envoy were measured with version 1.40.
Importing these classes takes over a second: only what makes a bootstrap, or the files, should do it. So nothing is
imported here, nor in key_check, which a processor needs that makes neither.
"""
