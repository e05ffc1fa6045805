"""Real ONNX models against onnxruntime: the same decisions, and outputs within a tolerance.

    pip install onnxruntime && pip install --no-deps silero-vad magika rapidocr-onnxruntime ddddocr

installs what these tests skip without; nightly runs have all of it. Only the packages' files are used.
"""

import importlib.util
import json
import sys
import wave
from pathlib import Path

import numpy as np
import pytest
from placed import EXAMPLES, example

pytest.importorskip("onnx")

import ggml.onnx  # noqa: E402

RATE = 16000
LINES = ["Reading text with ggml", "The quick brown fox", "leaves at 10:45"]


def folder(package):
    """The folder of an installed package, which is not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None:
        pytest.skip(f"{package} is not installed")
    return Path(spec.origin).parent


class Runtime:
    """A model in onnxruntime, with the interface of ggml.onnx.Model."""

    def __init__(self, path, threads=None):
        self.session = pytest.importorskip("onnxruntime").InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(self, *arrays):
        values = (
            arrays[0] if isinstance(arrays[0], dict) else dict(zip((i.name for i in self.session.get_inputs()), arrays))
        )
        return self.session.run(None, values)


def both(path):
    """A model here and in onnxruntime."""
    return ggml.onnx.load(path, threads=2, strict=True), Runtime(path)


def near(got, wanted, tolerance=1e-4):
    """Asserts that outputs are near, relative to the largest of them."""
    for a, b in zip(got, wanted, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert np.abs(a - b).max() <= tolerance * np.abs(b).max()


# ---- Speech ----------------------------------------------------------------------------------------------------------
def syllables(seconds, pitch, dice):
    """A voice: pulses of a wavering pitch through the resonances of vowels, with a hiss before each."""
    vowels = [(730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (570, 840, 2410)]
    parts, total = [], 0
    while total < seconds * RATE:
        n = int(RATE * dice.uniform(0.12, 0.25))
        t = np.arange(n) / RATE
        phase = np.cumsum(pitch * (1 + 0.15 * np.sin(8 * (total / RATE + t)))) / RATE
        spectrum = np.fft.rfft((np.diff(np.floor(phase), prepend=0) > 0) + 0.01 * dice.standard_normal(n), 2 * n)
        f = np.fft.rfftfreq(2 * n, 1 / RATE)
        spectrum /= 1 + 1j * f / 130
        for centre, width in zip(vowels[dice.integers(5)], (80, 100, 120)):
            spectrum /= (1 - (f / centre) ** 2) + 1j * f * width / centre**2
        sound = np.fft.irfft(spectrum)[:n] * np.sqrt(np.sin(np.pi * np.arange(n) / n))
        sound *= 0.5 / np.abs(sound).max()
        hiss = int(0.06 * RATE)
        sound[:hiss] += 0.15 * np.diff(dice.standard_normal(hiss), prepend=0) * np.hanning(hiss)
        parts.append(sound)
        total += n
    return np.concatenate(parts)[: int(seconds * RATE)]


@pytest.fixture(scope="module")
def talk():
    """Silence, two seconds of a low voice, silence, one and a half of a high one, silence; with a little noise."""
    dice = np.random.default_rng(0)
    quiet = np.zeros(RATE)
    sound = np.concatenate([quiet, syllables(2, 120, dice), quiet, syllables(1.5, 200, dice), quiet])
    return (sound + 0.002 * dice.standard_normal(len(sound))).astype(np.float32)


STREAMS = ["silero_vad", "silero_vad_16k_op15", "silero_vad_half", "silero_vad_op18_ifless", "silero_vad_openvino_16k"]


@pytest.mark.parametrize("name", STREAMS)
def test_speech_is_where_onnxruntime_hears_it(name, talk):
    vad = example("onnx/mark_speech")
    found = []
    for model in both(folder("silero_vad") / "data" / f"{name}.onnx"):
        names = {i.name for i in (model.inputs if hasattr(model, "inputs") else model.session.get_inputs())}

        class Stream:
            def run(self, values, model=model, names=names):
                return model.run({k: v for k, v in values.items() if k in names})

        found.append(vad.probabilities(Stream(), talk, RATE))
    ours, theirs = found
    assert 0.3 < (theirs > 0.5).mean() < 0.7
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    assert vad.spans(ours) == vad.spans(theirs)
    (a, b), (c, d) = vad.spans(ours)
    assert abs(a - 1) < 0.2 and abs(b - 3) < 0.2 and abs(c - 4) < 0.3 and abs(d - 5.5) < 0.3


def test_a_whole_recording_of_speech(talk):
    windows = np.stack([talk[i : i + 576] for i in range(0, len(talk) - 576, 512)])
    state = np.zeros((1, 1, 128), np.float32)
    ours, theirs = (
        m.run(windows, state, state) for m in both(folder("silero_vad") / "data" / "silero_vad_16k_sequence.onnx")
    )
    near(ours, theirs)
    np.testing.assert_array_equal(ours[0] > 0.5, theirs[0] > 0.5)


def test_speech_at_8000_hz(talk):
    vad, found = example("onnx/mark_speech"), []
    half = talk.reshape(-1, 2).mean(1)
    for model in both(folder("silero_vad") / "data" / "silero_vad.onnx"):
        found.append(vad.probabilities(model, half, 8000))
    np.testing.assert_allclose(*found, atol=1e-4)
    assert (found[0] > 0.5).any() and vad.spans(found[0]) == vad.spans(found[1])


def test_example_mark_speech(talk, tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    folder("silero_vad")
    sound, plot = tmp_path / "talk.wav", tmp_path / "talk.png"
    with wave.open(str(sound), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((talk * 32767).astype("<i2").tobytes())
    monkeypatch.setattr(sys, "argv", ["mark_speech.py", str(sound), "--plot", str(plot)])
    example("onnx/mark_speech").main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and all(line.startswith("speech from ") for line in lines)
    assert plot.read_bytes().startswith(b"\x89PNG")


# ---- Kinds of files --------------------------------------------------------------------------------------------------
def samples():
    """Contents of files, by the label that magika gives them."""
    image = pytest.importorskip("PIL.Image")
    from io import BytesIO

    png = BytesIO()
    image.fromarray(np.random.default_rng(0).integers(0, 255, (16, 16, 3), np.uint8)).save(png, "png")
    page = b"<!DOCTYPE html><html><head><title>t</title></head><body><p>One</p><a href='b.html'>two</a></body></html>\n"
    return {
        "python": Path(__file__).read_bytes(),
        "png": png.getvalue(),
        "html": page * 4,
        "json": json.dumps([{"name": f"n{i}", "value": i, "on": True} for i in range(50)], indent=1).encode(),
        "markdown": (EXAMPLES / "onnx" / "README.md").read_bytes(),
        "c": b"#include <stdio.h>\n\nint main(void)\n{\n    for (int i = 0; i < 3; i++)\n        "
        b'printf("%d\\n", i);\n    return 0;\n}\n' * 3,
    }


def test_kinds_of_files():
    home = folder("magika") / "models" / "standard_v3_3"
    labels = json.loads((home / "config.min.json").read_text())["target_labels_space"]
    contents = samples()
    rows = np.full((len(contents), 2048), 256, np.int32)
    for row, content in zip(rows, contents.values()):
        start, end = content.strip()[:1024], content.strip()[-1024:]
        row[: len(start)] = list(start)
        row[2048 - len(end) :] = list(end)
    (ours,), (theirs,) = (m.run(rows) for m in both(home / "model.onnx"))
    near([ours], [theirs])
    assert [labels[i] for i in ours.argmax(1)] == [labels[i] for i in theirs.argmax(1)] == list(contents)


# ---- Text in pictures ------------------------------------------------------------------------------------------------
def drawn(lines, size, step=80, height=28):
    """A picture of lines of text."""
    image = pytest.importorskip("PIL.Image")
    from PIL import ImageDraw, ImageFont

    matplotlib = pytest.importorskip("matplotlib")  # whose font is the same everywhere
    font = ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", height)
    picture = image.new("RGB", size, "white")
    for i, line in enumerate(lines):
        ImageDraw.Draw(picture).text((30, 40 + step * i), line, fill="black", font=font)
    return picture


@pytest.fixture(scope="module")
def page():
    return drawn(LINES, (480, 320))


def test_detected_text(page):
    pytest.importorskip("scipy")
    reading = example("onnx/read_text")
    models = both(folder("rapidocr_onnxruntime") / "models" / "ch_PP-OCRv4_det_infer.onnx")
    for picture in (page, page.resize((640, 448)), page.rotate(90, expand=True)):
        ours, theirs = (m.run(reading.as_input(picture)) for m in models)
        near(ours, theirs)
        different = (ours[0] > 0.3) != (theirs[0] > 0.3)
        assert not (different & (np.abs(theirs[0] - 0.3) > 1e-4)).any()


def test_text_is_read_as_onnxruntime_reads_it(page):
    pytest.importorskip("scipy")
    pytest.importorskip("onnxruntime")
    reading, home = example("onnx/read_text"), folder("rapidocr_onnxruntime") / "models"
    ours, theirs = reading.Reader(home, 2).read(page), reading.Reader(home, 2, Runtime).read(page)
    assert [text for _, text, _ in ours] == [text for _, text, _ in theirs] == LINES
    assert [box for box, _, _ in ours] == [box for box, _, _ in theirs]
    np.testing.assert_allclose([p for _, _, p in ours], [p for _, _, p in theirs], atol=1e-4)


def test_lines_that_are_upside_down():
    pytest.importorskip("scipy")
    reading, home = example("onnx/read_text"), folder("rapidocr_onnxruntime") / "models"
    line = drawn([LINES[0]], (440, 110), height=32).crop((20, 30, 430, 90))
    models = both(home / "ch_ppocr_mobile_v2.0_cls_infer.onnx")
    for turned in (0, 180):
        pixels = reading.as_input(line.rotate(turned).resize((192, 48)))
        ours, theirs = (m.run(pixels) for m in models)
        near(ours, theirs)
        assert ours[0].argmax() == theirs[0].argmax() == turned // 180


def test_example_read_text(page, tmp_path, capsys, monkeypatch):
    pytest.importorskip("scipy")
    folder("rapidocr_onnxruntime")
    path = tmp_path / "page.png"
    page.save(path)
    monkeypatch.setattr(sys, "argv", ["read_text.py", str(path), "--threads", "2"])
    example("onnx/read_text").main()
    assert [line.split("  ")[2] for line in capsys.readouterr().out.splitlines()] == LINES


def spelled(output, charset):
    """The text of the most probable letters: 0 separates them, equal neighbours are one."""
    best = np.ravel(output if output.dtype.kind == "i" or output.ndim < 3 else output.argmax(-1)).astype(int)
    return "".join(charset[i] for i in best[(best != 0) & (best != np.insert(best[:-1], 0, -1))])


@pytest.mark.parametrize(
    "name, charset, tolerance",
    [
        ("common", "CHARSET_BETA", 1e-4),
        ("common_old", "CHARSET_OLD", 2e-2),
    ],
)
def test_recognised_letters(name, charset, tolerance):
    home = folder("ddddocr")
    spec = importlib.util.spec_from_file_location("charsets", home / "charsets.py")
    charsets = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(charsets)
    models = both(home / f"{name}.onnx")
    for text in ("8d3k", "4812", "a7bd"):
        picture = drawn([text], (28 * len(text) + 40, 110), height=44).crop((15, 30, 28 * len(text) + 40, 100))
        picture = picture.convert("L").resize((picture.width * 64 // picture.height, 64))
        pixels = np.asarray(picture, np.float32)[None, None] / 255
        ours, theirs = (m.run(pixels) for m in models)
        near(ours, theirs, tolerance)
        assert [spelled(o[0], getattr(charsets, charset)) for o in (ours, theirs)] == [text, text]


def test_detected_objects(page):
    pixels = np.asarray(page.resize((416, 416)), np.float32).transpose(2, 0, 1)[None]
    ours, theirs = (m.run(np.ascontiguousarray(pixels)) for m in both(folder("ddddocr") / "common_det.onnx"))
    near(ours, theirs)
    scores = [o[0][0, :, 4] * o[0][0, :, 5] for o in (ours, theirs)]
    assert scores[0].argmax() == scores[1].argmax()
