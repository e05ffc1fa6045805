"""Compares what two packages `llama_cpp` answer to a program of this folder.

    python recording.py PROGRAM RECORD     runs a program and writes down the answers of `llama_cpp.Llama`
    python recording.py --compare A B      prints where two records differ; ends with 1 if they do
    python recording.py --gaps A B         prints the logits where texts part, by the installed package

Assertions of the program are computed and not checked, since they say what holds for one of the packages. Answers are
compared by their order. Texts with a temperature above 0 are drawn with random numbers, and are counted alone.
"""

import ast
import functools
import inspect
import json
import sys
from pathlib import Path

METHODS = {"create_completion": 0.8, "create_chat_completion": 0.2, "embed": 0.0}  # and their default temperatures


class Unchecked(ast.NodeTransformer):
    """Makes expressions of assertions."""

    def visit_Assert(self, node):
        return ast.copy_location(ast.Expr(node.test), node)


def begin(path):
    """Records the outermost calls of the methods in a file, one JSON object a line."""
    import llama_cpp

    Path(path).write_text("")
    depth: list[str] = []

    def note(llama, name, given, answer):
        found = {"method": name, **asked(given), "answer": answer, "ids": llama._input_ids.tolist()}
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(found, ensure_ascii=False) + "\n")

    def streamed(llama, name, given, chunks):
        found = []
        for chunk in chunks:
            found.append(chunk)
            yield chunk
        note(llama, name, given, joined(found))

    def recorded(name, method):
        signature = inspect.signature(method)

        @functools.wraps(method)
        def call(self, *args, **options):
            if depth:
                return method(self, *args, **options)
            bound = signature.bind(self, *args, **options).arguments
            given = {"temperature": METHODS[name], **bound, **bound.get("options", {})}
            depth.append(name)
            try:
                answer = method(self, *args, **options)
            finally:
                depth.pop()
            if hasattr(answer, "__next__"):
                return streamed(self, name, given, answer)
            note(self, name, given, shown(answer))
            return answer

        return call

    for name in METHODS:
        setattr(llama_cpp.Llama, name, recorded(name, getattr(llama_cpp.Llama, name)))


def asked(given):
    """What was asked."""
    kept = ("prompt", "messages", "input", "temperature", "max_tokens")
    return json.loads(json.dumps({key: given[key] for key in kept if given.get(key) is not None}, default=str))


def called(call):
    """The name and the arguments of a call."""
    try:
        return call["function"]["name"], json.loads(call["function"]["arguments"])
    except ValueError:
        return call["function"]["name"], call["function"]["arguments"]


def shown(answer):
    """An answer without what differs in each run."""
    if not isinstance(answer, dict):  # embeddings: of one text or of several
        return {"vectors": len(answer) if answer and isinstance(answer[0], list) else 1}
    choice = answer["choices"][0]
    message = choice.get("message") or {"content": choice.get("text")}
    calls = [called(call) for call in message.get("tool_calls") or ()]
    return {"text": message.get("content"), "end": choice["finish_reason"], **({"calls": calls} if calls else {})}


def joined(chunks):
    """The answer of a stream."""
    choices = [chunk["choices"][0] for chunk in chunks if chunk.get("choices")]
    parts = [choice.get("delta") or choice for choice in choices]
    ends = [choice["finish_reason"] for choice in choices if choice.get("finish_reason")]
    text = "".join(part.get("content") or part.get("text") or "" for part in parts)
    return {"text": text, "end": ends[-1] if ends else None}


def common(a, b):
    """The number of characters that two texts have in common at their beginnings."""
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def read(*paths):
    """The answers of records, and the tokens of each."""
    records = [[json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()] for path in paths]
    return records, [[found.pop("ids") for found in record] for record in records]


def gaps(first, second):
    """Prints the logits of the tokens where texts part, and the largest, as the installed package computes them."""
    import llama_cpp
    import model

    records, ids = read(first, second)
    llama = llama_cpp.Llama(model.path(), n_ctx=1024, logits_all=True, verbose=False)
    for i, (a, b) in enumerate(zip(*records)):
        at = common(ids[0][i], ids[1][i])
        if a["answer"] == b["answer"] or a["temperature"] > 0 or not at:
            continue
        llama.reset()
        llama.eval(ids[0][i][:at])
        logits = llama.scores[at - 1]
        pair = [found[i][at] for found in ids if at < len(found[i])]  # the last token of a text is not always there
        best = sorted(range(len(logits)), key=lambda token: -logits[token])[:4]
        texts = [f"{llama.detokenize([token])!r} {logits[token]:.2f}" for token in (*pair, *best)]
        print(f"answer {i}: token {at}:", *texts[: len(pair)], "; largest:", *texts[len(pair) :])


def compare(first, second):
    """Prints where two records differ; returns whether they do."""
    records, _ = read(first, second)
    equal = drawn = different = 0
    for i, (a, b) in enumerate(zip(*records)):
        if a == b:
            equal += 1
        elif a["temperature"] > 0:
            drawn += 1
        else:
            different += 1
            texts = [str(found["answer"].get("text")) for found in (a, b)]
            print(f"answer {i} ({a['method']}) differs after {common(*texts)} characters:")
            for key in sorted(a.keys() | b.keys()):
                if a.get(key) != b.get(key):
                    print(f"  {key}\n    {a.get(key)}\n    {b.get(key)}")
    alone = abs(len(records[0]) - len(records[1]))
    print(f"answers: {equal} equal, {different} differ, {drawn} drawn at random, {alone} of one package alone")
    return bool(different or alone)


def main():
    if sys.argv[1] in ("--compare", "--gaps"):
        sys.exit({"--compare": compare, "--gaps": gaps}[sys.argv[1]](*sys.argv[2:]))
    program, record = sys.argv[1:]
    begin(record)
    tree = ast.fix_missing_locations(Unchecked().visit(ast.parse(Path(program).read_text(encoding="utf-8"), program)))
    sys.argv = [program]
    exec(compile(tree, program, "exec"), {"__name__": "__main__", "__file__": program})


if __name__ == "__main__":
    main()
