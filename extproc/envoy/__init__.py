"""Envoy's configuration, as ours implies it.

Built with the typed classes of `envoy-data-plane`, so that a misspelt field or a wrong type is an error here and not
in a cluster. Every setting stands beside its reason; the facts about Envoy were measured with version 1.40.
Importing these classes takes a while and memory: only what makes a bootstrap, or the files, should do it. So none is
imported here, nor in key_check, which a processor needs that makes neither.
"""

from extproc.envoy.betterproto import work_when_used

work_when_used()  # before any of the classes is imported
