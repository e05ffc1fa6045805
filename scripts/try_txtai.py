"""Runs txtai's vector index on ggml with many types and compares it with NumPy; scripts/try_txtai.sh calls it."""

import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
from txtai.ann import ANNFactory

SETTINGS = (None, "F16", "BF16", True, "Q5_0", "Q5_1", 4, "Q4_1", "IQ4_NL", "Q6_K", "Q4_K", 2)  # txtai's "quantize"
LEAST = 0.95  # the share of queries whose nearest neighbour must be that of NumPy
ROWS, WIDTH, QUERIES = 600, 512, 100


def unit_rows(rng, rows):
    x = rng.standard_normal((rows, WIDTH)).astype(np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def nearest(index, queries):
    return np.array([found[0][0] for found in index.search(queries, 1)])


def check(quantize):
    """Builds, saves, loads, extends and shrinks an index; returns the share of nearest neighbours that are right."""
    rng = np.random.default_rng(0)
    data, more = unit_rows(rng, ROWS), unit_rows(rng, 3)
    queries = data[:QUERIES] + 0.5 * unit_rows(rng, QUERIES)
    config = {"backend": "ggml", "dimensions": WIDTH, "ggml": {"quantize": quantize, "gpu": False}}
    index = ANNFactory.create(config)
    index.index(data)
    found = nearest(index, queries)
    share = np.mean(found == (queries @ data.T).argmax(1))
    assert share >= LEAST, f"quantize={quantize!r}: {share:.0%} of the nearest neighbours are right"
    with tempfile.TemporaryDirectory() as folder:
        index.save(str(Path(folder, "index")))
        index.close()
        index = ANNFactory.create(config)
        index.load(str(Path(folder, "index")))
    assert (nearest(index, queries) == found).all()
    index.config["offset"] = ROWS
    for row in more:  # txtai appends rows one by one
        index.append(row[None])
    assert index.count() == ROWS + 3 and (nearest(index, more) == ROWS + np.arange(3)).all()
    index.delete([ROWS + 1])
    assert index.count() == ROWS + 2 and nearest(index, more)[1] != ROWS + 1
    index.close()
    return share


if __name__ == "__main__":
    print(f"txtai {version('txtai')}, ggml-cython {version('ggml-cython')}, pip's ggml-python {version('ggml-python')}")
    for quantize in SETTINGS:
        print(f"quantize={quantize!r:<9} {check(quantize):6.1%} of the nearest neighbours are NumPy's")
