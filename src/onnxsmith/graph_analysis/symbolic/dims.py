"""Dimensions: whole numbers, or polynomials with whole coefficients over symbols that stand for sizes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import TypeAlias
from weakref import WeakValueDictionary

_MOST_TERMS = 32
"""How many terms an expression, and how many factors a term, may have."""

_MOST_DEPTH = 8
"""How deep functions may stand in each other."""

_MOST_STEPS = 64
"""How long a division of polynomials may take."""


class TooComplex(ValueError):  # noqa: N818 - an answer, not an error
    """An expression that is too long to keep; whoever asked for it gets a fresh symbol instead."""


class _Atom:
    """What an expression is made of: a symbol, or a function of expressions that has no simpler form.

    There is one atom object for one meaning, so identity decides.
    """

    __slots__ = ("__weakref__", "arguments", "depth", "name", "nonnegative", "number")

    def __init__(self, name: str, arguments: tuple[Dim, ...], nonnegative: bool) -> None:
        self.name = name
        self.arguments = arguments
        self.nonnegative = nonnegative
        self.number = next(_NUMBERS)
        self.depth = 1 + max(map(_depth, arguments), default=0)

    def __str__(self) -> str:
        if not self.arguments:
            return self.name
        return f"{self.name}({', '.join(map(str, self.arguments))})"


_NUMBERS = itertools.count()
_ATOMS: WeakValueDictionary[tuple[object, ...], _Atom] = WeakValueDictionary()

_Monomial: TypeAlias = tuple[_Atom, ...]
"""Atoms in the order of their numbers, one as often as its power; the empty one is the constant."""


class Expr:
    """A polynomial that is not a constant. Equal expressions have equal values whatever the symbols are."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[_Monomial, int]) -> None:
        self.terms = terms
        self._hash = hash(frozenset(terms.items()))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Expr) and self._hash == other._hash and self.terms == other.terms)

    def __str__(self) -> str:
        parts = []
        for monomial, coefficient in sorted(self.terms.items(), key=lambda term: [atom.number for atom in term[0]]):
            factors = [str(atom) for atom in monomial]
            if coefficient != 1 or not factors:
                factors.insert(0, str(coefficient))
            parts.append("*".join(factors))
        return " + ".join(parts).replace("+ -", "- ")

    def __repr__(self) -> str:
        return f"Expr({self})"

    def __add__(self, other: Dim) -> Dim:
        return add(self, other)

    def __radd__(self, other: int) -> Dim:
        return add(other, self)

    def __sub__(self, other: Dim) -> Dim:
        return sub(self, other)

    def __rsub__(self, other: int) -> Dim:
        return sub(other, self)

    def __mul__(self, other: Dim) -> Dim:
        return mul(self, other)

    def __rmul__(self, other: int) -> Dim:
        return mul(other, self)

    def __neg__(self) -> Dim:
        return mul(self, -1)

    def __floordiv__(self, other: Dim) -> Dim:
        return floor_div(self, other)

    def __mod__(self, other: Dim) -> Dim:
        return mod(self, other)

    @property
    def symbols(self) -> frozenset[str]:
        """The names of the symbols in it, those inside functions included."""
        found: set[str] = set()
        waiting: list[Dim] = [self]
        while waiting:
            dim = waiting.pop()
            if isinstance(dim, Expr):
                for atom in itertools.chain.from_iterable(dim.terms):
                    if not atom.arguments:
                        found.add(atom.name)
                    waiting.extend(atom.arguments)
        return frozenset(found)


Dim: TypeAlias = int | Expr
"""A whole number where it is one, otherwise an expression."""


def make_symbol(name: str) -> Expr:
    """The symbol of a name, a size of 0 or more. One name is one symbol."""
    key = ("symbol", name)
    atom = _ATOMS.get(key)
    if atom is None:
        atom = _ATOMS[key] = _Atom(name, (), nonnegative=True)
    return Expr({(atom,): 1})


def fresh_symbol() -> Expr:
    """A symbol that is unlike any other: a size that nothing is known of."""
    atom = _Atom("?", (), nonnegative=True)
    atom.name = f"?{atom.number}"
    return Expr({(atom,): 1})


def add(left: Dim, right: Dim) -> Dim:
    """The sum."""
    if isinstance(left, int):
        if isinstance(right, int):
            return left + right
        left, right = right, left
    if isinstance(right, int):
        if right == 0:
            return left
        terms = dict(left.terms)
        _accumulate(terms, (), right)
        return _expression(terms)
    terms = dict(left.terms)
    for monomial, coefficient in right.terms.items():
        _accumulate(terms, monomial, coefficient)
    return _expression(terms)


def sub(left: Dim, right: Dim) -> Dim:
    """The difference; it may be negative."""
    return add(left, mul(right, -1))


def mul(left: Dim, right: Dim) -> Dim:
    """The product."""
    if isinstance(left, int):
        if isinstance(right, int):
            return left * right
        left, right = right, left
    if isinstance(right, int):
        if right == 1:
            return left
        if right == 0:
            return 0
        return Expr({monomial: coefficient * right for monomial, coefficient in left.terms.items()})
    terms: dict[_Monomial, int] = {}
    for monomial, coefficient in left.terms.items():
        for other, factor in right.terms.items():
            merged = tuple(sorted(monomial + other, key=_number))
            _accumulate(terms, merged, coefficient * factor)
    return _expression(terms)


def product(dims: Iterable[Dim]) -> Dim:
    """The product of all; 1 for none."""
    number = 1
    result: Dim = 1
    for dim in dims:
        if isinstance(dim, int):
            number *= dim
        else:
            result = mul(result, dim)
    return mul(result, number)


def exact_div(dividend: Dim, divisor: Dim) -> Dim | None:
    """The quotient where the divisor divides the dividend as a polynomial, and is not the number 0; else None.

    The quotient holds wherever the divisor is not zero.
    """
    if divisor == 0:
        return None
    if isinstance(divisor, int):
        if isinstance(dividend, int):
            return dividend // divisor if dividend % divisor == 0 else None
        if divisor == 1:
            return dividend
        if any(coefficient % divisor for coefficient in dividend.terms.values()):
            return None
        return Expr({monomial: coefficient // divisor for monomial, coefficient in dividend.terms.items()})
    if isinstance(dividend, int):
        return 0 if dividend == 0 else None
    if dividend == divisor:
        return 1
    lead, lead_coefficient = _leading(divisor)
    rest: Dim = dividend
    quotient: Dim = 0
    for _ in range(_MOST_STEPS):
        if isinstance(rest, int):
            return quotient if rest == 0 else None
        monomial, coefficient = _leading(rest)
        factor = _without(monomial, lead)
        if factor is None or coefficient % lead_coefficient:
            return None
        step = _expression({factor: coefficient // lead_coefficient})
        quotient = add(quotient, step)
        rest = sub(rest, mul(step, divisor))
    return None


def floor_div(dividend: Dim, divisor: Dim) -> Dim:
    """The quotient, rounded down; the divisor is not zero.

    Raises:
        ZeroDivisionError: The divisor is the number 0.
    """
    if isinstance(divisor, int):
        if divisor == 0:
            raise ZeroDivisionError("a dimension is divided by zero")
        if isinstance(dividend, int):
            return dividend // divisor
        if divisor < 0:
            return floor_div(mul(dividend, -1), -divisor)
        if divisor == 1:
            return dividend
        whole, rest = _split(dividend, divisor)
        if isinstance(rest, int):
            return add(whole, rest // divisor)
        return add(whole, _function("floordiv", (rest, divisor), is_nonnegative(rest)))
    exact = exact_div(dividend, divisor)
    if exact is not None:
        return exact
    return _function("floordiv", (dividend, divisor), is_nonnegative(dividend) and is_nonnegative(divisor))


def ceil_div(dividend: Dim, divisor: int) -> Dim:
    """The quotient, rounded up."""
    return floor_div(add(dividend, divisor - 1), divisor)


def mod(dividend: Dim, divisor: Dim) -> Dim:
    """The remainder that goes with `floor_div`: it has the sign of the divisor."""
    if isinstance(dividend, int) and isinstance(divisor, int):
        return dividend % divisor
    return sub(dividend, mul(floor_div(dividend, divisor), divisor))


def dim_min(left: Dim, right: Dim) -> Dim:
    """The smaller one."""
    return _extreme("min", left, right)


def dim_max(left: Dim, right: Dim) -> Dim:
    """The larger one."""
    return _extreme("max", left, right)


def is_nonnegative(dim: Dim) -> bool:
    """Whether this is proven to be 0 or more."""
    if isinstance(dim, int):
        return dim >= 0
    for monomial, coefficient in dim.terms.items():
        if coefficient < 0:
            return False
        for atom in monomial:
            if not atom.nonnegative and monomial.count(atom) % 2:
                return False
    return True


def is_positive(dim: Dim) -> bool:
    """Whether this is proven to be 1 or more; a symbol may be 0."""
    return is_nonnegative(sub(dim, 1))


def is_not_one(dim: Dim) -> bool:
    """Whether this is proven to be other than 1."""
    if isinstance(dim, int):
        return dim != 1
    return is_nonnegative(sub(dim, 2)) or _content(dim) > 1


def is_cut_off(dim: Dim, whole: Dim) -> bool:
    """Whether this is the smaller one of `whole` and something that is at least 1.

    If the two can be broadcast, to `whole`: where they differ, `whole` is larger than 1, so this must be 1.
    """
    if isinstance(dim, int) or len(dim.terms) != 1:
        return False
    ((monomial, coefficient),) = dim.terms.items()
    if coefficient != 1 or len(monomial) != 1 or monomial[0].name != "min" or not monomial[0].arguments:
        return False
    one, other = monomial[0].arguments
    return (one == whole and is_positive(other)) or (other == whole and is_positive(one))


def _depth(dim: Dim) -> int:
    if isinstance(dim, int):
        return 0
    return max((atom.depth for monomial in dim.terms for atom in monomial), default=0)


def _number(atom: _Atom) -> int:
    return atom.number


def _accumulate(terms: dict[_Monomial, int], monomial: _Monomial, coefficient: int) -> None:
    total = terms.get(monomial, 0) + coefficient
    if total:
        terms[monomial] = total
    else:
        terms.pop(monomial, None)


def _expression(terms: Mapping[_Monomial, int]) -> Dim:
    if not terms:
        return 0
    if len(terms) == 1 and () in terms:
        return terms[()]
    if len(terms) > _MOST_TERMS or any(len(monomial) > _MOST_TERMS for monomial in terms):
        raise TooComplex("an expression of a dimension grew too long")
    return Expr(terms)


def _leading(expression: Expr) -> tuple[_Monomial, int]:
    """The leading term in an order that goes with multiplication: by degree, then lexicographically."""
    numbers = sorted({atom.number for monomial in expression.terms for atom in monomial})

    def rank(monomial: _Monomial) -> tuple[int, list[int]]:
        powers = [0] * len(numbers)
        for atom in monomial:
            powers[numbers.index(atom.number)] += 1
        return len(monomial), powers

    monomial = max(expression.terms, key=rank)
    return monomial, expression.terms[monomial]


def _without(monomial: _Monomial, factor: _Monomial) -> _Monomial | None:
    rest = list(monomial)
    for atom in factor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def _split(dividend: Expr, divisor: int) -> tuple[Dim, Dim]:
    """`(q, r)` with `dividend == q * divisor + r` and the coefficients of r below the divisor."""
    whole: dict[_Monomial, int] = {}
    rest: dict[_Monomial, int] = {}
    for monomial, coefficient in dividend.terms.items():
        quotient, remainder = divmod(coefficient, divisor)
        if quotient:
            whole[monomial] = quotient
        if remainder:
            rest[monomial] = remainder
    return _expression(whole), _expression(rest)


def _content(expression: Expr) -> int:
    return math.gcd(*expression.terms.values())


def _extreme(name: str, left: Dim, right: Dim) -> Dim:
    if isinstance(left, int) and isinstance(right, int):
        return min(left, right) if name == "min" else max(left, right)
    difference = sub(left, right)
    if is_nonnegative(difference):
        return right if name == "min" else left
    if is_nonnegative(mul(difference, -1)):
        return left if name == "min" else right
    first, second = is_nonnegative(left), is_nonnegative(right)
    ordered = (left, right) if str(left) <= str(right) else (right, left)
    return _function(name, ordered, (first and second) if name == "min" else (first or second))


def _function(name: str, arguments: tuple[Dim, ...], nonnegative: bool) -> Dim:
    key = (name, *arguments)
    atom = _ATOMS.get(key)
    if atom is None:
        if max(map(_depth, arguments)) > _MOST_DEPTH:
            raise TooComplex("an expression of a dimension grew too deep")
        atom = _ATOMS[key] = _Atom(name, arguments, nonnegative)
    return Expr({(atom,): 1})
