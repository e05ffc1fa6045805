"""Looking at files: `File(path)` shows a GGUF file in a notebook, `file_page` and `graph_page` make pages of HTML.

The pages need no network; the command `ggml view` writes them. Tensors and graphs show themselves in notebooks without
this module.
"""

from ._view.gguf import File
from ._view.page import of_file as file_page
from ._view.page import of_graph as graph_page

__all__ = ["File", "file_page", "graph_page"]
