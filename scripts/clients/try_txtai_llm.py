"""txtai's pipeline `LLM` over llama.cpp, with retrieval by its vectors over llama.cpp, streams and batches."""

import llama_cpp
import model
import numpy as np
from txtai import LLM, Embeddings

QUESTION = "Name the capital of France."
DATA = ["Paris is the capital of France.", "A cat sleeps on the mat.", "The stock market fell today."]


def main():
    llama = llama_cpp.Llama(model.path(), n_ctx=1024, verbose=False)
    llm = LLM(model.path(), n_ctx=1024)
    options = {"maxlength": 16, "temperature": 0}
    text = llm("The capital of France is", defaultrole="prompt", **options)
    expected = llama("The capital of France is", max_tokens=16, temperature=0)["choices"][0]["text"]
    assert text == expected.strip() and "Paris" in text
    messages = [{"role": "user", "content": QUESTION}]
    answer = llm(messages, **options)
    assert "Paris" in answer and "".join(llm(messages, stream=True, **options)) == answer
    both = llm([messages, messages], **options)
    assert both == [answer, answer]
    assert llm(QUESTION, defaultrole="user", **options) == answer

    embeddings = Embeddings(path=model.path(), method="llama.cpp", content=True, maxlength=256)
    embeddings.index(DATA)
    assert len(embeddings.search("capital city of France", 3)) == 3
    found = np.array(embeddings.batchtransform(DATA[:2]))
    assert found.shape == (2, 576) and np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-3)
    print("txtai:", text, "/", answer)


if __name__ == "__main__":
    main()
