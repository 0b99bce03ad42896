"""What generated rows are made of: tools, values and sentences, of which a seed picks; so no two rows are alike."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
BOOLEAN = {"type": "boolean"}
STRINGS = {"type": "array", "items": STRING}

TOOLS: Mapping[str, Mapping[str, Any]] = {
    "get_weather": {"city": STRING, "days": INTEGER, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
    "write_file": {"path": STRING, "text": STRING},
    "search": {"query": STRING, "limit": INTEGER, "exact": BOOLEAN},
    "send_message": {"to": STRING, "text": STRING},
    "book_room": {
        "place": {"type": "object", "properties": {"city": STRING, "floor": INTEGER}},
        "guests": STRINGS,
        "price": NUMBER,
        "refundable": BOOLEAN,
    },
    "get_time": {},
    "list_users": {},
    "set_reminder": {"text": STRING, "note": {"anyOf": [STRING, {"type": "null"}]}, "repeat": BOOLEAN},
    "convert": {"amount": NUMBER, "digits": INTEGER},
    "describe": {"größe": STRING, "城市": STRING},
    "query_table": {"from": STRING, "class": STRING, "name": STRING, "arguments": STRING},
    "get-user_Profile2": {"id": STRING},
}

_CITIES = "Paris Oslo Lima Kyoto Quito Dakar Turin Perth Accra Hanoi Malmö Zürich Porto Leeds Basel Tunis".split()
_PEOPLE = "Ada Grace Alan Edsger Barbara Donald Radia Ken Dennis Margaret Leslie Frances John Adele".split()
_NOUNS = "report invoice draft poem recipe letter map plan ticket budget diary contract novel song".split()
_BEFORE = (
    "Let me look at the {noun} of {person}.",
    "I will check {city} first.",
    "Sure, one moment: {person} asked for the {noun}.",
    "Here is what I need for {city}.",
)
_BETWEEN = ("And now {city}.", "Then there is {person}.", "Next comes the {noun} of {person}.")
_AFTER = ("That should do for {city}.", "I am done with the {noun}.", "Tell {person} when it is there.")
_THOUGHTS = (
    "The user wants the {noun}. I should ask about {city}.",
    "{person} is in {city}, so I need a tool for that.",
    "First the {noun},\nthen {city}. One call is enough.",
)
_ANSWERS = (
    "The {noun} of {person} is in {city}, and I need no tool for that.",
    "{person} lives in {city}. Ask me for the {noun} if you want it.",
    "No tool helps here: a {noun} from {city} is a {noun}.",
)


@dataclass(frozen=True, slots=True)
class Material:
    """The choices of one row."""

    source: random.Random

    def pick(self, pool: tuple[str, ...] | list[str]) -> str:
        return self.source.choice(pool)

    def city(self) -> str:
        return self.pick(_CITIES)

    def person(self) -> str:
        return self.pick(_PEOPLE)

    def noun(self) -> str:
        return self.pick(_NOUNS)

    def number(self, most: int = 99) -> int:
        return self.source.randint(2, most)

    def say(self, pool: tuple[str, ...]) -> str:
        return self.pick(pool).format(city=self.city(), person=self.person(), noun=self.noun())

    def before(self) -> str:
        return self.say(_BEFORE)

    def between(self) -> str:
        return self.say(_BETWEEN)

    def after(self) -> str:
        return self.say(_AFTER)

    def thought(self) -> str:
        return self.say(_THOUGHTS)

    def answer(self) -> str:
        return self.say(_ANSWERS)

    def weather(self) -> tuple[str, dict[str, Any]]:
        unit = self.pick(("celsius", "fahrenheit"))
        return "get_weather", {"city": self.city(), "days": self.number(14), "unit": unit}

    def message(self, text: str) -> tuple[str, dict[str, Any]]:
        return "send_message", {"to": self.person(), "text": text}

    def file(self, text: str) -> tuple[str, dict[str, Any]]:
        return "write_file", {"path": f"{self.noun()}-{self.number(999)}.txt", "text": text}

    def clause(self) -> str:
        return f"{self.person()} has the {self.noun()} of {self.city()}"

    def sentence(self) -> str:
        return f"{self.person()} keeps the {self.noun()} of {self.person()} in {self.city()}, shelf {self.number()}."


def definition(name: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """An OpenAI tool definition."""
    parameters = {"type": "object", "properties": dict(properties)}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def offered(*names: str) -> list[dict[str, Any]]:
    return [definition(name, TOOLS[name]) for name in dict.fromkeys(names)]
