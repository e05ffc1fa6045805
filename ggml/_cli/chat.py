"""A conversation with a language model in the terminal."""

import io
import re
import sys
import time
from pathlib import Path

from .models import add_image_arguments, add_model_arguments, add_sampling_arguments, open_model, report_speed, sampling

HELP = """Ctrl-C stops an answer. Ctrl-D, /quit or /exit ends. /reset begins a new conversation, /image FILE adds a
picture to the next message, /speed shows tokens/s, /help shows this. A line that begins with a space is a message
whatever follows."""
COMMAND = re.compile(r"/[\w?-]*")  # "/etc/fstab is ..." is a message


def add_arguments(parser):
    add_model_arguments(parser)
    parser.add_argument("--system", metavar="TEXT", help="instructions before the conversation")
    add_image_arguments(parser, "of the first message")
    add_sampling_arguments(parser)
    parser.set_defaults(max_tokens=1024)


def ask(terminal):
    """The next line of the user, None at the end."""
    while sys.stdin and sys.stdout:
        try:
            return input("> " if terminal else "")
        except EOFError:
            return None
        except KeyboardInterrupt:
            print("\nCtrl-D or /exit ends.", file=sys.stderr)
    return None


class Conversation:
    """The messages so far, and the answers to them.

    Args:
        model: Model.
        system: str or None; instructions before the first message.
        settings: dict; arguments of Model.generate.
    """

    def __init__(self, model, system, settings):
        from ggml.models.chat.template import ChatTemplate

        self.model, self.settings = model, settings
        self.template = ChatTemplate(model.metadata, model.tokenizer)
        self.first = [{"role": "system", "content": system}] if system else []
        self.messages = list(self.first)
        self.pictures = []  # of the next message
        self.speed = None

    def reset(self):
        self.messages = list(self.first)

    def add_picture(self, path):
        """Adds a picture to the next message."""
        self.model.image_tokens(path)  # raises if it is none
        self.pictures.append({"type": "image", "image": Path(path)})

    def tokens(self):
        """The tokens of the conversation."""
        if any(isinstance(message["content"], list) for message in self.messages):
            return self.model.images.conversation("chat", self.messages, self.template.render)[1]
        return self.template.tokens(self.messages)

    def prompt(self):
        """The tokens of the conversation. The oldest messages go if there is no room for half an answer."""
        room = self.model.n_ctx - min(self.settings["max_tokens"], self.model.n_ctx) // 2
        before = len(self.messages)
        while len(ids := self.tokens()) > room and len(self.messages) > len(self.first) + 1:
            del self.messages[len(self.first) : len(self.first) + 2]
        if dropped := before - len(self.messages):
            self.warn(f"the oldest {dropped} messages were dropped")
        return ids

    def warn(self, what):
        size = self.model.n_ctx
        print(f"ggml chat: the context of {size} tokens (--ctx) is full: {what}", file=sys.stderr)

    def answer(self, line, show):
        """Answers a line; `show` gets each piece. Ctrl-C ends the answer; its beginning stays in the conversation."""
        content = [*self.pictures, {"type": "text", "text": line}] if self.pictures else line
        self.messages.append({"role": "user", "content": content})
        text, first, start = "", 0.0, time.perf_counter()
        try:
            ids = self.prompt()
            generation = self.model.generate(ids, overflow="shift", **self.settings)
        except BaseException:
            self.messages.pop()
            raise
        self.pictures = []
        try:
            for piece in generation:
                first = first or time.perf_counter() - start
                text += piece
                show(piece)
        except KeyboardInterrupt:
            generation.close()
        if len(ids) + len(generation.ids) > self.model.n_ctx:
            print(flush=True)
            self.warn("older parts of the conversation were dropped during the answer")
        self.speed = len(ids), first, len(generation.ids), time.perf_counter() - start
        self.messages.append({"role": "assistant", "content": text})
        return text

    def command(self, line):
        """Does what a command says; False if it ends the program."""
        name, picture = line.lower(), re.fullmatch(r"/image\s+(.+)", line, re.I)
        if name in ("/exit", "/quit"):
            return False
        if name == "/reset":
            self.reset()
        elif picture:
            try:
                self.add_picture(picture[1])
            except (OSError, ValueError) as error:
                print(f"ggml chat: {error}", file=sys.stderr)
        elif name == "/speed":
            if self.speed:
                report_speed(*self.speed)
            else:
                print("there is no answer yet", file=sys.stderr)
        elif name == "/help":
            print(HELP, file=sys.stderr)
        else:
            print(f"unknown command {line!r}: /help lists the commands", file=sys.stderr)
        return True


def show(piece):
    print(piece, end="", flush=True)


def run(options):
    terminal = sys.stdin is not None and sys.stdin.isatty()
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # a line need not be valid UTF-8
    if terminal:
        try:
            import readline  # noqa: F401 - arrow keys and history in input()
        except ImportError:  # Windows
            pass
    with open_model(options) as model:
        talk = Conversation(model, options.system, sampling(options))
        for path in options.image:
            talk.add_picture(path)
        if terminal:
            print(HELP, file=sys.stderr)
        while (line := ask(terminal)) is not None:
            if COMMAND.fullmatch(line.partition(" ")[0]):
                if not talk.command(line.strip()):
                    break
            elif line.strip():
                try:
                    talk.answer(line, show)
                except KeyboardInterrupt:  # before the first token: the message is forgotten
                    pass
                except ValueError as error:  # a message that is too long, or that the template refuses
                    print(f"ggml chat: {error}", file=sys.stderr)
                print(flush=True)
        if terminal:
            print()
