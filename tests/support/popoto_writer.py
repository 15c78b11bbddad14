"""The two models as popoto 1.x declares them, written and queried by popoto itself: JSON lines in, JSON lines out."""

import json
import os
import sys
from typing import Any

# Read when popoto is imported, and by nothing after that.
os.environ["REDIS_URL"] = sys.argv[1]

import popoto  # type: ignore[import-untyped]


class AgentSession(popoto.Model):  # type: ignore[misc]
    session_id = popoto.UniqueKeyField()
    project_key = popoto.KeyField()
    status = popoto.KeyField(default="active")
    chat_id = popoto.Field(null=True)
    sender = popoto.Field(null=True)
    started_at = popoto.SortedField(type=float, partition_by="project_key")
    last_activity = popoto.SortedField(type=float)
    tool_call_count = popoto.Field(type=int, default=0)
    branch_name = popoto.Field(null=True)
    work_item_slug = popoto.Field(null=True)
    message_text = popoto.Field(max_length=20_000, null=True)
    classification_type = popoto.Field(null=True)
    classification_confidence = popoto.Field(type=float, null=True)


class RedisJob(popoto.Model):  # type: ignore[misc]
    job_id = popoto.AutoKeyField()
    project_key = popoto.KeyField()
    status = popoto.KeyField(default="pending")
    priority = popoto.Field(default="high")
    created_at = popoto.SortedField(type=float, partition_by="project_key")
    session_id = popoto.Field()
    working_dir = popoto.Field(null=True)
    message_text = popoto.Field(max_length=20_000, null=True)
    sender_name = popoto.Field(null=True)
    sender_id = popoto.Field(type=int, null=True)
    chat_id = popoto.Field(null=True)
    message_id = popoto.Field(type=int, null=True)
    chat_title = popoto.Field(null=True)
    revival_context = popoto.Field(null=True)
    workflow_id = popoto.Field(null=True)
    work_item_slug = popoto.Field(null=True)
    task_list_id = popoto.Field(null=True)


MODELS: dict[str, Any] = {"AgentSession": AgentSession, "RedisJob": RedisJob}


def answer(order: dict[str, Any]) -> Any:
    fields = order["fields"]
    if "create" in order:
        MODELS[order["create"]].create(**fields)
        return "saved"
    if "delete" in order:
        for each in MODELS[order["delete"]].query.filter(**fields):
            each.delete()
        return "deleted"
    model = MODELS[order["query"]]
    names = list(model._meta.fields)
    found = model.query.filter(**fields) if fields else model.query.all()
    return [{name: getattr(each, name) for name in names} for each in found]


def main() -> None:
    for line in sys.stdin:
        try:
            said = answer(json.loads(line))
        except Exception as error:  # noqa: BLE001 - the caller gets it
            said = f"{type(error).__name__}: {error}"
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
