"""What an interpreter does with JSON schemas. Only imported where the library jsonschema is known to be there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from jsonschema_specifications import REGISTRY as STANDARD
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

REGISTRY: Registry[Any] = STANDARD
"""Where references outside of a schema are looked for: the standard's own documents, never the network."""


@lru_cache(maxsize=256)
def validator(schema: str) -> Validator:
    """Of a schema in JSON; its ``$schema`` says which draft it is, 2020-12 if nothing does."""
    contents = json.loads(schema)
    return validator_for(contents, default=Draft202012Validator)(contents, registry=REGISTRY)


def first_problem(question: Mapping[str, Any]) -> str:
    """The first problem of the values under their schemas, ``{"checks": [[schema, value], ...]}``; empty if none."""
    for schema, value in question["checks"]:
        problem = next(validator(schema).iter_errors(value), None)
        if problem is not None:
            why = f"{problem.json_path}: {problem.message}"[:200]
            return why.encode("utf-8", "backslashreplace").decode()  # a key may hold half a surrogate pair
    return ""


def unresolved(schema: Any) -> str:
    """The first reference of a schema that leads nowhere, or empty."""
    resource: Resource[Any] = Resource.from_contents(schema, default_specification=DRAFT202012)
    return _unresolved(resource, REGISTRY.resolver_with_root(resource))


def _unresolved(resource: Resource[Any], resolver: Any) -> str:
    contents = resource.contents
    references = [contents.get(key) for key in ("$ref", "$dynamicRef")] if isinstance(contents, dict) else []
    for reference in references:
        if isinstance(reference, str):
            try:
                resolver.lookup(reference)
            except Unresolvable:
                return reference
    for inner in resource.subresources():
        if found := _unresolved(inner, resolver.in_subresource(inner)):
            return found
    return ""
