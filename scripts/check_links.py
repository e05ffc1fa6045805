"""Checks the references of a built documentation site: files and anchors within the site exist. Needs no network.

python scripts/check_links.py FOLDER
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The anchors of a page, and what it refers to."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.references = set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        if tag == "link" and ("rel", "canonical") in attrs:  # the address of the page itself
            return
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.references.append(value)


def missing(folder):
    """What is referred to and does not exist, as `page: reference`."""
    pages = {path.resolve(): Page(path) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        if path.name == "404.html":  # its references begin with the address of the site
            continue
        for reference in page.references:
            parts = urlsplit(reference)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(parts.fragment)
            if not target.is_file():
                yield f"{path.relative_to(folder.resolve())}: {reference}"
            elif anchor and target in pages and anchor not in pages[target].anchors:
                yield f"{path.relative_to(folder.resolve())}: {reference}: the page has no such anchor"


def main():
    folder = Path(sys.argv[1])
    if not (folder / "index.html").is_file():
        sys.exit(f"check_links.py: {folder} is not a built site")
    found = sorted(set(missing(folder)))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
