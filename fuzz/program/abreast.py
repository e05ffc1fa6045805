"""Random programs that several threads compute at a time: each must get the bits that one thread alone gets."""

import os
import threading
import time
from collections import Counter

from . import execute, make

ALONE = {"compared"}  # of an answer: what the threads of a process count together


def of_thread(program, answers, k):
    answers[k] = execute.answer(program)


def examine(seed, threads):
    """What is wrong with the answers to the program of a seed, or None."""
    maker = make.Maker(seed, False)
    try:
        program = maker.make(make.SUBJECTS[seed % len(make.SUBJECTS)]).sent(noise=False)
    finally:
        maker.close()
    want, answers = execute.answer(program), [None] * threads
    workers = [threading.Thread(target=of_thread, args=(program, answers, k)) for k in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for k, got in enumerate(answers):
        wrong = [key for key in want.keys() - ALONE if got is None or got.get(key) != want[key]]
        if wrong:
            return f"seed {seed}, thread {k}: {(got or {}).get('fault') or f'other {wrong}'}"
    return None


def run(seconds, threads, first):
    """Examines one seed after the other; prints what is wrong. Returns counts."""
    counts, end, seed = Counter(), time.monotonic() + seconds, first
    execute.out = open(os.devnull, "w")  # of what it says before each step
    while time.monotonic() < end:
        problem = examine(seed, threads)
        counts["programs abreast"] += threads
        if problem:
            counts["failures"] += 1
            print(problem, flush=True)
        seed += 1
    return counts
