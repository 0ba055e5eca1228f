"""Kubernetes quantities: exact amounts with the suffixes people write (`500m`, `1536Mi`, `12e6`).

The amount is one int in billionths, so adding and comparing is integer arithmetic and never a float. Everything
follows Go's `resource.Quantity`, three corners aside: `value()` is exact beyond 64 bits and always rounds away
from zero; a decimal amount of 10^21 or more keeps its zeros (`1000E`, where Go prints `1`); texts of more than
1000 characters or with an exponent beyond ±1000 are refused, because adding to them would need unbounded memory.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, Final, NoReturn

from dray.api.quantity_text import (
    BAD_FORMAT,
    BIG,
    BILLION,
    DECIMAL_0,
    INT64,
    MAX_BINARY,
    Format,
    Kind,
    canonical,
    kind,
    read,
    round_away,
)
from dray.errors import InvalidError

__all__ = ["ZERO", "Format", "Quantity", "parse_quantity"]


class _Draft:
    """The storage of a quantity. A new one is filled in as a draft and then becomes a `Quantity`, which is closed.

    Changing the class costs 10 ns; going through `object.__setattr__` would cost 150 ns.
    """

    __slots__ = ("kind", "nano", "written")

    nano: int
    kind: Kind
    written: str


class Quantity(_Draft):
    """An amount. Equal and hashed by amount alone: `Quantity("1Gi") == Quantity("1024Mi")`.

    `nano` is the exact amount in billionths (what hot loops should compare and add); `kind` says how it is written.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Quantity:
        """The quantity that `text` writes; raises InvalidError with the API server's words."""
        return parse_quantity(text)

    @staticmethod
    def parse(text: str) -> Quantity:
        """The same as `Quantity(text)`. Recent texts are remembered."""
        return parse_quantity(text)

    @staticmethod
    def from_int(value: int, form: Format = Format.DECIMAL_SI) -> Quantity:
        """A whole number of units."""
        return _make(value * BILLION, kind(form, 0))

    @staticmethod
    def from_milli(value: int, form: Format = Format.DECIMAL_SI) -> Quantity:
        """A whole number of thousandths."""
        return _make(value * 10**6, kind(form, -3))

    @staticmethod
    def from_json(value: object) -> Quantity:
        """From a decoded JSON value: a string (spaces around it are allowed), a number, or null for zero."""
        if isinstance(value, str):
            return parse_quantity(value.strip())
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return parse_quantity(str(getattr(value, "text", value)))
        if value is None:
            return ZERO
        raise InvalidError(BAD_FORMAT)

    @property
    def form(self) -> Format:
        """The suffix family that `str()` uses where the amount allows it."""
        return self.kind.form

    def value(self) -> int:
        """The amount in whole units, rounded away from zero."""
        return round_away(self.nano, BILLION)

    def milli_value(self) -> int:
        """The amount in thousandths, rounded away from zero."""
        return round_away(self.nano, 10**6)

    def as_int64(self) -> int | None:
        """The amount where Go's AsInt64 gives it, else None: also for `1.0`, `1000m` and `1Pi`. CEL shows this."""
        if self.kind.scale < 0:
            return None
        whole = self.nano // BILLION
        return whole if whole in INT64 else None

    def as_approximate_float(self) -> float:
        """The float of Go's AsApproximateFloat64. For CEL and for display, never for decisions."""
        scale = self.kind.scale
        if scale == BIG:
            scale = 0 if abs(self.nano) == MAX_BINARY else -9
        mantissa = self.nano // 10 ** (scale + 9)
        try:
            return float(mantissa) * float(f"1e{scale}")
        except OverflowError:
            return float("inf") if mantissa > 0 else float("-inf")

    def is_zero(self) -> bool:
        """Whether the amount is nothing."""
        return self.nano == 0

    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self.nano > 0) - (self.nano < 0)

    def compare(self, other: Quantity) -> int:
        """-1, 0 or 1, as Go's Cmp."""
        return (self.nano > other.nano) - (self.nano < other.nano)

    def with_format(self, form: Format) -> Quantity:
        """The same amount, written with another family of suffixes."""
        return _make(self.nano, kind(form, self.kind.scale))

    def __add__(self, other: Quantity) -> Quantity:
        """The sum; a zero takes the other's format."""
        draft = _Draft()
        try:
            draft.nano = self.nano + other.nano
            draft.kind = self.kind if self.kind is other.kind else _joint_kind(self, other)
        except AttributeError:
            return NotImplemented
        draft.__class__ = Quantity
        return draft  # type: ignore[return-value]

    def __sub__(self, other: Quantity) -> Quantity:
        """The difference; a zero takes the other's format."""
        draft = _Draft()
        try:
            draft.nano = self.nano - other.nano
            draft.kind = self.kind if self.kind is other.kind else _joint_kind(self, other)
        except AttributeError:
            return NotImplemented
        draft.__class__ = Quantity
        return draft  # type: ignore[return-value]

    def __mul__(self, count: int) -> Quantity:
        """This amount `count` times."""
        if not isinstance(count, int):
            return NotImplemented
        return _make(self.nano * count, self.kind)

    __rmul__ = __mul__

    def times(self, other: Quantity) -> Quantity:
        """The product, in this one's format; a fraction beyond what a quantity can hold is rounded up."""
        return _make(-(-self.nano * other.nano // 10**9), self.kind)

    def __neg__(self) -> Quantity:
        return _make(-self.nano, self.kind)

    def __abs__(self) -> Quantity:
        return _make(abs(self.nano), self.kind)

    def __bool__(self) -> bool:
        return self.nano != 0

    def __eq__(self, other: object) -> bool:
        try:
            return self.nano == other.nano  # type: ignore[attr-defined,no-any-return]
        except AttributeError:
            return NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        try:
            return self.nano < other.nano
        except AttributeError:
            return NotImplemented

    def __le__(self, other: Quantity) -> bool:
        try:
            return self.nano <= other.nano
        except AttributeError:
            return NotImplemented

    def __gt__(self, other: Quantity) -> bool:
        try:
            return self.nano > other.nano
        except AttributeError:
            return NotImplemented

    def __ge__(self, other: Quantity) -> bool:
        try:
            return self.nano >= other.nano
        except AttributeError:
            return NotImplemented

    def __hash__(self) -> int:
        return hash(self.nano)

    def __str__(self) -> str:
        """The canonical form; but a text Go takes for canonical (`1.500`, `+5`) stays as it was read, as there."""
        try:
            return self.written
        except AttributeError:
            text = canonical(self.nano, self.kind.form)
            _set_written(self, text)
            return text

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"Quantity is immutable: cannot set {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"Quantity is immutable: cannot delete {name}")

    def __copy__(self) -> Quantity:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Quantity:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.nano, self.kind.form, self.kind.scale, getattr(self, "written", None))


_set_written: Final = _Draft.__dict__["written"].__set__


def _make(nano: int, kind: Kind, written: str | None = None) -> Quantity:
    draft = _Draft()
    draft.nano = nano
    draft.kind = kind
    if written is not None:
        draft.written = written
    draft.__class__ = Quantity
    return draft  # type: ignore[return-value]


def _restore(nano: int, form: Format, scale: int, written: str | None) -> Quantity:
    """Called by pickle and copy."""
    return _make(nano, kind(form, scale), written)


def _joint_kind(left: Quantity, right: Quantity) -> Kind:
    """The kind of a sum: a zero takes the other's form, the finer scale wins, and Go goes big beyond 64 bits."""
    form = left.kind.form if left.nano else right.kind.form
    one, two = left.kind.scale, right.kind.scale
    if one == BIG or two == BIG:
        return kind(form, BIG)
    if not left.nano or not right.nano:
        return kind(form, two if right.nano else one)
    scale = one if one < two else two  # noqa: FURB136
    limit = _limit(scale)
    return kind(form, scale if -limit < left.nano < limit and -limit < right.nano < limit else BIG)


@cache
def _limit(scale: int) -> int:
    """What Go's 64 bits hold at a scale, in billionths."""
    return int(2**63 * 10 ** (scale + 9))


@lru_cache(maxsize=8192)
def parse_quantity(text: str) -> Quantity:
    """The same as `Quantity(text)`, without the cost of a class call: for decoders."""
    return _make(*read(text))


ZERO: Final = _make(0, DECIMAL_0, "0")
