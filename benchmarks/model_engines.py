"""Computes with a language model through one library, for benchmarks/models.py, which starts this program:

    PYTHON benchmarks/model_engines.py LIBRARY MODEL THREADS CONTEXT SEQUENCES [embed]

LIBRARY is ggml, llama_cpp, ik_llama_cpp, or flat: a program of this library's flat functions (flat_model.py), which
answers the first two requests. With `embed` the model gives embeddings, means of states. Each line of the standard
input is a request in JSON, and each line of the standard output the seconds that it took:

| request | what is measured |
| --- | --- |
| ["read", depth, n] | n tokens after `depth` others, in pieces of CHUNK |
| ["write", depth, n] | n tokens after `depth` others, one by one |
| ["together", count, n] | n tokens of each of `count` sequences, one of each at a time |
| ["embed", count, n] | embeddings of `count` texts of n tokens, together |
| ["encode", n] | n tokens, which the encoder of a model with a decoder reads, and the first of the decoder |
| ["translate", depth, n] | n tokens, which the decoder writes after the encoder has read `depth` |
| ["memory"] | the largest resident memory of the process; the answer is in MB |

With NO_REPACK=1 in the environment llama.cpp keeps weights as they are in the file: where the CPU has AMX, 0.3.36 ends
in the products of those that it has rearranged.
"""

import json
import os
import resource
import sys
import time
import warnings

import numpy as np

CHUNK = 512  # tokens of a prompt that are computed together
POOLING_MEAN = 1  # LLAMA_POOLING_TYPE_MEAN
PROMPT = 16  # tokens at the beginning of sequences that are written together


class Ours:
    """This library."""

    def __init__(self, path, threads, n_ctx, n_seq, embed=False):
        from ggml import models

        warnings.simplefilter("ignore")
        self.model, self.batch = models.load(path, threads=threads, n_ctx=n_ctx, n_seq=n_seq), models.Batch
        self.n_vocab = self.model.config.n_vocab
        self.decoding = None

    def embed(self, texts):
        self.model.embed(texts, pooling="mean", normalize=False)

    def encode(self, tokens):
        """Lets the encoder read; what is appended next is the decoder's."""
        sequences = self.model.runner.decodings
        sequences.prepare(0, tokens, [0])
        self.decoding = sequences.items[0]

    def clear(self):
        for sequence in range(self.model.n_seq):
            self.model.reset(0, sequence)

    def append(self, pieces):
        """The most likely next token of each of some sequences; pieces: [(sequence, tokens)]."""
        if self.decoding is not None:
            return [int(self.decoding.append(pieces[0][1])[-1].argmax())]
        batch = self.batch()
        for sequence, tokens in pieces:
            batch.add(sequence, tokens)
        return self.model.runner.decode(batch).argmax(1).tolist()


class Theirs:
    """llama.cpp or ik_llama.cpp, through the functions that both have."""

    def __init__(self, api, path, threads, n_ctx, n_seq, embed=False):
        self.api = api
        api.llama_backend_init()
        loading = api.llama_model_default_params()
        if hasattr(loading, "use_extra_bufts"):
            loading.use_extra_bufts = os.environ.get("NO_REPACK") != "1"
        self.model = api.llama_model_load_from_file(str(path).encode(), loading)
        options = api.llama_context_default_params()
        options.n_ctx, options.n_batch, options.n_ubatch, options.n_seq_max = n_ctx * n_seq, CHUNK, CHUNK, n_seq
        options.n_threads = options.n_threads_batch = threads
        options.embeddings, options.pooling_type = embed, POOLING_MEAN if embed else options.pooling_type
        if hasattr(options, "flash_attn_type"):
            options.flash_attn_type = 1
        else:
            options.flash_attn = True
        self.context = api.llama_init_from_model(self.model, options)
        if not self.model or not self.context:
            raise RuntimeError(f"{path} cannot be opened")
        self.n_vocab = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self.model))
        self.batch, self.lengths = api.llama_batch_init(max(CHUNK, n_seq), 0, 1), [0] * n_seq

    def clear(self):
        if hasattr(self.api, "llama_memory_clear"):
            self.api.llama_memory_clear(self.api.llama_get_memory(self.context), True)
        else:
            self.api.llama_kv_cache_clear(self.context)
        self.lengths = [0] * len(self.lengths)

    def embed(self, texts):
        self.clear()
        self.fill(enumerate(texts))
        for i in range(self.batch.n_tokens):
            self.batch.logits[i] = 1
        compute = self.api.llama_encode if hasattr(self.api, "llama_encode") else self.api.llama_decode
        if compute(self.context, self.batch):
            raise RuntimeError("llama_encode fails")
        return [self.api.llama_get_embeddings_seq(self.context, i)[0] for i in range(len(texts))]

    def encode(self, tokens):
        self.clear()
        self.fill([(0, tokens)])
        if self.api.llama_encode(self.context, self.batch):
            raise RuntimeError("llama_encode fails")
        self.lengths = [0] * len(self.lengths)

    def append(self, pieces):
        last = self.fill(pieces)
        if self.api.llama_decode(self.context, self.batch):
            raise RuntimeError("llama_decode fails")
        rows = (self.api.llama_get_logits_ith(self.context, i) for i in last)
        return [int(np.ctypeslib.as_array(row, (self.n_vocab,)).argmax()) for row in rows]

    def fill(self, pieces):
        """Puts tokens into the batch; the places of the last ones of each piece, whose results are wanted."""
        batch, n, last = self.batch, 0, []
        for sequence, tokens in pieces:
            for token in tokens:
                batch.token[n], batch.pos[n], batch.n_seq_id[n] = token, self.lengths[sequence], 1
                batch.seq_id[n][0], batch.logits[n] = sequence, 0
                self.lengths[sequence], n = self.lengths[sequence] + 1, n + 1
            batch.logits[n - 1] = 1
            last.append(n - 1)
        batch.n_tokens = n
        return last


def engine(library, *arguments):
    """The engine of a library by its name."""
    if library == "ggml":
        return Ours(*arguments)
    if library == "flat":
        from flat_model import Flat

        return Flat(*arguments[:4])
    if library == "llama_cpp":
        from llama_cpp import llama_cpp as api
    else:
        from ik_llama_cpp import _ctypes_api as api
    return Theirs(api, *arguments)


class Requests:
    """Answers requests with an engine."""

    def __init__(self, found):
        self.engine, self.random = found, np.random.default_rng(0)

    def tokens(self, n):
        return self.random.integers(3, self.engine.n_vocab, n).tolist()

    def append(self, n):
        for first in range(0, n, CHUNK):
            self.engine.append([(0, self.tokens(min(CHUNK, n - first)))])

    def read(self, depth, n):
        self.engine.clear()
        self.append(depth)
        start = time.perf_counter()
        self.append(n)
        return time.perf_counter() - start

    def write(self, depth, n):
        self.engine.clear()
        self.append(depth)
        return self.steps(self.tokens(1), n)

    def together(self, count, n):
        self.engine.clear()
        return self.steps([self.engine.append([(i, self.tokens(PROMPT))])[0] for i in range(count)], n)

    def embed(self, count, n):
        texts = [self.tokens(n) for _ in range(count)]
        start = time.perf_counter()
        self.engine.embed(texts)
        return time.perf_counter() - start

    def encode(self, n):
        tokens = self.tokens(n)
        start = time.perf_counter()
        self.engine.encode(tokens)
        self.engine.append([(0, [0])])  # what the decoder reads of them is computed here, or was by the encoder
        return time.perf_counter() - start

    def translate(self, depth, n):
        self.engine.encode(self.tokens(depth))
        return self.steps([0], n)

    def steps(self, found, n):
        """The seconds that n tokens of each sequence take, after one that is not counted; found: the last ones."""
        for i in range(n + 1):
            if i == 1:
                start = time.perf_counter()
            found = self.engine.append([(sequence, [token]) for sequence, token in enumerate(found)])
        return time.perf_counter() - start

    def memory(self):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e6 / 1024)


def main():
    library, path, *sizes = sys.argv[1:]
    answer = Requests(engine(library, path, *map(int, sizes[:3]), sizes[3:] == ["embed"]))
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        kind, *arguments = json.loads(line)
        print(json.dumps(getattr(answer, kind)(*arguments)), flush=True)


if __name__ == "__main__":
    main()
