"""What files are that are often taken for models."""

import re

SAFETENSORS, PICKLE = "a file of safetensors", "an archive or a pickle, as PyTorch writes them"
KINDS = (  # a pattern of the first bytes, and words
    (rb"version https://git-lfs", "a pointer of Git LFS: need the file itself, which `git lfs pull` gets"),
    (rb"\s*<(?i:!DOCTYPE|html)", "a page of HTML: its download has failed, or needs an account"),
    (rb".{5}\0\0\0\{", SAFETENSORS),  # the length of a header in JSON, and the header
    (rb"PK\x03\x04|\x80[\x02-\x05]", PICKLE),
    (rb"lmgg|fmgg|tjgg", "a model file from before August 2023: need one in the format GGUF"),
    (rb"\x1f\x8b", "compressed by gzip: decompress it first"),
    (rb".{4}ORTM", "a model in the format of onnxruntime (.ort): need the ONNX model that it was made from"),
    (rb"\s*\{", "a JSON file"),
)


def kind_of(start):
    """Words for what a file is by its first 64 bytes, None if it may be a model."""
    return next((words for pattern, words in KINDS if re.match(pattern, start, re.S)), None)
