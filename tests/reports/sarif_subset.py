"""The members of SARIF 2.1.0 that audit reports use, as a schema that allows no others.

Stricter than SARIF's own schema wherever both speak: what passes here passes there.
"""

from __future__ import annotations

from typing import Any

TEXT = {"type": "string", "minLength": 1}
COUNT = {"type": "integer", "minimum": 0}


def closed(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(required),
        "properties": required | optional,
        "additionalProperties": False,
    }


def many(item: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": item, **more}


MESSAGE = closed({"text": TEXT})
REFERENCE = closed({"id": TEXT, "index": COUNT, "toolComponent": closed({"name": TEXT, "index": COUNT})})
LEVEL = {"enum": ["none", "note", "warning", "error"]}
TAGS = many(TEXT, maxItems=20, uniqueItems=True)
NAMED = closed({"name": TEXT, "index": COUNT})
LOCATION = closed(
    {
        "physicalLocation": closed(
            {"artifactLocation": closed({"uri": {**TEXT, "format": "uri-reference"}, "index": COUNT})},
            region=closed({"byteOffset": COUNT, "byteLength": COUNT}),
        )
    },
    logicalLocations=many(closed({"fullyQualifiedName": TEXT, "kind": TEXT})),
)
RULE = closed(
    {
        "id": TEXT,
        "shortDescription": MESSAGE,
        "fullDescription": MESSAGE,
        "help": MESSAGE,
        "defaultConfiguration": closed({"level": LEVEL}),
        "properties": {
            "type": "object",
            "required": ["tags"],
            "properties": {
                "tags": TAGS,
                "security-severity": {"type": "string", "pattern": r"^(10|[0-9])\.[0-9]$"},
            },
        },
    },
    relationships=many(closed({"target": REFERENCE, "kinds": many(TEXT)})),
)
RESULT = closed(
    {
        "ruleId": TEXT,
        "ruleIndex": COUNT,
        "level": LEVEL,
        "message": MESSAGE,
        "locations": many(LOCATION, minItems=1),
        "partialFingerprints": {"type": "object", "additionalProperties": TEXT},
        "properties": {"type": "object"},
    },
    taxa=many(REFERENCE),
)
TAXONOMY = closed(
    {
        "name": TEXT,
        "organization": TEXT,
        "shortDescription": MESSAGE,
        "informationUri": TEXT,
        "isComprehensive": {"type": "boolean"},
        "taxa": many(closed({"id": TEXT, "shortDescription": MESSAGE, "helpUri": TEXT})),
    }
)
RUN = closed(
    {
        "tool": closed(
            {
                "driver": closed(
                    {
                        "name": TEXT,
                        "organization": TEXT,
                        "version": TEXT,
                        "shortDescription": MESSAGE,
                        "rules": many(RULE, maxItems=25_000, uniqueItems=True),
                        "supportedTaxonomies": many(NAMED),
                    }
                )
            }
        ),
        "invocations": many(
            closed(
                {
                    "executionSuccessful": {"type": "boolean"},
                    "toolExecutionNotifications": many(closed({"level": LEVEL, "message": MESSAGE})),
                }
            )
        ),
        "taxonomies": many(TAXONOMY),
        "artifacts": many(
            closed({"location": closed({"uri": TEXT}), "roles": many(TEXT)}, length=COUNT), uniqueItems=True
        ),
        "results": many(RESULT, maxItems=25_000),
        "properties": {"type": "object"},
    }
)
SCHEMA: dict[str, Any] = closed(
    {"$schema": TEXT, "version": {"const": "2.1.0"}, "runs": many(RUN, minItems=1, maxItems=20)}
)
