"""Pictures in prompts: as tokens that are embeddings, between the texts that a model expects around them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..._errors import named
from ..conversion.folder import open_images
from ..run.batch import image_tokens
from ..run.decoder import STEP
from ..run.runner import Runner
from ..run.whole_texts import normalized
from ..vision.tower import Encoded, Tower
from .prompts import Prompts

KINDS = ("image_url", "image", "input_image")  # types of parts of messages


def has_own_encoder(metadata: Mapping[str, Any]) -> bool:
    """Whether a file has an encoder of texts beside one of pictures."""
    return metadata.get("clip.has_vision_encoder") is True


class Shared:
    """The file of a runner, which the runner closes."""

    def __init__(self, runner: Runner) -> None:
        self.path, self.metadata, self.tensors = runner.file.path, runner.metadata, runner.weights

    def close(self) -> None:
        """Leaves it open."""


class Images:
    """Pictures for a model; see Model.

    Args:
        runner: of the language model.
        prompts: makes tokens of texts.
        mmproj: file with an encoder, folder as Hugging Face saves a model that has one, or None.
        mmap: whether it is mapped.
    """

    def __init__(
        self, runner: Runner, prompts: Prompts, mmproj: str | os.PathLike[str] | None = None, mmap: bool = True
    ) -> None:
        self.runner, self.prompts = runner, prompts
        self.tower: Tower | None = None
        if has_own_encoder(runner.metadata):
            if mmproj is not None:
                raise ValueError(f"load: mmproj is given: {runner.file.path} has an encoder of pictures itself")
            self.tower = Tower(Shared(runner), runner.threads)
        elif mmproj is not None:
            self.tower = self._open(mmproj, mmap)

    @named("load")
    def _open(self, path: str | os.PathLike[str], mmap: bool) -> Tower:
        """The encoder of a file, if its embeddings are those of the language model."""
        tower, width = Tower(open_images(path, mmap), self.runner.threads), self.runner.config.n_input
        if tower.dim == width and not tower.row.pooled:
            return tower
        dim = tower.dim
        tower.close()
        if tower.row.pooled:
            raise ValueError(f"{tower.file.path}: the encoder gives one embedding for a picture, which no prompt takes")
        raise ValueError(f"{tower.file.path}: embeddings of pictures have {dim} elements, those of the model {width}")

    @named("load")
    def use(self, path: str | os.PathLike[str]) -> None:
        """Encodes by the file of this path from now on."""
        with self.runner.lock:
            self.runner.check("load")
            former = self.tower
            if former is None or former.file.path != os.fsdecode(path):
                self.tower = self._open(path, self.runner.mmap)
                if former is not None:
                    former.close()

    def close(self) -> None:
        """Releases the encoder."""
        if self.tower is not None:
            with self.runner.lock:
                self.tower.close()

    def _encoder(self, caller: str) -> Tower:
        self.runner.check(caller)
        if self.tower is None:
            raise ValueError(f"{caller}: the model has no encoder of pictures: load it with mmproj=FILE")
        return self.tower

    @property
    def whole(self) -> bool:
        """Whether the tokens of a picture see each other, in some layers at least."""
        tower = self.tower
        return tower is not None and (tower.row.whole or bool(self.runner.config.own.get("whole_pictures")))

    def embed_image(self, images: Any, *, normalize: bool = False) -> Any:
        """Embeds pictures: as the language model takes them, or to be compared with texts.

        Args:
            images: a picture or a list of them: a path, a URL `data:...;base64,...`, bytes of a file, an image of
                Pillow, or an array u8 [height, width] or [height, width, 3 or 4].
            normalize: True to scale each embedding to Euclidean length 1.
        Returns:
            Of a model that compares texts with pictures (CLIP, SigLIP) f32 [n_images, dim]. Of a language model a list
            with f32 [tokens, dim] for each picture, of a picture in parts those of all of them; without what its layers
            add to them.
        Raises:
            OSError: a file cannot be read.
            TypeError: there is something that is no picture.
            ValueError: a picture is damaged or too large, or the model was loaded without mmproj.
            RuntimeError: the model is closed.
            ModuleNotFoundError: Pillow is missing (extra `vision`).
        """
        tower = self._encoder("embed_image")
        rows = self.rows("embed_image", images)
        rows = [normalized(row) for row in rows] if normalize else rows
        return np.concatenate([np.empty((0, tower.dim), np.float32), *rows]) if tower.row.pooled else rows

    def rows(self, caller: str, images: Any) -> list[np.ndarray]:
        """The embeddings of each picture, f32 [tokens, dim]."""
        given = list(images) if isinstance(images, (list, tuple)) else [images]
        dim = self._encoder(caller).dim // (1 + self.runner.config.n_deepstack)
        return [self._encoded(caller, image).rows[:, :dim] for image in given]

    def _encoded(self, caller: str, image: Any, most: int | None = None) -> Encoded:
        with self.runner.lock:
            return self.runner.computed(self._encoder(caller).encode, image, caller, most)

    def image_tokens(self, image: Any) -> list[int]:
        """The tokens that stand for a picture in a prompt, with those of the texts that the model expects around it.

        They can be put among ids of tokens wherever a method takes a list of these.

        Args:
            image: a picture, see embed_image.
        Returns:
            List of ids, and of embeddings, which are negative as numbers.
        Raises:
            OSError, TypeError, ValueError, RuntimeError, ModuleNotFoundError: as embed_image.
        """
        return self.tokens("image_tokens", [], [image])

    def tokens(
        self, caller: str, texts: Sequence[str], images: Sequence[Any], bos: bool = False, literal: str = ""
    ) -> list[int]:
        """The tokens of a prompt: texts[0], images[0], texts[1], ... Names of control tokens are such in texts.

        Args:
            bos: whether the token for the beginning of a text comes first, where the vocabulary wants it.
            literal: what stands in texts for the mark of pictures where it is text like any other.
        """
        tower = self._encoder(caller)
        if tower.row.pooled:
            raise ValueError(f"{caller}: the model compares pictures with texts: no prompt can have a picture")
        if tower.row.tokens and not any(map(self.prompts.tokenizer.has, tower.row.tokens)):
            raise ValueError(
                f"{caller}: {tower.file.path} is an encoder for models that have a token {tower.row.tokens[0]!r}: "
                f"{self.runner.file.path} has none"
            )
        ids: list[int] = []
        text = ""
        for i in range(max(len(texts), len(images))):
            text += texts[i] if i < len(texts) else ""
            if i >= len(images):
                break
            encoded = self._encoded(caller, images[i], self.runner.n_ctx - len(ids))
            for part in encoded.prompt:
                if isinstance(part, str):
                    text += part
                    continue
                ids += self._text(text, literal, tower)
                text = ""
                rows = encoded.tiles[part]
                if self.whole and len(rows) > STEP:
                    raise ValueError(f"{caller}: a picture has {len(rows)} tokens that see each other: need {STEP}")
                places = encoded.places if self.runner.config.sections else None
                ids += image_tokens(rows, self.whole, places and places[part])
            if len(ids) > self.runner.n_ctx:
                raise ValueError(
                    f"{caller}: {i + 1} of {len(images)} pictures have {len(ids)} tokens with the text before them, "
                    f"the context {self.runner.n_ctx} (n_ctx)"
                )
        ids += self._text(text, literal, tower)
        tokenizer = self.prompts.tokenizer if bos else None
        if tokenizer is not None and tokenizer.add_bos and tokenizer.bos is not None and ids[:1] != [tokenizer.bos]:
            ids.insert(0, tokenizer.bos)
        return ids

    def _text(self, text: str, literal: str, tower: Tower) -> list[int]:
        """The tokens of a text."""
        ids: list[int] = []
        for i, piece in enumerate(text.split(literal) if literal else [text]):
            if i:
                ids += self.prompts.tokenizer.encode_within(tower.row.mark)
            if piece:
                ids += self.prompts.tokenizer.encode(piece, False, True)
        return ids

    def conversation(
        self, caller: str, messages: Sequence[Mapping[str, Any]], render: Callable[[Any], str]
    ) -> tuple[str, list[int]]:
        """The text of a conversation with pictures, and its tokens.

        Templates write the mark of the model's pictures in place of a part of the type "image". Where a text has that
        mark, it stays text. Of templates that write no marks, the pictures stand where a part with a text would.

        Args:
            caller: name of the public function.
            messages: some with parts that are pictures.
            render: makes the text of messages.
        """
        marked = self.marked(caller, messages, render)
        text = marked.render(messages)
        return text.replace(marked.literal, marked.mark), self.tokens(
            caller, text.split(marked.between), marked.images, True, marked.literal
        )

    def marked(self, caller: str, messages: Sequence[Mapping[str, Any]], render: Callable[..., str]) -> Marked:
        """A conversation as text with a mark for each picture; see conversation."""
        return Marked(self, caller, self._encoder(caller).row.mark, messages, render)


class Marked:
    """The texts of a conversation with pictures.

    Args:
        owner: makes tokens of pictures.
        caller: name of the public function.
        mark: what templates write for a picture of the model.
        messages: the conversation.
        render: makes the text of messages.

    Attributes:
        images: the pictures.
        between: what stands for a picture in the text.
        literal: what stands in texts for the mark where it is text like any other.
        eog, bos, add_bos: those of the tokenizer.
    """

    def __init__(
        self, owner: Images, caller: str, mark: str, messages: Sequence[Mapping[str, Any]], render: Callable[..., str]
    ) -> None:
        key = secrets.token_hex(8)
        self.mark, self.literal, self.between, self._part = mark, f"[text-{key}]", mark, {"type": "image"}
        self._owner, self._caller, self._render, self._done = owner, caller, render, 0
        self.images = [picture_of(part, caller) for message in messages for part in parts_of(message) if is_image(part)]
        try:
            text = self.render(messages)
        except ValueError:
            text = ""
        if not mark or text.count(mark) != len(self.images):
            self.between = f"[image-{key}]"
            self._part = {"type": "text", "text": self.between}
            text = self.render(messages)
        if text.count(self.between) != len(self.images):
            shown = text.count(self.between)
            raise ValueError(f"{caller}: the template shows {shown} of {len(self.images)} pictures")

    eog = property(lambda self: self._owner.prompts.tokenizer.eog)
    bos = property(lambda self: self._owner.prompts.tokenizer.bos)
    add_bos = property(lambda self: self._owner.prompts.tokenizer.add_bos)

    def render(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> str:
        """The text of messages, those of the conversation or the first of them."""
        given = []
        for message in messages:
            rest = {name: value for name, value in message.items() if name != "content"}
            content = message.get("content")
            if isinstance(content, (list, tuple)):
                content = [self._part if is_image(part) else self._without_marks(part) for part in content]
            elif content is not None:
                content = self._without_marks(content)
            given.append({**self._without_marks(rest), "content": content})
        return self._render(given, **options)

    def _without_marks(self, value: Any) -> Any:
        return replaced(value, self.mark, self.literal) if self.mark else value

    def encode(self, text: str, add_bos: bool = False, special: bool = True) -> list[int]:
        """The tokens of the part of the text that follows the parts before."""
        texts = text.split(self.between)
        images = self.images[self._done : self._done + len(texts) - 1]
        self._done += len(images)
        return self._owner.tokens(self._caller, texts, images, add_bos, self.literal)


def parts_of(message: Any) -> Sequence[Any]:
    """The parts of a message's content; none if it is a text."""
    content = message.get("content") if isinstance(message, Mapping) else None
    return content if isinstance(content, (list, tuple)) else ()


def is_image(part: Any) -> bool:
    """Whether a part of a message is a picture."""
    return isinstance(part, Mapping) and part.get("type") in KINDS


def has_images(messages: Any) -> bool:
    """Whether messages have a picture."""
    given = messages if isinstance(messages, (list, tuple)) else ()
    return any(is_image(part) for message in given for part in parts_of(message))


def picture_of(part: Mapping[str, Any], caller: str) -> Any:
    """The picture in a part of a message. Strings are data URLs: messages may come from strangers."""
    value = next((part[name] for name in ("image_url", "image", "url") if part.get(name) is not None), None)
    if isinstance(value, Mapping):
        value = value.get("url")
    if value is None:
        raise ValueError(f"{caller}: a part of the type {part['type']!r} has no picture: need 'image_url' or 'image'")
    if isinstance(value, str) and value[:5].lower() != "data:":
        raise ValueError(
            f"{caller}: the picture of a message is {value[:60]!r}: need a URL data:...;base64,... "
            "(of a file, a pathlib.Path)"
        )
    return value


def replaced(value: Any, old: str, new: str) -> Any:
    """A value with another text in place of one, in all strings that it has."""
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, Mapping):
        return {name: replaced(item, old, new) for name, item in value.items()}
    return [replaced(item, old, new) for item in value] if isinstance(value, (list, tuple)) else value
