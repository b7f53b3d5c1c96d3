"""Label selectors over a small world of labels, seldom with a mistake in them."""

from typing import Final

from oracle.draws.dice import Dice, Json

KEYS: Final = ["app", "tier", "env", "n", "app.kubernetes.io/name", "App", "x-y_z.1"]
VALUES: Final = ["web", "db", "front", "back", "prod", "", "10", "WEB", "a.b-c_d"]
WRONG_KEYS: Final = [
    "",
    "a b",
    "-app",
    "app-",
    "Example.com/app",
    "a/b/c",
    "/app",
    "app/",
    "x" * 64,
    "y" * 254 + "/app",
    "ä",
    "a..b/c",
    "_app",
    "a_b.com/x",
]
WRONG_VALUES: Final = ["a b", "-web", "web-", "v" * 64, "ü", "a/b", ".", "a\nb"]
OPERATORS: Final = ["In", "NotIn", "Exists", "DoesNotExist"]
WRONG_OPERATORS: Final = ["", "in", "Gt", "Lt", "Equals", "!"]


def a_selection(dice: Dice) -> Json:
    """A selector and the label sets that it is tried on."""
    return {
        "selector": a_selector(dice),
        "labelSets": [{}, *(some_labels(dice) for _ in range(dice.between(3, 12)))],
    }


def a_selector(dice: Dice) -> Json:
    """A selector with at most one mistake, since the original may report either of two."""
    if dice.happens(0.03):
        return None
    selector = dice.fields(
        {
            "matchLabels": (0.6, lambda: some_labels(dice)),
            "matchExpressions": (
                0.75,
                lambda: [_expression(dice) for _ in range(dice.between(0, 4))],
            ),
        }
    )
    return _with_mistake(dice, selector) if dice.happens(0.3) else selector


def some_labels(dice: Dice) -> dict[str, str]:
    """Labels of a pod."""
    return {key: dice.one_of(VALUES) for key in dice.some_of(KEYS[:5])[: dice.between(0, 4)]}


def _expression(dice: Dice) -> Json:
    operator = dice.one_of(OPERATORS)
    expression: Json = {"key": dice.one_of(KEYS), "operator": operator}
    if operator in {"In", "NotIn"}:
        expression["values"] = [dice.one_of(VALUES) for _ in range(dice.between(1, 4))]
    elif dice.happens(0.1):
        expression["values"] = []
    return expression


def _with_mistake(dice: Dice, selector: Json) -> Json:
    match dice.between(0, 6):
        case 0:
            selector["matchLabels"] = {dice.one_of(WRONG_KEYS): "web"}
        case 1:
            selector["matchLabels"] = {"app": dice.one_of(WRONG_VALUES)}
        case number:
            expressions = selector.setdefault("matchExpressions", [])
            expressions.insert(dice.between(0, len(expressions)), _wrong_expression(dice, number))
    return selector


def _wrong_expression(dice: Dice, number: int) -> Json:
    match number:
        case 2:
            return {
                "key": dice.one_of(WRONG_KEYS),
                "operator": dice.one_of(["Exists", "DoesNotExist"]),
            }
        case 3:
            return {"key": "app", "operator": dice.one_of(["In", "NotIn"]), "values": []}
        case 4:
            return {
                "key": "app",
                "operator": dice.one_of(["Exists", "DoesNotExist"]),
                "values": ["web"],
            }
        case 5:
            values = dice.shuffled(["web", dice.one_of(WRONG_VALUES)])
            return {"key": "app", "operator": dice.one_of(["In", "NotIn"]), "values": values}
        case _:
            return {"key": "app", "operator": dice.one_of(WRONG_OPERATORS), "values": ["web"]}
