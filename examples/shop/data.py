"""The shop's landing files, as two source systems write them: the same for the same day and size.

Day 1 is an ordinary day with a few invalid rows. Day 2 has what real sources have: late rows, duplicate rows, a
corrected order, a customer who moved, a new field, and more invalid rows.
"""

from __future__ import annotations

import json
import random
from datetime import date, datetime, timedelta
from pathlib import Path

FIRST = date(2026, 11, 1)
COUNTRIES = ("DE", "FR", "NL", "US")


def write_day(landing: Path, day: int, orders: int = 400) -> None:
    """Write the files of a day (1, 2, …) below `landing`."""
    today = FIRST + timedelta(days=day - 1)
    lines = _order_lines(today, day, orders) + (_surprises(today) if day > 1 else [])
    _write(landing / "orders" / f"{today}.json", lines + _broken(today))
    _write(landing / "customers" / f"{today}.csv", _customer_lines(today, day, max(orders // 10, 5)))


def _order_lines(today: date, day: int, count: int) -> list[str]:
    numbers = random.Random(day)
    lines = []
    for number in range(count):
        made = datetime.combine(today, datetime.min.time()) + timedelta(seconds=numbers.randrange(86_000))
        order = {
            "order_id": day * 10_000_000 + number,
            "customer_id": 1 + numbers.randrange(max(count // 10, 5)),
            "amount": numbers.randrange(100, 20_000) / 100,
            "currency": numbers.choice(("EUR", "EUR", "usd")),
            "status": numbers.choice(("paid", "paid", "paid", "cancelled")),
            "ordered_at": made.isoformat(),
            "updated_at": made.isoformat(),
        }
        if day > 1:
            order["channel"] = numbers.choice(("web", "store"))
        lines.append(json.dumps(order))
    return lines


def _surprises(today: date) -> list[str]:
    yesterday = today - timedelta(days=1)
    late = {
        "order_id": 10_900_001,
        "customer_id": 1,
        "amount": 75.5,
        "currency": "EUR",
        "status": "paid",
        "ordered_at": f"{yesterday}T23:59:30",
        "updated_at": f"{yesterday}T23:59:30",
    }
    corrected = {
        **late,
        "order_id": 10_000_000,
        "amount": 1.0,
        "ordered_at": f"{yesterday}T08:00:00",
        "updated_at": f"{today}T09:00:00",
    }
    outdated = {**corrected, "amount": 999.0, "updated_at": f"{yesterday - timedelta(days=1)}T00:00:00"}
    return [json.dumps(order) for order in (late, late, corrected, outdated)]


def _broken(today: date) -> list[str]:
    order = {
        "order_id": int(today.strftime("%Y%m%d")) * 10,
        "customer_id": 2,
        "amount": 10.0,
        "currency": "EUR",
        "status": "paid",
        "ordered_at": f"{today}T12:00:00",
        "updated_at": f"{today}T12:00:00",
    }
    return [
        json.dumps({**order, "amount": "twelve"}),
        json.dumps({**order, "amount": -5.0}),
        json.dumps({**order, "currency": "XXX"}),
        json.dumps({**order, "customer_id": None}),
        json.dumps(order)[:-20],
    ]


def _customer_lines(today: date, day: int, count: int) -> list[str]:
    if day > 1:
        moved = f"1,Customer 1,customer1@example.com,us,{today}T10:00:00"
        return [
            "customer_id,name,email,country,changed_at",
            moved,
            f"2,Customer 2,no-address,de,{today}T10:00:00",
        ]
    lines = ["customer_id,name,email,country,changed_at"]
    for number in range(1, count + 1):
        country = COUNTRIES[number % len(COUNTRIES)].lower()
        lines.append(f"{number},Customer {number},Customer{number}@example.com,{country},{today}T00:00:00")
    return lines


def _write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
