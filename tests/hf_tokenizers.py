"""Small tokenizers in the folders of tests/hf_models.py, as Hugging Face saves them."""

import json

import tokenizers
from tokenizers import pre_tokenizers, processors

WORDS = ("one", "two", "three", "four", "five", "yes", "no")


def add_tokenizer(folder, model, before, after=None, special=(), **settings):
    """Writes tokenizer.json and tokenizer_config.json."""
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = before
    tokenizer.add_special_tokens(list(special))
    if after is not None:
        tokenizer.post_processor = after
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return tokenizer


def word_pieces(folder):
    """A vocabulary of BERT's kind, by the library."""
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]
    vocabulary = {name: i for i, name in enumerate(names)}
    model = tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]", continuing_subword_prefix="##")
    after = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    found = add_tokenizer(folder, model, pre_tokenizers.BertPreTokenizer(), after, names[:4],
                          cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]", pad_token="[PAD]")  # fmt: skip
    found.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return found
