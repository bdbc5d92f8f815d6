"""Plans of tests with some of their keys changed."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import planner
from planner.engine import instance as case
from planner.engine.evaluate import Evaluation
from planner.questions import loading
from planner.results.result import Result


def changed(document: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A document with other values by dotted key; where keywords name keys, a dot is written as
    two underscores."""
    found = deepcopy(dict(document))
    for dotted, value in changes.items():
        *around, last = dotted.replace("__", ".").split(".")
        node = found
        for step in around:
            node = node.setdefault(step, {})
        node[last] = value
    return found


def merged(document: Mapping[str, Any], **more: Mapping[str, Any]) -> dict[str, Any]:
    """A document with further keys in its sections."""
    return {**document, **{key: {**document.get(key, {}), **keys} for key, keys in more.items()}}


def result_of(document: Mapping[str, Any], **more: Mapping[str, Any]) -> Result:
    """Such a document, as a result."""
    return planner.load(merged(document, **more)).evaluate()


def evaluation_of(document: Mapping[str, Any], changes: Mapping[str, Any]) -> Evaluation:
    """A document with other values by dotted key, evaluated."""
    return Evaluation(case.build(loading.load(changed(document, changes))))
