"""Texts that are quantities, nearly quantities, or nothing of the kind."""

from oracle.draws.dice import Dice

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
BROKEN = [
    "K",
    "ki",
    "mi",
    "KI",
    "Kib",
    "B",
    "x",
    "mM",
    "i",
    "eE",
    "Yi",
    "e",
    "e+",
    "E-",
    "ee3",
    "Gi1",
]


def a_text(dice: Dice) -> str:
    """Mostly a valid quantity of any size, sign, precision and spelling."""
    kind = dice.fraction()
    if kind < 0.75:
        return _sign(dice) + _number(dice) + _suffix(dice)
    if kind < 0.9:
        return _mutated(dice, _sign(dice) + _number(dice) + _suffix(dice))
    return _sign(dice) + _number(dice) + dice.one_of(BROKEN)


def _sign(dice: Dice) -> str:
    return dice.one_of(["", "", "", "", "-", "+"])


def _number(dice: Dice) -> str:
    whole = _digits(dice, dice.one_of([1, 1, 2, 3, 4, 6, 9, 12, 15, 18, 19, 21]))
    if dice.happens(0.2):
        whole = whole.rstrip("0123456789")[:1] or whole[: dice.between(0, len(whole))] + "000"
    if dice.happens(0.1):
        whole = dice.one_of(["", "0", "00", "0" + whole])
    if dice.happens(0.6):
        return whole
    part = _digits(dice, dice.one_of([0, 1, 2, 3, 6, 9, 10, 12]))
    return f"{whole}.{'0' * dice.one_of([0, 0, 1, 3, 8]) if part else ''}{part}"


def _digits(dice: Dice, count: int) -> str:
    return "".join(str(dice.between(0, 9)) for _ in range(count))


def _suffix(dice: Dice) -> str:
    if dice.happens(0.25):
        sign = dice.one_of(["", "", "-", "+"])
        return (
            f"{dice.one_of('eE')}{sign}{dice.one_of([0, 1, 2, 3, 4, 5, 6, 7, 9, 12, 15, 18, '03'])}"
        )
    return dice.one_of(SUFFIXES)


def _mutated(dice: Dice, text: str) -> str:
    place = dice.between(0, len(text))
    noise = dice.one_of([*"0123456789.+-eEinumkKMGTPx ,_", "\t", "\u0663", "\uff11"])
    return f"{text[:place]}{noise}{text[place + dice.between(0, 1) :]}"
