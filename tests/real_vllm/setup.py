"""Sets up a real vLLM and its model: `python -m tests.real_vllm.setup`.

The first time it downloads about 1.3 GB, takes some minutes and ends with 4 GB in the cache directory, which is
never inside the checkout and may be removed at any time. After that it only looks. A run that was killed is made good
by the next one, which keeps what was downloaded.
"""

from __future__ import annotations

import sys

from tests.real_vllm.cache import SetupError, locked, require_space, root
from tests.real_vllm.environment import Environment
from tests.real_vllm.model import Model

_GIGABYTES_ENVIRONMENT = 3.5


def main() -> int:
    """Set up what is missing; returns the exit status."""
    try:
        set_up()
    except SetupError as error:
        print(f"vLLM can't be set up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped; the next run goes on.", file=sys.stderr)
        return 130
    return 0


def set_up(model: Model | None = None) -> None:
    """Make the environment and the model unless they are there. Raises SetupError."""
    environment, model = Environment(), model or Model()
    if not (environment.is_ready and model.is_ready):
        with locked(root()):  # Another run may have finished them meanwhile: look again.
            if not environment.is_ready:
                print(f"vLLM for the CPU, in {environment.directory}:", flush=True)
                require_space(root(), _GIGABYTES_ENVIRONMENT)
                environment.make()
            if not model.is_ready:
                print(f"{model.name}, in {model.directory}:", flush=True)
                require_space(root(), 5 * model.megabytes / 1000)
                model.make(environment)
    print(f"vLLM and {model.name} are ready in {root()}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
