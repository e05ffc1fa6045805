"""An HTTP server for language models, with OpenAI's interface: `ggml serve`, or `app` for programs that mount it.

    import uvicorn
    from ggml.serve import app

    uvicorn.run(app({"small": "model.gguf"}), port=8080)

It needs the extra `[serve]` (pip install 'ggml-cython[serve,llm]').
"""

from .._extras import require

require("serve: ", ["fastapi", "uvicorn", "prometheus_client"], "'ggml-cython[serve,llm]'")

from .application import app  # noqa: E402 - after the check
from .options import Options  # noqa: E402

__all__ = ["Options", "app"]
