"""The people of the made-up shop: names as they are written, with the ASCII form their e-mail address uses."""

from __future__ import annotations

__all__ = ["FAMILIES", "PRODUCTS"]

#: language -> given names, family names; each as (written, ASCII). Weights follow in `make_data.WEIGHTS`.
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
