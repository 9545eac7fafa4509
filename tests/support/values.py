"""Values that hypothesis draws: what applications may hand in."""

from __future__ import annotations

from hypothesis import strategies as st

#: Text that both databases store: no NUL, no surrogate; everything else, control characters included.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
#: Everything that sendoff accepts as JSON.
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
