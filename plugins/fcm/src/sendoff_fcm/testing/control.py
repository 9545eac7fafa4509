"""``/_control/...``: what another process can tell and ask the server, in JSON.

``POST answer``            ``{"token": "...", "answers": [SPEC, ...]}``; SPEC: a case's name or an answer as JSON
``POST answer_next``       ``{"answers": [SPEC, ...]}``
``POST answer_everyone``   ``{"answer": SPEC or null}``
``POST down``, ``POST token_down``   ``{"how": "unavailable", "seconds": 5}``; to refuse takes ``seconds`` on both
``POST up``, ``POST token_up``, ``POST expire_tokens``, ``POST reset``
``GET requests``           ``{"requests": [...]}``; ``?after=N`` only those with higher numbers, ``?token=T``
``GET counters``           see :class:`~sendoff_fcm.testing.records.Counters`
``GET service_account``    the JSON of a key file
``GET access_token``       ``{"access_token": "..."}``
``GET cases``              ``{"cases": {NAME: what it reaches}, "names": {...}}``

Any other path is 404, anything that is not as above 400 with ``{"error": "..."}``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

import orjson
from attrs import asdict

from sendoff_fcm.testing.answers import Answer, json_answer
from sendoff_fcm.testing.cases import CASES, NAMES
from sendoff_fcm.testing.site import CONTROL, Incoming

if TYPE_CHECKING:
    from sendoff_fcm.testing.local import LocalFCM

__all__ = ["Control"]

_DONE: Final[Mapping[str, Any]] = {"ok": True}


class Control:
    """Called with a request below ``/_control/``, in the server's thread."""

    def __init__(self, fcm: LocalFCM) -> None:
        self._fcm = fcm
        self._told: dict[str, Callable[[dict[str, Any]], None]] = {
            "answer": lambda told: fcm.answer(_text(told, "token"), *_list(told, "answers")),
            "answer_next": lambda told: fcm.answer_next(*_list(told, "answers")),
            "answer_everyone": lambda told: fcm.answer_everyone(told.get("answer")),
            "down": lambda told: fcm.down(told.get("how", "unavailable"), seconds=_seconds(told)),
            "token_down": lambda told: fcm.token_down(told.get("how", "unavailable"), seconds=_seconds(told)),
            "up": lambda _: fcm.up(),
            "token_up": lambda _: fcm.token_up(),
            "expire_tokens": lambda _: fcm.expire_tokens(),
            "reset": lambda _: fcm.reset(),
        }
        self._asked: dict[str, Callable[[dict[str, str]], Mapping[str, Any]]] = {
            "requests": self._requests,
            "counters": lambda _: asdict(fcm.counters),
            "service_account": lambda _: fcm.service_account(),
            "access_token": lambda _: {"access_token": fcm.access_token()},
            "cases": lambda _: {"cases": {case.name: case.reach for case in CASES.values()}, "names": NAMES},
        }

    def __call__(self, incoming: Incoming) -> Answer:
        path, _, query = incoming.path.partition("?")
        verb = path.removeprefix(CONTROL)
        try:
            if incoming.method == "POST" and verb in self._told:
                self._told[verb](_told(bytes(incoming.body)))
                return json_answer(200, _DONE, case="control")
            if incoming.method == "GET" and verb in self._asked:
                asked = {name: values[-1] for name, values in parse_qs(query).items()}
                return json_answer(200, self._asked[verb](asked), case="control")
        except (ValueError, TypeError, KeyError) as wrong:
            return json_answer(400, {"error": str(wrong)}, case="control")
        known = [f"POST {name}" for name in self._told] + [f"GET {name}" for name in self._asked]
        return json_answer(404, {"error": f"there is: {', '.join(known)}"}, case="control")

    def _requests(self, asked: dict[str, str]) -> Mapping[str, Any]:
        after = int(asked.get("after", "0"))
        token = asked.get("token")
        found = [
            request.to_json()
            for request in self._fcm.requests
            if request.number > after and (token is None or request.token == token)
        ]
        return {"requests": found}


def _told(body: bytes) -> dict[str, Any]:
    content = orjson.loads(body or b"{}")
    if not isinstance(content, dict):
        raise ValueError("the body is not a JSON object")
    return content


def _text(told: dict[str, Any], name: str) -> str:
    value = told.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} is not a string")
    return value


def _list(told: dict[str, Any], name: str) -> list[Any]:
    value = told.get(name, [])
    if not isinstance(value, list):
        raise ValueError(f"{name} is not a list")
    return value


def _seconds(told: dict[str, Any]) -> float | None:
    seconds = told.get("seconds")
    if seconds is None:
        if told.get("how") == "refuse":
            raise ValueError("to refuse takes seconds: this endpoint would be refused as well")
        return None
    return float(seconds)
