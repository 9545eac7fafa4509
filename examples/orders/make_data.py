"""Makes customers.csv, orders.csv and devices.csv in data, the same bytes every time: python make_data.py

All of it is made up. E-mail domains are those that RFC 2606 reserves, phone numbers those that regulators set aside
for fiction (North America 555-01xx, United Kingdom 07700 900xxx, France 06 39 98 xx xx). The mess is real: it is what
exports of shops look like. Push tokens are made up too; those that begin with dead-, malformed- or foreign- are what
FCM calls by these names, which the local FCM of sendoff-fcm knows from the name.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from io import StringIO
from pathlib import Path

DATA = Path(__file__).parent / "src" / "sendoff_example_orders" / "data"
CUSTOMERS = 700
ORDERS = 1_250
DEVICES = 1_500
#: language -> given names, family names; each as (written, ASCII). Some are drawn more often than others.
FAMILIES: dict[str, tuple[list[tuple[str, str]], list[tuple[str, str]]]] = {
    "en": (
        [("Anne-Marie", "annemarie"), ("Seán", "sean"), ("Zoë", "zoe"), ("Tom", "tom"), ("D’Arcy", "darcy")],
        [("O'Brien", "obrien"), ("Smith", "smith"), ("McKenna-Jones", "mckenna.jones"), ("O’Neill", "oneill")],
    ),
    "de": (
        [("Jürgen", "juergen"), ("Käthe", "kaethe"), ("Björn", "bjoern"), ("Änne", "aenne")],
        [("Groß", "gross"), ("von der Höhe", "vonderhoehe"), ("Müller-Lüdenscheidt", "mueller"), ("Weiß", "weiss")],
    ),
    "fr": (
        [("François", "francois"), ("Noémie", "noemie"), ("Maëlle", "maelle"), ("Jérôme", "jerome")],
        [("L'Hôpital", "lhopital"), ("Lefèvre", "lefevre"), ("Çelik", "celik"), ("d'Aubigné", "daubigne")],
    ),
    "pl": (
        [("Łukasz", "lukasz"), ("Małgorzata", "malgorzata"), ("Święta", "swieta"), ("Zdzisław", "zdzislaw")],
        [("Źródłowska", "zrodlowska"), ("Brzęczyszczykiewicz", "brzeczysz"), ("Wójcik", "wojcik")],
    ),
    "vi": (
        [("Thị Hương", "thihuong"), ("Đức", "duc"), ("Quỳnh", "quynh")],
        [("Nguyễn", "nguyen"), ("Trần", "tran"), ("Phạm", "pham")],
    ),
    "ru": (
        [("Ёлка", "yolka"), ("Дмитрий", "dmitri"), ("Наталья", "natalya"), ("Юрий", "yuri")],
        [("Щукина", "shchukina"), ("Объедков", "obyedkov"), ("Жуков", "zhukov")],
    ),
    "uk": (
        [("Єлизавета", "yelyzaveta"), ("Їжак", "yizhak"), ("Олесь", "oles")],
        [("Ґудзик", "gudzyk"), ("Шевченко", "shevchenko"), ("Лук'яненко", "lukyanenko")],
    ),
    "el": (
        [("Ζωή", "zoi"), ("Ελευθέριος", "eleftherios"), ("Άννα", "anna"), ("Θεόδωρος", "theodoros")],
        [("Παπαδοπούλου", "papadopoulou"), ("Χατζής", "chatzis"), ("Ψυχογιός", "psychogios")],
    ),
    "ar": (
        [("فاطمة", "fatima"), ("محمد", "mohammed"), ("ليلى", "layla"), ("عبد الرحمن", "abdulrahman")],
        [("الحداد", "alhaddad"), ("بن سالم", "bensalem"), ("المصري", "almasri")],
    ),
    "he": (
        [("נועה", "noa"), ("יצחק", "yitzhak"), ("שִׁירָה", "shira")],
        [("כהן", "cohen"), ("בן־דוד", "bendavid"), ("לוי", "levi")],
    ),
    "zh": (
        [("伟", "wei"), ("秀英", "xiuying"), ("丽", "li"), ("子轩", "zixuan")],
        [("王", "wang"), ("欧阳", "ouyang"), ("张", "zhang"), ("龘", "da")],
    ),
    "ja": (
        [("さくら", "sakura"), ("翔太", "shota"), ("ユキ", "yuki"), ("結衣", "yui")],
        [("髙橋", "takahashi"), ("渡邉", "watanabe"), ("小鳥遊", "takanashi")],
    ),
    "ko": (
        [("지우", "jiwoo"), ("서연", "seoyeon"), ("민준", "minjun")],
        [("김", "kim"), ("남궁", "namgung"), ("박", "park")],
    ),
    "hi": (
        [("प्रिया", "priya"), ("आर्यन", "aryan"), ("लक्ष्मी", "lakshmi")],
        [("शर्मा", "sharma"), ("चट्टोपाध्याय", "chattopadhyay"), ("सिंह", "singh")],
    ),
    "th": (
        [("สมชาย", "somchai"), ("มาลี", "malee"), ("กิตติศักดิ์", "kittisak")],
        [("ศรีสุข", "srisuk"), ("วงศ์สวัสดิ์", "wongsawat"), ("แก้วใส", "kaewsai")],
    ),
}

#: (article, price in cents)
PRODUCTS = [
    ("Teapot “Utah”, 0.7 l", 3490),
    ('Frying pan 28 cm (11")', 4995),
    ("Socks, wool, pair", 1250),
    ("Bücherstütze Eiche", 2700),
    ("Café crème, 500 g", 899),
    ("Piñata, donkey 🪅", 1999),
    ("Matcha 抹茶, 100 g", 2450),
    ("Garden gnome; painted", 3995),
    ("Bicycle bell | brass", 1595),
    ("Jigsaw puzzle, 1,000 pieces", 2199),
    ("Rain coat — yellow", 7900),
    ("Notebook A5, dotted", 650),
    ("Desk lamp 4000K", 5900),
    ("Sofa “Ängland”, 3 seats", 129900),
]
WEIGHTS = {"en": 8, "de": 5, "fr": 4, "ru": 3, "zh": 3, "ja": 3, "ar": 3, "el": 2, "he": 2, "ko": 2, "hi": 2}

DOMAINS = ["example.com", "example.org", "example.net", "mail.example.com", "post.test", "shop.example"]
NO_VALUE = ["", "", "", "-", "n/a", "  "]
BROKEN_EMAILS = [
    "{local}example.com",
    "{local}@",
    "@example.org",
    "{local}@@example.net",
    "{local}@example",
    "{local}@example..org",
    "{local} (at) example.com",
    "{local}@mail example.com",
    "{local}@-.test",
]
BROKEN_PHONES = ["555-CALL-ME", "ask my sister", "12", "+44 7700 9001x3", "0", "+1 202 555", "++44 7700 900111"]
NOTES = [
    "Leave with the neighbour,\nring twice",
    'Door code "4711#", 2nd floor',
    "Careful: dog 🐕, friendly",
    "Étage 3, porte à gauche; ne pas sonner",
    "家にいない時は宅配ボックスへ",
    'Please gift-wrap 🎁\n\nCard: "Happy birthday, O\'Brien!"',
    "اترك الطرد عند الباب",
    "=1+1",
    "bcc: everyone@example.net",
]
PLATFORMS = ["android", "android", "ios", "ios", "web"]
#: What FCM says of a token, if anything is wrong with it: most often that the app is gone.
ENDED = ["dead-", "dead-", "dead-", "dead-", "malformed-", "foreign-"]
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
STATUSES = {"shipped": 46, "delayed": 20, "ready": 12, "delivered": 11, "refunded": 7, "draft": 3, "cancelled": 1}


def name_of(draw: random.Random, language: str) -> tuple[str, str]:
    given, family = (draw.choice(names) for names in FAMILIES[language])
    spaceless = language in {"zh", "ja", "ko"}
    written = f"{family[0]}{given[0]}" if spaceless else f"{given[0]} {family[0]}"
    roll = draw.random()
    if roll < 0.03:
        written += draw.choice([" 🦊", " 👩‍👩‍👧‍👦", " 🏳️‍🌈", " ❤️"])
    elif roll < 0.05:
        written = written.upper()
    elif roll < 0.08:
        written = f"  {written} "
    elif roll < 0.10:
        written = f'{given[0]} "{draw.choice(["Ace", "Bee", "Doc"])}" {family[0]}, jr.'
    elif roll < 0.11:
        written = f"{given[0]}\n{family[0]}"
    return written, f"{given[1]}.{family[1]}"


def email_of(draw: random.Random, local: str) -> str:
    roll = draw.random()
    if roll < 0.07:
        return draw.choice(NO_VALUE)
    if roll < 0.11:
        return draw.choice(BROKEN_EMAILS).format(local=local)
    address = f"{local}@{draw.choice(DOMAINS)}"
    if roll < 0.15:
        return f" {address}  "
    if roll < 0.19:
        return address.upper()
    if roll < 0.23:
        return address.replace("@", "+orders@")
    return address


def phone_of(draw: random.Random) -> str:
    roll = draw.random()
    if roll < 0.18:
        return draw.choice(NO_VALUE)
    if roll < 0.22:
        return draw.choice(BROKEN_PHONES)
    kind = draw.random()
    if kind < 0.4:
        area, line = draw.choice([202, 212, 312, 415, 617]), f"01{draw.randrange(100):02}"
        return draw.choice([f"+1 {area} 555 {line}", f"+1 ({area}) 555-{line}", f"+1.{area}.555.{line}"])
    if kind < 0.75:
        digits = f"{draw.randrange(1000):03}"
        return draw.choice([f"+44 7700 900{digits}", f"0044 7700 900{digits}", f"+447700900{digits} "])
    one, two = f"{draw.randrange(100):02}", f"{draw.randrange(100):02}"
    return draw.choice([f"+33 6 39 98 {one} {two}", f"0033639 98{one}{two}", f"+33 6-39-98-{one}-{two}"])


def day_of(draw: random.Random) -> str:
    day = date(2026, 1, 5) + timedelta(days=draw.randrange(60))
    return draw.choice([f"{day:%Y-%m-%d}", f"{day:%Y-%m-%d}", f"{day:%d.%m.%Y}", f"{day:%Y-%m-%d}T09:30:00+01:00"])


def customers(draw: random.Random) -> list[list[str]]:
    languages = list(FAMILIES)
    weights = [WEIGHTS.get(language, 1) for language in languages]
    rows = []
    for number in range(CUSTOMERS):
        [language] = draw.choices(languages, weights)
        name, local = name_of(draw, language)
        note = draw.choice(NOTES) if draw.random() < 0.15 else ""
        email = email_of(draw, f"{local}.{number}" if draw.random() < 0.9 else f"{local}_{number}")
        rows.append([f"C-{1001 + number}", name, email, phone_of(draw), language, note])
    # Exports list a customer twice after an edit: the later line is the newer one.
    for row in draw.sample(rows, 4):
        rows.append([*row[:2], f"new.{row[0].lower()}@example.org", *row[3:]])
    return rows


def order(draw: random.Random, number: int, customer: str) -> list[str]:
    [status] = draw.choices(list(STATUSES), list(STATUSES.values()))
    items = [(draw.randrange(1, 4), *draw.choice(PRODUCTS)) for _ in range(draw.choice([1, 1, 2, 3]))]
    cents = sum(count * price for count, _, price in items)
    total = f"{cents // 100:,}.{cents % 100:02}"
    if draw.random() < 0.04:
        status = draw.choice([status.upper(), f" {status}", f"{status.title()} "])
    identity = f"SO-{number}" if draw.random() < 0.98 else f" so-{number} "
    listed = "; ".join(f"{count} × {article}" for count, article, _ in items)
    note = draw.choice(NOTES) if draw.random() < 0.1 else ""
    return [identity, customer, day_of(draw), status, listed, total, draw.choice(["EUR", "EUR", "USD", "GBP"]), note]


def orders(draw: random.Random, known: Sequence[str]) -> list[list[str]]:
    rows = [order(draw, 10_001 + index, draw.choice(known)) for index in range(ORDERS)]
    for row in draw.sample(rows, 6):
        row[1] = draw.choice(["C-9999", "C-0042", "", "guest"])
    # The same line again (exported twice), and the same order again with its newer status.
    for row in draw.sample(rows, 9):
        rows.insert(rows.index(row) + draw.randrange(1, 30), list(row))
    for row in draw.sample(rows[:-60], 8):
        rows.insert(rows.index(row) + draw.randrange(30, 60), [*row[:3], "delivered", *row[4:]])
    for _ in range(2):
        rows.insert(draw.randrange(len(rows)), ["", draw.choice(known), *order(draw, 0, "")[2:]])
    return rows


def text_of(draw: random.Random, length: int) -> str:
    return "".join(draw.choices(ALPHABET, k=length))


def device(draw: random.Random, customer: str, *, ended: bool) -> list[str]:
    token = f"{text_of(draw, 22)}:APA91b{text_of(draw, 34)}"
    if ended:
        token = draw.choice(ENDED) + token
    elif draw.random() < 0.03:
        # A phone in a tunnel: the answer takes so many milliseconds.
        token = f"slow-{draw.choice([40, 80, 120])}-{token}"
    return [customer, token, draw.choice(PLATFORMS), text_of(draw, 12) if draw.random() < 0.6 else ""]


def devices(draw: random.Random, known: Sequence[str]) -> list[list[str]]:
    rows = []
    for customer in known:
        roll = draw.random()
        if roll < 0.14:
            continue
        # Some have nothing left but phones that they do not use any more.
        gone = roll < 0.18
        for _ in range(draw.choice([1, 1, 2] if gone else [1, 2, 2, 3, 3, 4])):
            rows.append(device(draw, customer, ended=gone or draw.random() < 0.06))
    owners = sorted({row[0] for row in rows})
    while len(rows) < DEVICES - 12:
        rows.append(device(draw, draw.choice(owners), ended=False))
    del rows[DEVICES - 12 :]
    draw.shuffle(rows)
    early = rows[: DEVICES // 2]
    # The app was installed again on the same phone: a new token of the same installation, the old one is history.
    for row in draw.sample([row for row in early if row[3] and row[1][22] == ":"], 12):
        rows.insert(draw.randrange(DEVICES // 2, len(rows)), [*device(draw, row[0], ended=False)[:2], *row[2:]])
    # The same line again, padded as people pad; a phone that was sold, and is now somebody else's; no token at all.
    for row in draw.sample(early, 7):
        rows.insert(draw.randrange(DEVICES // 2 + 60, len(rows)), [f" {row[0]} ", *row[1:]])
    for row in draw.sample([row for row in early if not row[3]], 8):
        rows.insert(draw.randrange(DEVICES // 2 + 60, len(rows)), [draw.choice(owners), *row[1:]])
    for token in ("", "  ", "not known yet"):
        rows.insert(draw.randrange(len(rows)), [draw.choice(owners), token, "", ""])
    return rows


def write(name: str, header: Sequence[str], rows: Iterable[Sequence[str]], *, excel: bool, draw: random.Random) -> None:
    """As a spreadsheet saves it (byte order mark, CRLF), or as a script does; with blank lines here and there."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\r\n" if excel else "\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow(row)
        if draw.random() < 0.005:
            writer.writerow([] if draw.random() < 0.5 else [""] * len(header))
    (DATA / name).write_bytes(out.getvalue().encode("utf-8-sig" if excel else "utf-8"))


def main() -> None:
    draw = random.Random(20_260_105)
    people = customers(draw)
    header = ["customer_id", "name", "email", "phone", "language", "note"]
    write("customers.csv", header, people, excel=True, draw=draw)
    header = ["order_id", "customer_id", "ordered_at", "status", "items", "total", "currency", "note"]
    known = [row[0] for row in people[:CUSTOMERS]]
    write("orders.csv", header, orders(draw, known), excel=False, draw=draw)
    # Drawn apart: another device changes no order.
    draw = random.Random(20_260_106)
    header = ["customer_id", "token", "platform", "installation"]
    write("devices.csv", header, devices(draw, known), excel=False, draw=draw)


if __name__ == "__main__":
    main()
