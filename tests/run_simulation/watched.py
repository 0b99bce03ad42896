"""The real run, looked at."""

from __future__ import annotations

import itertools

from extproc.runner.run import Run
from extproc.runner.steps import CallTool, Effect, Input, ModelEnded, ModelSaid, Step, TimedOut, ToolEnded
from extproc.runner.tools import ToolResult
from tests.run_simulation.chance import OURS
from tests.run_simulation.world import World
from tests.simulation.checking import check


class Watched(Run):
    """Tells what it is told and what it answers, and is told some of it twice."""

    def __init__(self, world: World, *, slow: bool) -> None:
        new_id = map("ours_{}".format, itertools.count()).__next__
        super().__init__(world.messages, OURS, world.limits, new_id, tokens=world.tokens, begun=world.begun)
        self._world = world
        self._told: list[Input] = []
        self.ends = 0
        self.called: list[CallTool] = []
        self._slow = slow

    def start(self) -> Step:
        return self._watch(super().start())

    def receive(self, told: Input) -> Step:
        self._world.log(f"told {told}")
        if isinstance(told, TimedOut) and not self._slow and self._world.idle:
            self._world.wrong.append("the run waits for nothing")
        step = self._watch(super().receive(told))
        self._told.append(told)
        again = self._told[len(self._told) * 5 // 7]
        if not isinstance(again, ModelSaid) or again.round < self.rounds or self.ends:
            check(super().receive(again) == Step(), f"{again} counts twice")
        check(super().receive(ModelEnded(self.rounds + 1, {"prompt_tokens": 1})) == Step(), "a foreign round counts")
        check(super().receive(ToolEnded("nobody's", ToolResult("x"))) == Step(), "a foreign call counts")
        return step

    def _watch(self, step: Step) -> Step:
        check(not self.ends or step == Step(), "something comes behind the end")
        self.ends += step.end is not None
        self.called += [effect for effect in step.effects if isinstance(effect, CallTool)]
        effects: list[Effect] = list(step.effects)
        self._world.log(f"  said {list(step.out)}, does {effects}, ends {step.end}")
        return step
