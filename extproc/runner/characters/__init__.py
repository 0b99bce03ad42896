"""Characters: Python files of the operator's that say how a model speaks, and hold tools for it.

A character's code is somebody's, and may do anything: it runs in processes of its own only, also when it is loaded,
which are confined, and killed when they take too long. Here is what the rest of the runner sees of it.

    directory    which characters there are, and what changes
    character    one of them, and its calls
    validation   the rules for what a file defines
    parameters   the rules for the arguments of a call
    pool         the workers of one character
    worker       one worker, as the runner sees it (with channel and process)
    program      what runs in it, within sandbox
"""

from extproc.runner.characters.character import Character
from extproc.runner.characters.directory import Characters, look, tell
from extproc.runner.characters.validation import Kind, Problem, State

__all__ = ["Character", "Characters", "Kind", "Problem", "State", "look", "tell"]
