"""What tests of structured output share: JSON schemas from a seed, and a tiny model with a byte-level vocabulary."""

import random

import model_vocabularies
import numpy as np
import tiny_models

WORDS = "name size kind tags when note-1 größe a/b".split()
PATTERNS = ("^[a-f]{2,4}$", "^x[0-9]?$", "[A-Z]{3}", "^(on|off)$")


def write_model(path, change=None, drop=()):
    """Writes a model of random weights whose vocabulary has all bytes and merges of some."""
    vocabulary = model_vocabularies.bpe("gpt-2")
    n_vocab = len(vocabulary["tokenizer.ggml.tokens"])
    weights = tiny_models.weights("llama")
    rng = np.random.default_rng(3)
    for name, values in weights.items():
        if values.shape[0] == tiny_models.VOCAB and name in ("token_embd.weight", "output.weight"):
            weights[name] = rng.standard_normal((n_vocab, values.shape[1]), dtype=np.float32) / 3
    sizes = {"llama.vocab_size": n_vocab, "tokenizer.ggml.merges": vocabulary["tokenizer.ggml.merges"]}
    return tiny_models.write(path, "llama", tensors=weights, change=vocabulary | sizes | (change or {}), drop=drop)


def string(dice):
    return dice.choice([
        {"type": "string", "maxLength": dice.randrange(1, 7)},
        {"type": "string", "minLength": 1, "maxLength": 4},
        {"type": "string", "pattern": dice.choice(PATTERNS[:2] + PATTERNS[3:])},
        {"type": "string", "format": dice.choice(["date", "time", "uuid", "ipv4", "ipv6", "date-time", "duration"])},
        {"type": "string", "pattern": "^[a-d]*$", "minLength": dice.randrange(4), "maxLength": dice.randrange(4, 9)},
    ])  # fmt: skip


def number(dice):
    low = dice.randrange(-50, 50)
    return dice.choice([
        {"type": "integer", "minimum": low, "maximum": low + dice.randrange(1, 200)},
        {"type": "number", "minimum": low, "exclusiveMaximum": low + 2},
        {"type": "integer", "exclusiveMinimum": 0, "maximum": 99, "multipleOf": dice.choice([2, 5])},
        {"type": "number", "minimum": low / 4, "maximum": low / 4 + 9, "multipleOf": 0.25},
    ])  # fmt: skip


def schema(dice, depth=3):
    """A random schema of a random kind of value."""
    kinds = ["string", "number", "boolean", "null", "enum", "const"]
    if depth:
        kinds += ["object", "object", "array", "array", "anyOf", "oneOf", "tuple", "map", "allOf", "types"]
        kinds += ["others", "both"]
    kind = dice.choice(kinds)
    if kind == "string":
        return string(dice)
    if kind == "number":
        return number(dice)
    if kind in ("boolean", "null"):
        return {"type": kind}
    if kind == "enum":
        return {"enum": dice.sample([1, "a", None, True, 'é"\\', [1, 2], {"a": 1}, 2.5, "x/y"], dice.randrange(1, 5))}
    if kind == "const":
        return {"const": dice.choice([3, "c", None, {"k": [1]}, "two words"])}
    if kind == "array":
        least = dice.randrange(3)
        most = least + dice.randrange(3)
        return {"type": "array", "items": schema(dice, depth - 1), "minItems": least, "maxItems": most}
    if kind == "tuple":
        items = [schema(dice, depth - 1) for _ in range(dice.randrange(1, 4))]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
    if kind == "anyOf":
        return {"anyOf": [schema(dice, depth - 1) for _ in range(dice.randrange(1, 4))]}
    if kind == "oneOf":  # of which each value is valid for one at most
        return {"oneOf": [string(dice), {"type": dice.choice(["boolean", "null"])}, {"enum": [7, [8]]}]}
    if kind == "others":
        return {
            "type": "object", "properties": {"name": schema(dice, depth - 1)}, "maxProperties": 3,
            "additionalProperties": dice.choice([string(dice), {"type": "null"}, {"enum": [1, "b"]}]),
            "minProperties": dice.randrange(2), "required": dice.choice([["name"], ["name", "id"]]),
        }  # fmt: skip
    if kind == "both":  # keywords beside those of alternatives
        own = {"size": {"type": "integer", "minimum": 5, "maximum": 90}, "kind": {"type": "boolean"}}
        parts = [{"required": [word]} for word in dice.sample(["size", "kind"], dice.randrange(1, 3))]
        return {"type": "object", "properties": own,
                "additionalProperties": False, dice.choice(["anyOf", "allOf"]): parts}  # fmt: skip
    if kind == "allOf":
        return {"allOf": [{"type": "integer", "minimum": dice.randrange(9)}, {"maximum": dice.randrange(9, 30)}]}
    if kind == "types":
        return {"type": dice.sample(["boolean", "null"], dice.randrange(1, 3))}
    if kind == "map":
        patterns = {"^[a-c]$": schema(dice, depth - 1)}
        return {"type": "object", "patternProperties": patterns, "additionalProperties": False, "minProperties": 0}
    names = dice.sample(WORDS, dice.randrange(1, 4))
    return {
        "type": "object", "properties": {name: schema(dice, depth - 1) for name in names},
        "additionalProperties": False, "required": dice.sample(names, dice.randrange(len(names) + 1)),
    }  # fmt: skip


def schemas(count, seed=0):
    """Schemas from a seed; some refer to a definition, one of these to itself."""
    dice = random.Random(seed)
    for i in range(count):
        found = schema(dice)
        if i % 5 == 0:
            found = {"$defs": {"part": found}, "type": "object", "properties": {"part": {"$ref": "#/$defs/part"}},
                     "required": ["part"], "additionalProperties": False}  # fmt: skip
        if i % 25 == 1:
            node = {"type": "object", "properties": {"next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}},
                    "required": ["next"], "additionalProperties": False}  # fmt: skip
            found = {"$defs": {"node": node}, "$ref": "#/$defs/node"}
        yield found
