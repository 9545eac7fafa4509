"""The last look at rows before their send begins."""

from __future__ import annotations

from collections.abc import Callable

from sendoff.deliver import knows_payload
from sendoff.errors import StoreError, StoreUnavailable
from sendoff.host import Host, Leased
from sendoff.plugin.channel import Channel
from sendoff.plugin.registry import ChannelSpec
from sendoff.policy import LOST_LEASES_LIMIT, Transition, poisoned
from sendoff.store.claim import Claimed
from sendoff.store.engine import PluginQueryError
from sendoff.verdict import Retryable, Verdict

__all__ = ["Preflight", "unfit"]

#: Rows of a newer payload version are offered again after this many seconds, to a worker that may know it.
NEWER_PAYLOAD_DELAY = 30.0


def unfit(row: Claimed, spec: ChannelSpec, *, running: bool, has_time: bool) -> Transition | None:
    """Why a row must not be tried now, as the transition that takes it away; None where it may be. Pure."""
    if row.cancel_requested:
        return Transition.released("on request")
    if row.lost_leases >= LOST_LEASES_LIMIT:
        return poisoned(row.lost_leases)
    if running:
        return Transition.released("its last call has not returned", delay=spec.limits.timeout)
    if not knows_payload(row, spec.channel):
        return Transition.released("its payload is newer than this worker", delay=NEWER_PAYLOAD_DELAY)
    if not has_time:
        return Transition.released("too little of its lease was left")
    return None


class Preflight:
    """The questions that need the database: is it still ours, and where is the recipient reached. One query a batch."""

    def __init__(
        self,
        spec: ChannelSpec,
        host: Host,
        write: Callable[[Claimed, Transition], None],
        decide: Callable[[Claimed, Verdict], None],
    ) -> None:
        self._spec = spec
        self._host = host
        self._write = write
        self._decide = decide
        channel = spec.channel
        self._has_addresses = channel.needs_address or type(channel).addresses is not Channel.addresses

    async def still_ours(self, leased: list[Leased]) -> list[Leased]:
        """Rows that were leased before may have been settled by their earlier worker meanwhile: read them again."""
        repeated = [item.row for item in leased if item.row.claim_count > 1]
        if not repeated:
            return leased
        try:
            held = await self._host.held(repeated)
        except StoreError:
            for item in leased:
                self._write(item.row, Transition.released("the database is away"))
            return []
        return [item for item in leased if item.row.claim_count == 1 or item.row.id in held]

    async def addressed(self, leased: list[Leased]) -> list[tuple[Leased, list[str]]]:
        """Each row with its addresses: its own, else the channel's, one look-up for all."""
        known: dict[str, list[str]] = {}
        if not self._has_addresses:
            return [(item, item.row.addresses or []) for item in leased]
        recipients = sorted({item.row.recipient for item in leased if item.row.addresses is None})
        if recipients:
            try:
                known = await self._host.look_up(self._spec, recipients)
            except StoreUnavailable:
                for item in leased:
                    self._write(item.row, Transition.released("the database is away"))
                return []
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin's look-up may raise anything
                self._failed([item.row for item in leased if item.row.addresses is None], error)
                leased = [item for item in leased if item.row.addresses is not None]
        return [
            (item, item.row.addresses if item.row.addresses is not None else known.get(item.row.recipient, []))
            for item in leased
        ]

    def _failed(self, rows: list[Claimed], error: BaseException) -> None:
        """That nobody could be asked says nothing about the message."""
        what = str(error) if isinstance(error, PluginQueryError) else f"{type(error).__name__}: {error}"
        verdict = Retryable(f"addresses could not be looked up: {what}", counts=False)
        for row in rows:
            self._decide(row, verdict)
