"""Prints the embeddings of texts: one line of JSON for each."""

import json

from .models import add_model_arguments, open_model


def add_arguments(parser):
    add_model_arguments(parser)
    parser.add_argument("texts", nargs="+", metavar="TEXT")
    parser.add_argument("--pooling", choices=("mean", "cls", "last"), help="how the tokens of a text are combined"
                        " (default: what the file says, else mean)")  # fmt: skip
    parser.add_argument("--normalize", action="store_true", help="scale each embedding to length 1")
    parser.add_argument("--similarity", action="store_true", help="print the cosine of each pair of texts instead")


def run(options):
    with open_model(options) as model:
        rows = model.embed(options.texts, pooling=options.pooling, normalize=options.normalize or options.similarity)
    if options.similarity:
        for row in rows @ rows.T:
            print(" ".join(f"{value:7.4f}" for value in row))
    else:
        for row in rows:
            print(json.dumps([round(float(value), 7) for value in row]))
