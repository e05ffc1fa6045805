"""Prints how well documents answer a query, the best first: a score and the document a line."""

from .models import add_model_arguments, open_model


def add_arguments(parser):
    add_model_arguments(parser)
    parser.add_argument("query", metavar="QUERY")
    parser.add_argument("documents", nargs="+", metavar="DOCUMENT")
    parser.add_argument("--top", type=int, metavar="N", help="print the N best only")


def run(options):
    if options.top is not None and options.top < 1:
        raise ValueError(f"--top is {options.top}: need 1 or more")
    with open_model(options) as model:
        scores = model.rank(options.query, options.documents)
    for i in sorted(range(len(scores)), key=lambda i: -scores[i])[: options.top]:
        print(f"{scores[i]:.6f}\t{options.documents[i]}")
