"""The few expressions in which the two databases differ, so that every other statement is written once."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Double, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from sendoff.types import UtcTime

__all__ = ["db_now", "plus", "seconds_between"]


class db_now(FunctionElement[Any]):  # noqa: N801 - a SQL function, spelt like one
    """The database's clock at the start of the statement, never the transaction's start."""

    type = UtcTime()
    inherit_cache = True


class plus(FunctionElement[Any]):  # noqa: N801 - as above
    """``plus(moment, seconds)``: a moment some seconds later."""

    type = UtcTime()
    inherit_cache = True

    def __init__(self, moment: ColumnElement[Any], seconds: ColumnElement[Any] | float) -> None:
        value = seconds if isinstance(seconds, ColumnElement) else literal(float(seconds), Double())
        super().__init__(moment, value)


class seconds_between(FunctionElement[Any]):  # noqa: N801 - as above
    """``seconds_between(earlier, later)`` as a number, negative when they are the other way round."""

    type = Double()
    inherit_cache = True


@compiles(db_now, "postgresql")
def _now_postgresql(element: db_now, compiler: SQLCompiler, **kw: Any) -> str:
    return "statement_timestamp()"


@compiles(db_now, "sqlite")
def _now_sqlite(element: db_now, compiler: SQLCompiler, **kw: Any) -> str:
    # A scalar subquery is evaluated once for the statement; a bare call once for each row.
    return "(SELECT sendoff_now())"


def _arguments(element: FunctionElement[Any], compiler: SQLCompiler, **kw: Any) -> list[str]:
    return [compiler.process(clause, **kw) for clause in element.clauses]


@compiles(plus, "postgresql")
def _plus_postgresql(element: plus, compiler: SQLCompiler, **kw: Any) -> str:
    moment, seconds = _arguments(element, compiler, **kw)
    return f"({moment} + {seconds} * interval '1 second')"


@compiles(plus, "sqlite")
def _plus_sqlite(element: plus, compiler: SQLCompiler, **kw: Any) -> str:
    moment, seconds = _arguments(element, compiler, **kw)
    return f"({moment} + CAST(round({seconds} * 1000000) AS INTEGER))"


@compiles(seconds_between, "postgresql")
def _between_postgresql(element: seconds_between, compiler: SQLCompiler, **kw: Any) -> str:
    earlier, later = _arguments(element, compiler, **kw)
    return f"CAST(extract(epoch FROM ({later} - {earlier})) AS double precision)"


@compiles(seconds_between, "sqlite")
def _between_sqlite(element: seconds_between, compiler: SQLCompiler, **kw: Any) -> str:
    earlier, later = _arguments(element, compiler, **kw)
    return f"(({later} - {earlier}) / 1000000.0)"
