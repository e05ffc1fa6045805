"""Marks where somebody speaks in a WAV file: prints the times and draws them over the sound.

    pip install --no-deps silero-vad
    python mark_speech.py talk.wav --plot talk.png

The model is Silero VAD from the package silero-vad, of which only the file is used.
"""

import argparse
import wave
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import ggml.onnx
from ggml.training import check_picture, picture

START, STOP = 0.5, 0.35  # speech starts above the one probability and ends below the other
PAUSE, SHORTEST = 0.1, 0.25  # seconds: shorter pauses do not end speech, shorter speech is dropped


def default_model():
    """The model in the installed package."""
    spec = find_spec("silero_vad")
    if spec is None:
        raise SystemExit("needs a model: pip install --no-deps silero-vad, or --model FILE")
    return Path(spec.origin).parent / "data" / "silero_vad.onnx"


def read_wav(path):
    """The samples of a file from -1 to 1 (the mean of its channels), and how many there are per second."""
    with wave.open(str(path), "rb") as file:
        rate, channels = file.getframerate(), file.getnchannels()
        bits = 8 * file.getsampwidth()
        if bits != 16 or rate not in (8000, 16000):
            raise SystemExit(f"{path} has {bits} bits at {rate} Hz: need 16 bits at 8000 or 16000 Hz")
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, channels)
    return samples.mean(1, dtype=np.float32) / 32768, rate


def probabilities(model, samples, rate):
    """The probability of speech for every 32 ms.

    The model gets the samples of a window behind the last of the window before, and its own state.
    """
    window, before = rate * 32 // 1000, rate * 4 // 1000
    padded = np.pad(samples, (before, -len(samples) % window))
    state, found = np.zeros((2, 1, 128), np.float32), []
    for start in range(0, len(padded) - before, window):
        chunk = padded[None, start : start + before + window]
        score, state = model.run({"input": chunk, "state": state, "sr": np.array(rate)})
        found.append(float(score[0, 0]))
    return np.array(found)


def spans(found, step=0.032):
    """Pairs of start and end in seconds."""
    speech, start = [], None
    for i, p in enumerate([*found, 0.0]):
        if start is None and p >= START:
            start = i * step
        elif start is not None and p < STOP:
            if speech and start - speech[-1][1] < PAUSE:
                start = speech.pop()[0]
            speech.append((start, i * step))
            start = None
    return [(a, b) for a, b in speech if b - a >= SHORTEST]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sound", help="WAV file with 16 bits at 8000 or 16000 Hz")
    parser.add_argument("--model", help="ONNX file (default: that of silero-vad)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--plot", default="speech.png", help="file for the picture")
    args = parser.parse_args()
    check_picture(args.plot)  # now rather than at the end
    samples, rate = read_wav(args.sound)
    model = ggml.onnx.load(args.model or default_model(), threads=args.threads)
    found = probabilities(model, samples, rate)
    speech = spans(found)
    for start, end in speech:
        print(f"speech from {start:.2f} s to {end:.2f} s")

    def draw(axes):
        axes.plot(np.arange(len(samples)) / rate, samples / max(abs(samples).max(), 1e-9), linewidth=0.3, color="grey")
        axes.plot((np.arange(len(found)) + 0.5) * 0.032, found, color="tab:blue", label="probability of speech")
        for start, end in speech:
            axes.axvspan(start, end, alpha=0.2, color="tab:green")
        axes.set(xlabel="seconds", title="")
        axes.legend(loc="lower right")

    picture(args.plot, Path(args.sound).name, draw)


if __name__ == "__main__":
    main()
