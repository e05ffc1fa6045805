"""An extension of griffe, which reads docstrings and stubs for the reference (mkdocs.yml): this project's style.

Sections of a docstring follow each other without an empty line here, which griffe needs; and the stubs' private names
of what an argument may be are replaced by words.
"""

import re

import griffe

SECTION = re.compile(r"\n(?=(?:Args|Returns|Yields|Raises|See also|Example|Examples|Note|Attributes):\s*\n)")
SHARED = re.compile(r"^( +)((?:\w+, )+\w+): (.*(?:\n\1 +.*)*)", re.M)
WORDS = (
    (r"_Int\b", "int"),
    (r"_Float\b", "float"),
    (r"_Bool\b", "bool"),
    (r"_Text\b", "str | bytes"),
    (r"\b_To\[(\w+)\]", r"\1"),
    (r"_(Address|Pointer)\b", "pointer"),
)


def described(annotation):
    text = str(annotation)
    for pattern, word in WORDS:
        text = re.sub(pattern, word, text)
    return text if text != str(annotation) else annotation


def one_each(text):
    """Attributes that share a description, `a, b: what they are`, get one entry each."""
    head, section, attributes = text.partition("Attributes:\n")
    return (
        head
        + section
        + SHARED.sub(
            lambda found: "\n".join(f"{found[1]}{name}: {found[3]}" for name in found[2].split(", ")), attributes
        )
    )


class ProjectStyle(griffe.Extension):
    """Separates the sections of docstrings, and the attributes; names the types of parameters."""

    def on_object(self, *, obj, **_):
        if obj.docstring:
            obj.docstring.value = SECTION.sub("\n\n", one_each(obj.docstring.value))

    def on_function(self, *, func, **_):
        for parameter in func.parameters:
            if parameter.annotation is not None:
                parameter.annotation = described(parameter.annotation)
