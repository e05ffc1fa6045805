"""Small vocabularies of each kind, as the metadata of a GGUF file: made from a seed, without training libraries.

They are the same on every Python version: nothing asks for the category of a character that a later Unicode may change.
"""

import re
import zlib
from collections import Counter

import numpy as np
from model_texts import Writer

LINES, SEED = 120, 5  # of the texts on which they are compared
# One name of each set of rules for byte-level BPE.
PRE_TOKENIZERS = (
    "default llama-bpe dbrx glm4 deepseek-llm deepseek-coder deepseek-v3 falcon smollm gpt-2 qwen2 qwen35 ufakzeka"
    " laguna minicpm5 seed-coder bailingmoe bloom viking tekken gpt-4o superbpe"
    " granite-embed-multi-97m youtu tiny_aya afmoe exaone-moe jais-2 kimi-k2"
).split()
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
SPACE = "\u2581"
UNUSABLE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b\u200d<>]")  # white space, control characters and tags


def corpus(seed, count=400):
    writer = Writer(seed)
    return [writer.text() for _ in range(count)]


def byte_characters():
    """The character of each byte in byte-level vocabularies."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = iter(range(256, 512))
    return [chr(b) if b in printable else chr(next(rest)) for b in range(256)]


def learned_merges(words, count):
    """Byte pair encoding's merges, most frequent pair first (Sennrich et al.); ties in the order of the alphabet."""
    parts = {word: tuple(word) for word in words}
    merges = []
    for _ in range(count):
        pairs = Counter()
        for word, symbols in parts.items():
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] += words[word]
        if not pairs:
            break
        best = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(best)
        for word, symbols in parts.items():
            if best[0] in symbols:
                out, i = [], 0
                while i < len(symbols):
                    joined = symbols[i : i + 2] == best
                    out.append("".join(best) if joined else symbols[i])
                    i += 2 if joined else 1
                parts[word] = tuple(out)
    return merges


def bpe(pre, merges=300):
    """Byte-level BPE with a pre-tokenizer. Its merges may cross words of other pre-tokenizers."""
    characters = byte_characters()
    words = Counter()
    for text in corpus(3):
        for word in re.findall(r" ?[\w\x80-\U0010ffff]+|\s+|[^\w\s]+", text, re.ASCII):
            words["".join(characters[b] for b in word.encode())] += 1
    pairs = learned_merges(dict(words.most_common(1200)), merges)
    tokens = [*characters, *("".join(pair) for pair in pairs)]
    types = [NORMAL] * len(tokens)
    for text, kind in (("<|endoftext|>", CONTROL), ("<|im_end|>", NORMAL), ("<h1>", USER_DEFINED), ("<unk>", UNKNOWN)):
        tokens.append(text)
        types.append(kind)
    end = tokens.index("<|endoftext|>")
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": [" ".join(pair) for pair in pairs],
        "tokenizer.ggml.bos_token_id": end,
        "tokenizer.ggml.eos_token_id": end,
    }


def pieces(seed, count):
    """Substrings of texts by frequency, with U+2581 for spaces."""
    counts = Counter()
    for text in corpus(seed):
        for word in (SPACE + re.sub(" +", SPACE, text.strip())).replace(SPACE, "\0" + SPACE).split("\0"):
            for size in range(1, 8):
                for i in range(len(word) - size + 1):
                    counts[word[i : i + size]] += 1
    usable = [p for p in counts if not UNUSABLE.search(p)]
    return sorted(usable, key=lambda p: (-counts[p] * len(p), p))[:count]


def spm(space_prefix=True):
    """SentencePiece BPE with byte fallback; some scores are equal."""
    names = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + ["<h1>", "\n\n", "\t"]
    found = [p for p in pieces(5, 1500) if p not in names]
    singles = sorted({c for p in found for c in p} - set(found))
    tokens = [*names, *found, *singles]
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [USER_DEFINED] * 3
    types += [NORMAL] * (len(tokens) - len(types))
    scores = [0.0] * len(names) + [-float(i // 3) for i in range(len(tokens) - len(names))]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.add_space_prefix": space_prefix,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }


def wordpiece():
    """BERT's kind: lower case, U+2581 before the first token of a word."""
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    found = [p.lower() for p in pieces(7, 1500)]
    letters = sorted({c for p in found for c in p if c != SPACE})
    tokens = list(dict.fromkeys([*names, *(SPACE + c for c in letters), *letters, *found]))
    tokens = [t for t in tokens if t != SPACE]
    return {
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [CONTROL] * 5 + [NORMAL] * (len(tokens) - 5),
        "tokenizer.ggml.padding_token_id": 0,
        "tokenizer.ggml.unknown_token_id": 1,
        "tokenizer.ggml.bos_token_id": 2,
        "tokenizer.ggml.seperator_token_id": 3,
        "tokenizer.ggml.eos_token_id": 3,
        "tokenizer.ggml.mask_token_id": 4,
    }


def unigram(space_prefix=True, merge_spaces=True):
    """T5's kind: log probabilities, no byte fallback, no map of characters."""
    names = ["<pad>", "</s>", "<unk>", "<extra_1>"]
    found = pieces(9, 2000)
    tokens = [*names, *found, *sorted({c for p in found for c in p} - set(found))]
    rng = np.random.default_rng(1)
    scores = [0.0] * 4 + [float(np.float32(-3 - 0.002 * i - rng.random())) for i in range(len(tokens) - 4)]
    return {
        "tokenizer.ggml.model": "t5",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [CONTROL, CONTROL, UNKNOWN, USER_DEFINED] + [NORMAL] * (len(tokens) - 4),
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.add_space_prefix": space_prefix,
        "tokenizer.ggml.remove_extra_whitespaces": merge_spaces,
        "tokenizer.ggml.padding_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.unknown_token_id": 2,
        "tokenizer.ggml.add_eos_token": True,
    }


KINDS = {
    "spm": spm,
    "spm without space": lambda: spm(False),
    "wordpiece": wordpiece,
    "unigram": unigram,
    "unigram with spaces": lambda: unigram(True, False),
    "unigram without prefix": lambda: unigram(False, False),
}


def checksum(metadata):
    """Of a vocabulary: recorded ids are of use only for the vocabulary that they were recorded with."""
    return zlib.crc32(repr(sorted(metadata.items())).encode())


def write(metadata, path):
    """Writes a GGUF file that has a vocabulary and no tensors, for llama.cpp."""
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    for key, value in metadata.items():
        if isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        else:
            writer.add_string(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
