"""Generates text with a model that is divided among ranks, by mpiexec -n 2 python generate.py MODEL.gguf."""

import argparse
import time

from ggml.distributed import mpi
from ggml.models import load


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="GGUF file, which all ranks can read")
    parser.add_argument("--prompt", default="The capital of France is")
    parser.add_argument("--tokens", type=int, default=64, help="most tokens to generate")
    parser.add_argument("--temperature", type=float, default=0.0, help="0: always the most likely token")
    parser.add_argument("--threads", type=int, help="of each rank; default: its share of the CPUs")
    args = parser.parse_args()
    comm = mpi()
    with load(args.model, comm=comm, threads=args.threads) as model:
        begin = time.perf_counter()
        # all ranks make the same calls and get the same text; one of them prints it
        text = model.generate(args.prompt, max_tokens=args.tokens, temperature=args.temperature)
        for piece in text:
            if comm.rank == 0:
                print(piece, end="", flush=True)
        seconds = time.perf_counter() - begin
        if comm.rank == 0:
            part = f", {model.split.bytes / 2**20:.0f} MiB of weights on a rank" if model.split else ""
            print(f"\n{len(text.ids)} tokens in {seconds:.1f} s on {comm.size} ranks{part}")


if __name__ == "__main__":
    main()
