"""Texts to compare tokenizers on: prose, code, numbers, white space, many scripts, emoji, special tokens, broken UTF-8.

The lines are the same on every machine and Python version: only `random.Random.random` is used, whose sequence is
guaranteed.
"""

import random
from pathlib import Path

ALICE = Path(__file__).resolve().parent.parent / "examples" / "gpt2_char" / "alice.txt"
SCRIPTS = [  # first and last code point
    (0xC0, 0x24F),
    (0x370, 0x3FF),
    (0x400, 0x52F),
    (0x531, 0x586),
    (0x5D0, 0x5EA),
    (0x620, 0x64A),
    (0x905, 0x939),
    (0xE01, 0xE3A),
    (0x10D0, 0x10F0),
    (0x1100, 0x11FF),
    (0x1E00, 0x1EFF),
    (0x3041, 0x3096),
    (0x30A1, 0x30FA),
    (0x4E00, 0x9FA5),
    (0x4E00, 0x62FF),
    (0xAC00, 0xD7A3),
    (0xFF01, 0xFF5E),
    (0x1D400, 0x1D454),
    (0x20000, 0x2A6D6),
]
SIGNS = [(0x2010, 0x2027), (0x20A0, 0x20BF), (0x2190, 0x21FF), (0x2200, 0x22FF), (0x2460, 0x2473), (0x2500, 0x257F)]
EMOJI = [(0x1F300, 0x1F5FF), (0x1F600, 0x1F64F), (0x1F680, 0x1F6C5), (0x1F900, 0x1F9FF), (0x2600, 0x26FF)]
SPACES = [
    " ",
    " ",
    " ",
    "  ",
    "   ",
    "\t",
    "\n",
    "\n\n",
    "\r\n",
    "\v",
    "\f",
    "\u00a0",
    "\u2003",
    "\u3000",
    "\u200b",
    "\x85",
]
SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<bos>",
    "<eos>",
    "<unk>",
    "<s>",
    "</s>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<unused7>",
    "<h1>",
    "</h1>",
    "<table>",
    "<|im_end|",
    "[CLS]",
    "<0x0A>",
    "\u2581",
    "\u2581\u2581",
]
CODE = [
    "def {}({}, *args):\n    return {} + {}[{}:]",
    "for (int {} = 0; {} < {}; ++{}) {{ {}({}); }}",
    "if {} != {}: # {}",
    '<div class="{}">{}</div>',
    "SELECT {}, {} FROM {} WHERE {} >= {};",
    "{}->{}({}) && !{}",
    "let {}: Vec<{}> = vec![{}];",
    "#include <{}.h>\n#define {} ({} << {})",
    "$ {} --{}={} | {} > {}.txt",
    "\\frac{{{}}}{{{}}} \\leq \\sum_{{{}}}^{{{}}}",
    '{{"{}": [{}, {}, null], "{}": true}}',
    "{}'s, {}'LL, I'{} they'Re {}",
]


class Writer:
    """Random lines from a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed).random
        self.prose = [line for line in ALICE.read_text(encoding="utf-8").splitlines() if line.strip()]

    def below(self, n):
        return int(self.random() * n)

    def one(self, items):
        return items[self.below(len(items))]

    def characters(self, ranges, count):
        return "".join(chr(a + self.below(b + 1 - a)) for a, b in (self.one(ranges) for _ in range(count)))

    def name(self):
        letters = "abcdefghijklmnopqrstuvwxyzABCDEXYZ_"
        return self.one(
            [
                "".join(self.one(letters) for _ in range(1 + self.below(9))),
                self.one(self.one(self.prose).split()),
                str(self.below(10 ** (1 + self.below(7)))),
            ]
        )

    def script(self):
        script = [self.one(SCRIPTS)]
        words = [self.characters(script, 1 + self.below(7)) for _ in range(1 + self.below(8))]
        return self.one([" ", "", ", ", "\u3001"]).join(words)

    def emoji(self):
        joined = [self.one(["", "\u200d", "\ufe0f", "\U0001f3fd", " "]) for _ in range(1 + self.below(6))]
        return "".join(self.characters(EMOJI, 1) + joint for joint in joined)

    def numbers(self):
        parts = [str(self.below(10 ** (1 + self.below(9)))) for _ in range(1 + self.below(5))]
        text = self.one([".", ",", " ", "-", "/", "e+", " = "]).join(parts)
        return text + self.characters([(0x660, 0x669)], self.below(3))

    def spaces(self):
        return "".join(self.one(SPACES) + self.one(["", "x", "Word", "!", "12"]) for _ in range(1 + self.below(9)))

    def code(self):
        form = self.one(CODE)
        return form.format(*(self.name() for _ in range(form.count("{}"))))

    def special(self):
        return "".join(self.one(SPECIAL) + self.one(["", " ", "hi", "\n", " the"]) for _ in range(1 + self.below(4)))

    def anything(self):
        return self.characters([(1, 0xD7FF), (0xE000, 0x10FFFF), (1, 0x7F), (0x80, 0x7FF)], 1 + self.below(12))

    def text(self):
        prose = self.one(self.prose)
        kinds = [
            lambda: prose,
            lambda: prose[self.below(len(prose)) :],
            self.script,
            self.emoji,
            self.numbers,
            self.spaces,
            self.code,
            self.special,
            self.anything,
            lambda: self.characters(SIGNS, 1 + self.below(6)),
        ]
        return "".join(self.one(kinds)() for _ in range(1 + self.below(3)))

    def broken(self, data):
        """Data with bytes changed, removed, inserted, or with an encoding that UTF-8 forbids."""
        data = bytearray(data)
        for _ in range(1 + self.below(4)):
            at = self.below(len(data) + 1)
            change = self.below(4)
            if change == 0 and at < len(data):
                data[at] = self.below(256)
            elif change == 1:
                del data[at : at + 1 + self.below(2)]
            elif change == 2:
                data[at:at] = bytes([0x80 + self.below(128)])
            else:  # a surrogate, an overlong encoding, a cut character
                wrong = [b"\xed\xa0\xbd", b"\xed\xb8\x80", b"\xc0\xaf", b"\xe0\x80\xa9", b"\xf0\x9f\x98"]
                data[at:at] = self.one(wrong)
        return bytes(data)


def lines(count, seed=17):
    """Lines as bytes; about one of five is not valid UTF-8. None holds a zero byte, or a byte above 0xF3, with which
    encodings beyond U+10FFFF begin.
    """
    writer = Writer(seed)
    found = []
    while len(found) < count:
        data = writer.text().encode()
        if writer.below(5) == 0:
            data = writer.broken(data)
        if 0 not in data and not any(byte >= 0xF4 for byte in data):
            found.append(data[:400])
    return found


CONVERSATIONS = [
    [{"role": "user", "content": "Hello!"}],
    [
        {"role": "user", "content": "What is 2 + 2?"},
        {"role": "assistant", "content": "4"},
        {"role": "user", "content": "And 3 + 3?\nThink.  "},
    ],
    [
        {"role": "system", "content": "You answer in one word."},
        {"role": "user", "content": "Gr\u00fc\u00dfe, \u4f60\u597d \U0001f600"},
    ],
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "<|im_end|> {{ 1 }}"},
        {"role": "assistant", "content": "\n\tdef f(): pass"},
        {"role": "user", "content": ""},
    ],
]
