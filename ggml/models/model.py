"""`Model`: a language model from a GGUF file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from .._errors import named
from .._owners import Owner
from .files.config import Config
from .generate.images import Images
from .generate.prompts import Prompts
from .generate.scheduler import Generating
from .ranking import Ranking
from .run.adapters import Adapting
from .run.runner import Runner
from .score import Embedding, Scoring
from .search import Searching
from .state import States
from .trace import Inspecting
from .train.finetune import Finetuning
from .train.gradients import Gradients

if TYPE_CHECKING:
    from ..distributed import Communicator
    from .run.split import Split

P = ParamSpec("P")
R = TypeVar("R")


def of(part: str, method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method of Model that is that of one of its parts."""
    name = method.__name__

    @wraps(method)
    def call(self: Any, *args: P.args, **options: P.kwargs) -> R:
        return getattr(getattr(self, part), name)(*args, **options)

    call.__qualname__ = f"Model.{name}"
    return call


class Model(Owner):
    """A language model from a GGUF file. Made by `load`; use it in a `with` statement or call `close`.

    All methods may be called from several Python threads: calls on one model take turns, calls on different models run
    at the same time.

    Attributes:
        config: sizes and settings.
        metadata: the keys of the file as a mapping.
        n_ctx: most tokens of a sequence.
        n_seq: sequences that are decoded together.
        tokenizer: built from the file on first use.
        labels: of a model that classifies texts, the names of the classes, where the file has some.
        split: of a model that is divided among ranks, this rank's part; else None. Its `replicated` names the tensors
            that every rank has as a whole.
        runner: computes; knows sequences of tokens.
        prompts: makes tokens of texts.
        images: makes tokens of pictures.
        writer: writes texts, one or many.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, mmproj: str | os.PathLike[str] | None = None, **options: Any
    ) -> None:
        self.runner = Runner(path, **options)
        self.prompts = Prompts(self.runner)
        try:
            self.images = Images(self.runner, self.prompts, mmproj, options.get("mmap", True))
        except BaseException:
            self.runner.close()
            raise
        self.writer = Generating(self.runner, self.prompts, self.images)
        self.scoring, self.embedding = Scoring(self.runner, self.prompts), Embedding(self.runner, self.prompts)
        self.ranking = Ranking(self.runner, self.prompts, self.embedding)
        self.searching = Searching(self.images, self.embedding)
        self.states, self.inspecting = States(self.runner, self.prompts), Inspecting(self.runner, self.images)
        self.adapting, self.finetuning = Adapting(self.runner), Finetuning(self.runner, self.prompts, self.images)
        self.differentiating = Gradients(self.runner, self.prompts)

    config: Config = property(lambda self: self.runner.config)  # type: ignore[assignment]
    metadata: Any = property(lambda self: self.runner.metadata)
    n_ctx: int = property(lambda self: self.runner.n_ctx)  # type: ignore[assignment]
    n_seq: int = property(lambda self: self.runner.n_seq)  # type: ignore[assignment]
    split: Split | None = property(lambda self: self.runner.split)  # type: ignore[assignment]
    tokenizer: Any = property(lambda self: self.prompts.tokenizer)
    labels: tuple[str, ...] = property(lambda self: self.runner.config.labels)  # type: ignore[assignment]

    tokenize, detokenize = of("prompts", Prompts.tokenize), of("prompts", Prompts.detokenize)
    embed_image, image_tokens = of("images", Images.embed_image), of("images", Images.image_tokens)
    generate, chat = of("writer", Generating.generate), of("writer", Generating.chat)
    apply_chat_template = of("writer", Generating.apply_chat_template)
    generate_many = of("writer", Generating.generate_many)
    logits, log_probabilities = of("scoring", Scoring.logits), of("scoring", Scoring.log_probabilities)
    perplexity, embed = of("scoring", Scoring.perplexity), of("embedding", Embedding.embed)
    classify, rank = of("ranking", Ranking.classify), of("ranking", Ranking.rank)
    similarity = of("searching", Searching.similarity)
    feed, fed, reset = of("states", States.feed), of("states", States.fed), of("states", States.reset)
    held = of("states", States.held)
    save_state, load_state = of("states", States.save_state), of("states", States.load_state)
    points, trace = of("inspecting", Inspecting.points), of("inspecting", Inspecting.trace)
    edit, weight_shape = of("inspecting", Inspecting.edit), of("inspecting", Inspecting.weight_shape)
    set_lora, add_adapter = of("adapting", Adapting.set_lora), of("adapting", Adapting.add_adapter)
    finetune = of("finetuning", Finetuning.finetune)
    gradients = of("differentiating", Gradients.gradients)

    def close(self) -> None:
        """Frees the model's memory. Waits for a call that runs in another thread."""
        self.runner.close()
        self.images.close()

    def __repr__(self) -> str:
        return repr(self.runner)

    def __enter__(self) -> Model:
        self.runner.check("__enter__")
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@named("load")
def load(
    path: str | os.PathLike[str],
    *,
    n_ctx: int | None = None,
    n_seq: int = 1,
    threads: int | None = None,
    kv_type: str | Sequence[str] = "f16",
    lora: Iterable[str | os.PathLike[str]] = (),
    mmap: bool | str = True,
    comm: Communicator | None = None,
    split: str = "tensor",
    mmproj: str | os.PathLike[str] | None = None,
    kv_overrides: Mapping[str, Any] | None = None,
    snapshots: int = 4,
) -> Model:
    """Opens a language model.

    Args:
        path: GGUF file; of a split file, any part. Or a folder as Hugging Face saves a model, see `convert`: weights
            that a GGUF file would have as they are stay in the pages of the shards.
        n_ctx: most tokens of a sequence; None for what the file allows, at most 4,096.
        n_seq: sequences that can be decoded together.
        threads: threads to compute with; None for one on each available CPU.
        kv_type: type of the stored keys and values: "f16", "f32", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0" or
            "iq4_nl"; or two of them, of keys and of values.
        lora: paths of adapters.
        mmap: True to map the file and adapters; the weights of a model that generates text are copied to large pages,
            in which each token takes less time, as far as there is enough memory and a second suffices. "shared" to
            leave them in the pages of the file, which are read on first use and shared with other processes. False to
            read them into memory.
        comm: ggml.distributed.Communicator whose ranks compute together, or None. Each rank has its part of the weights
            and of the keys and values only; all ranks make the same calls and get the same results, which are those of
            one rank. See docs/distributed.md.
        split: how the model is divided among the ranks: "tensor", each matrix by its rows.
        mmproj: GGUF file with the model's encoder of pictures, or a folder as Hugging Face saves such a model; None for
            texts only. See docs/images.md.
        kv_overrides: keys of a GGUF file with values that replace those of the file.
        snapshots: most copies of the states of a sequence, for models that have some (Mamba, Qwen 3.5, ...): a sequence
            that is shortened, or whose beginning another one takes, goes to the nearest copy and computes what follows
            it again. 0 for none.
    Returns:
        Model.
    Raises:
        OSError: a file cannot be read.
        TypeError: path is not a path, lora is a single one, or a value of kv_overrides is not of the file's kind.
        ValueError: the file is not a valid GGUF file or no model of a known architecture, a tensor or key is missing
            or has a wrong shape or value, or an argument is out of range. The message names what is wrong.
        MemoryError: there is not enough memory.
    """
    return Model(path, n_ctx=n_ctx, n_seq=n_seq, threads=threads, kv_type=kv_type, lora=lora, mmap=mmap,
                 comm=comm, split=split, mmproj=mmproj, kv_overrides=kv_overrides, snapshots=snapshots)  # fmt: skip
