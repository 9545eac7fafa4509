"""Requeueing with an honest answer."""

from __future__ import annotations

from functools import partial
from uuid import UUID

from attrs import evolve

from sendoff.errors import NotFound, NotPossible
from sendoff.report import OutgoingView
from sendoff.store import Store, acts, reports
from sendoff.store.acts import RequeueFilter

__all__ = ["refusal", "requeue"]


def requeue(store: Store, chosen: RequeueFilter, *, dry_run: bool) -> int:
    """Requeue the chosen rows, in chunks; their number. Named rows that cannot be requeued are refused first."""
    found: dict[UUID, OutgoingView] = {}
    if chosen.ids is not None:
        found = store.read(lambda connection: reports.find_rows_by_id(connection, list(chosen.ids or ())))
        for id in chosen.ids:
            if id not in found:
                raise NotFound("outgoing row", id)
    able = store.read(lambda connection: acts.requeueable(connection, chosen))
    if chosen.ids is not None and able < len(set(chosen.ids)):
        for id in chosen.ids:
            if not store.read(partial(acts.requeueable, chosen=evolve(chosen, ids=[id]))):
                why = refusal(found[id], has_ttl=chosen.ttl is not None)
                raise NotPossible(f"row {id} cannot be requeued: {why}")
    if dry_run:
        return able
    done = 0
    while True:
        moved = store.run(lambda connection: acts.requeue(connection, chosen))
        done += len(moved)
        if len(moved) < acts.REQUEUE_CHUNK:
            return done


def refusal(row: OutgoingView, *, has_ttl: bool) -> str:
    """Why a row that cannot be requeued cannot, in words. Pure."""
    if row.status in {"pending", "waiting"}:
        return "it has not ended yet; the next try comes by itself"
    if row.status in {"sent", "delivered"}:
        return f"it is {row.status}"
    if row.status == "cancelled" and row.reason == "step_not_needed":
        return "it is a step that its predecessor's outcome made needless"
    if row.status == "expired" and not has_ttl:
        return "it has expired; give it a new ttl"
    return "it is sensitive, so its content is gone, or it has expired (give it a new ttl)"
