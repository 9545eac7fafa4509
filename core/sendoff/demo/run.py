"""The order of events: start workers, kill one that holds leases, take FCM down, wait until every row is final, account
for it all."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Protocol
from uuid import UUID

import sqlalchemy as sa
from attrs import define, field

from sendoff.demo.accounts import Accounts, settle_accounts
from sendoff.demo.devicebook import device_faults
from sendoff.demo.evidence import read_devices, read_inbox, read_lines, read_maildir
from sendoff.demo.facts import Device, Request, Row, Writing
from sendoff.demo.fcmoutage import FcmOutage, outage_report
from sendoff.demo.ledger import Progress, arrived, held_leases, read_rows, watch
from sendoff.demo.phones import Phones, read_phones
from sendoff.demo.processes import DemoFailed, Worker, interruptible
from sendoff.demo.pushlog import accepted, read_log
from sendoff.demo.report import Kill, Lines, Push, Report
from sendoff.demo.settings import CHANNELS, FETCHER, PUSH
from sendoff.demo.stage import Options, Stage, set_up
from sendoff.demo.truth import Truth, per_channel, read_truth
from sendoff.report import OutgoingView
from sendoff.store.sql import db_now

__all__ = ["Audience", "run"]

#: Seconds between two looks at the database.
LOOK = 0.1
#: Seconds from the first worker's start until the demo gives up. It takes ten of them on an idle machine.
PATIENCE = 120.0
#: Seconds that a worker gets to stop.
STOP = 15.0
#: The kill comes when this share of each channel's rows is final: all of the work is under way, and far from done.
KILL_AT = 0.1
#: Failed runs of the fetcher after which the demo does not hope any more.
FETCH_FAILURES = 3


class Audience(Protocol):
    """Who watches."""

    def step(self, text: str) -> None:
        """Something happened."""

    def progress(self, final: Mapping[str, int], promised: Mapping[str, int]) -> None:
        """So many rows of each channel are final."""


def run(options: Options, audience: Audience) -> Report:
    """The whole demo. :class:`~sendoff.demo.processes.DemoFailed` where it cannot be run to its end."""
    started = time.monotonic()
    with interruptible(), set_up(options) as stage:
        phones = None if stage.fcm is None else read_phones(stage.data)
        truth = read_truth(stage.data, phones)
        devices = f", {stage.registered.devices:,} devices" if stage.registered else ""
        audience.step(
            f"loaded {stage.loaded.orders:,} orders of {stage.loaded.customers:,} customers{devices} from CSV; "
            f"the database is {stage.database}"
        )
        if phones is None:
            audience.step("without push: sendoff-fcm is not installed")
        show = _Show(options, stage, truth, phones, audience)
        show.deliver()
        return show.account(started)


@define
class _Show:
    """One run, from the first worker on."""

    options: Options
    stage: Stage
    truth: Truth
    phones: Phones | None
    audience: Audience
    outage: FcmOutage | None = None
    workers: list[Worker] = field(factory=list)
    killed: tuple[Worker, list[str]] | None = None
    killed_at: datetime | None = None
    problems: list[str] = field(factory=list)

    # ---------------------------------------------------------------------------------------------- the delivery

    def deliver(self) -> None:
        """Leaves every row final and no worker running."""
        deadline = time.monotonic() + PATIENCE
        try:
            for _ in range(self.options.workers):
                self._start_worker()
            self.audience.step(f"started {self.options.workers} workers; the e-mail server refuses every fifth call")
            self._kill_one(deadline)
            if self.stage.fcm is not None:
                promised = per_channel(self.truth)[PUSH]
                self.outage = FcmOutage(self.stage.fcm, promised)
            self._wait_until_final(deadline)
            self._stop_workers()
        finally:
            for worker in self.workers:
                worker.kill()

    def _start_worker(self) -> Worker:
        name = f"worker-{len(self.workers) + 1}"
        worker = Worker(
            name,
            self.stage.places.config,
            self.stage.guard,
            database_url=self.stage.secret_url,
            plugin_paths=self.options.plugin_paths,
        )
        self.workers.append(worker)
        return worker

    def _looks(self, deadline: float) -> Iterator[Progress]:
        """One look after the other, with everything that can be wrong meanwhile."""
        promised = per_channel(self.truth)
        while True:
            look = watch(self.stage.app.store, FETCHER)
            self.audience.progress(look.final, promised)
            yield look
            for worker in self.workers:
                worker.check()
            if self.stage.fcm is not None:
                self.stage.fcm.check()
            if look.fetch_failures >= FETCH_FAILURES:
                raise DemoFailed(f"the fetcher {FETCHER} keeps failing: {look.fetch_error}")
            if time.monotonic() > deadline:
                raise DemoFailed(
                    f"not done after {PATIENCE:.0f} seconds: {look.finished:,} rows are final, {look.open:,} are open; "
                    f"the workers say: {'; '.join(worker.last_words() for worker in self.workers)}"
                )
            time.sleep(LOOK)

    def _kill_one(self, deadline: float) -> None:
        """SIGKILL a worker, but only one of which the database says that it holds leases.

        It is frozen for the look: what the database says of it then is still true when it is killed.
        """
        enough = {channel: KILL_AT * rows for channel, rows in per_channel(self.truth).items()}
        order = random.Random(self.options.seed).sample(self.workers, len(self.workers))
        for look in self._looks(deadline):
            if look.finished and not look.open and look.fetched_at is not None:
                self.problems.append("no worker was killed: everything was final before one was seen to hold leases")
                return
            # A fetcher's lease is a minute, long enough to wait for somebody's orders and too long for a demo.
            under_way = all(look.final.get(channel, 0) >= rows for channel, rows in enough.items())
            if not under_way or look.fetched_at is None:
                continue
            for worker in order:
                # Looked at twice, so that nobody is frozen for nothing.
                if not held_leases(self.stage.app.store, worker.pid) or not worker.freeze():
                    continue
                held = held_leases(self.stage.app.store, worker.pid)
                if not held:
                    worker.thaw()
                    continue
                with self.stage.app.store.reading() as connection:
                    self.killed_at = connection.scalar(sa.select(db_now()))
                worker.kill()
                self.killed = worker, held
                replacement = self._start_worker()
                self.audience.step(
                    f"killed {worker.name} (pid {worker.pid}, SIGKILL) while it held {len(held)} leases; "
                    f"started {replacement.name}"
                )
                return

    def _wait_until_final(self, deadline: float) -> None:
        """Until no row is open. The fetcher has been through all orders before the kill. Meanwhile FCM goes down."""
        for look in self._looks(deadline):
            if self.outage is not None and (news := self.outage.look(look)) is not None:
                self.audience.step(news)
            if look.fetched_at is not None and not look.open:
                self.audience.step(f"all {look.finished:,} rows are final")
                break
        if self.outage is not None and self.outage.problem is not None:
            self.problems.append(self.outage.problem)

    def _stop_workers(self) -> None:
        """SIGTERM, before anything is counted: nobody may write while the accounts are made."""
        alive = [worker for worker in self.workers if worker.running]
        serving = arrived(self.stage.app.store)
        for worker in alive:
            worker.tell_to_stop()
        for worker in alive:
            code = worker.wait_until_stopped(STOP)
            # The last one started may not have come to serving yet: then SIGTERM ends it as it ends any program.
            if code != 0 and not (code == -signal.SIGTERM and worker.pid not in serving):
                how = f"did not stop within {STOP:.0f} seconds" if code is None else f"stopped with exit code {code}"
                self.problems.append(f"{worker.name} {how}: {worker.last_words()}")

    # ---------------------------------------------------------------------------------------------- the accounts

    def account(self, started: float) -> Report:
        """Read the sources, compare them, and put it all into words."""
        places = self.stage.places
        with self.stage.app.store.reading() as connection:
            rows = list(read_rows(connection))
            requests = list(read_log(places.requests))
            devices = [] if self.phones is None else list(read_devices(connection))
            writings = [
                *read_inbox(connection, "inbox", after=self.stage.newest_entry),
                *read_maildir(places.maildir, "email"),
                *read_lines(places.lines, "sms"),
                *accepted(requests, PUSH),
            ]
        accounts = self._accounts(rows, writings, requests, devices)
        problems = [*self.problems, *self._load_problems(), *accounts.summary()]
        kept = self.options.keep or self.options.directory is not None
        return Report(
            balanced=not problems,
            problems=tuple(problems),
            seconds=round(time.monotonic() - started, 1),
            database=self.stage.database,
            folder=str(places.folder) if kept else None,
            lines=Lines(
                total=self.truth.lines,
                unusable=self.truth.unusable,
                replaced=self.truth.replaced,
                orders=len(self.truth.orders),
                unusable_lines=self.stage.loaded.problems,
            ),
            orders=self._orders(accounts),
            accounts=accounts,
            kill=self._kill_report(rows, writings),
            push=self._push_report(rows, requests, devices),
            example=self._example(rows),
        )

    def _accounts(
        self, rows: list[Row], writings: list[Writing], requests: list[Request], devices: list[Device]
    ) -> Accounts:
        promises = self.truth.promises
        if self.phones is None:
            return settle_accounts(promises, rows, writings, channels=CHANNELS)
        told = {promise.recipient for promise in promises if promise.channel == PUSH}
        faults = device_faults(self.phones.by_token, devices, requests, channel=PUSH, told=told)
        return settle_accounts(promises, rows, writings, channels=[*CHANNELS, PUSH], more=faults)

    def _load_problems(self) -> list[str]:
        """The loader's account of the lines against the accounts' own."""
        loaded = (self.stage.loaded.orders, self.stage.loaded.repeated, len(self.stage.loaded.problems))
        counted = (len(self.truth.orders), self.truth.replaced, self.truth.unusable)
        problems = []
        if loaded != counted:
            took = f"the loader took (orders, replaced, unusable) {loaded} from orders.csv"
            problems.append(f"{took}, which has {counted}")
        if self.phones is not None:
            said = self.stage.registered
            loaded = (said.devices, said.repeated, len(said.problems))
            counted = (len(self.phones.by_token), self.phones.repeated, self.phones.unusable)
            if loaded != counted:
                took = f"the loader took (devices, repeated, unusable) {loaded} from devices.csv"
                problems.append(f"{took}, which has {counted}")
        return problems

    def _orders(self, accounts: Accounts) -> dict[str, int]:
        """Every order in exactly one place; those with a fault are taken out of where they ought to be."""
        faulty_orders = set(accounts.faulty_orders)
        counts = self.truth.counts(without=faulty_orders)
        faulty = len(faulty_orders & set(self.truth.orders))
        return {**counts, "does not balance": faulty} if faulty else counts

    def _kill_report(self, rows: list[Row], writings: list[Writing]) -> Kill | None:
        if self.killed is None or self.killed_at is None:
            return None
        worker, held = self.killed
        final = {row.id for row in rows if row.status not in {"pending", "waiting"}}
        written = [(writing.row, writing.to) for writing in writings if writing.row in set(held)]
        return Kill(
            worker=worker.name,
            pid=worker.pid,
            at=self.killed_at,
            held=tuple(held),
            recovered=len(final & set(held)),
            repeats=len(written) - len(set(written)),
        )

    def _push_report(self, rows: list[Row], requests: list[Request], devices: list[Device]) -> Push | None:
        if self.phones is None:
            return None
        phones = self.phones.by_token
        states = Counter(phone.state for phone in phones.values())
        lasted = None if self.outage is None else self.outage.lasted
        codes = {phone.code for phone in phones.values()} - {None}
        return Push(
            devices=len(phones),
            live=states["live"],
            refused=states["dead"],
            replaced=states["replaced"],
            deactivated=sum(device.token in phones and device.reason in codes for device in devices),
            unusable_lines=self.stage.registered.problems,
            requests=len(requests),
            accepted=sum(request.accepted for request in requests),
            outage=None if lasted is None else outage_report(lasted, rows, requests),
        )

    def _example(self, rows: list[Row]) -> OutgoingView | None:
        """An e-mail that was retried, best of all one that the dead worker held."""
        held = set(self.killed[1]) if self.killed else set()
        retried = [row for row in rows if row.channel == "email" and row.status == "sent" and row.tries > 1]
        if not retried:
            return None
        row = max(retried, key=lambda row: (row.id in held, row.tries))
        return self.stage.app.show(UUID(row.id))
