"""Reads the text in a picture: finds its lines, turns those that are upside down, and recognises their letters.

    pip install pillow scipy && pip install --no-deps rapidocr-onnxruntime
    python read_text.py picture.png

The models are PP-OCRv4, Chinese and English, from the package rapidocr-onnxruntime, of which only the files are used.
"""

import argparse
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import ggml.onnx
from ggml.training import check_packages

THRESHOLD = 0.3  # probability from which a pixel belongs to text
GROWTH = 1.6  # the detector shrinks boxes by area / perimeter times this
HEIGHT = 48  # of the lines that the recogniser reads


def default_models():
    """The folder of the models in the installed package."""
    spec = find_spec("rapidocr_onnxruntime")
    if spec is None:
        raise SystemExit("needs models: pip install --no-deps rapidocr-onnxruntime, or --models FOLDER")
    return Path(spec.origin).parent / "models"


def as_input(picture):
    """A picture as [1, 3, height, width] from -1 to 1, blue first as the models were trained."""
    pixels = np.asarray(picture, np.float32)[:, :, ::-1] / 127.5 - 1
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])


class Reader:
    """The three models.

    Args:
        folder: folder with the ONNX files.
        threads: number of threads, or None.
        load: function (path, threads) -> object with run(array) -> list of arrays.
    """

    def __init__(self, folder, threads=None, load=lambda path, threads: ggml.onnx.load(path, threads=threads)):
        import onnx

        names = "ch_PP-OCRv4_det_infer", "ch_ppocr_mobile_v2.0_cls_infer", "ch_PP-OCRv4_rec_infer"
        paths = [Path(folder) / f"{name}.onnx" for name in names]
        self.detector, self.orientation, self.recogniser = (load(path, threads) for path in paths)
        metadata = {p.key: p.value for p in onnx.load(paths[2]).metadata_props}
        self.letters = ["", *metadata["character"].splitlines(), " "]  # class 0 separates letters

    def find(self, picture):
        """Boxes (left, top, right, bottom) of the lines of text, from top to bottom."""
        from scipy import ndimage

        scale = min(1, 960 / max(picture.size))
        size = [max(32, round(side * scale / 32) * 32) for side in picture.size]
        (probability,) = self.detector.run(as_input(picture.resize(size)))
        areas, _ = ndimage.label(probability[0, 0] > THRESHOLD)
        boxes = []
        for rows, columns in ndimage.find_objects(areas):
            height, width = rows.stop - rows.start, columns.stop - columns.start
            if min(height, width) < 3 or probability[0, 0, rows, columns].mean() < 0.5:
                continue
            grow = GROWTH * height * width / (2 * (height + width))
            box = [columns.start - grow, rows.start - grow, columns.stop + grow, rows.stop + grow]
            ratio = np.tile([picture.width / size[0], picture.height / size[1]], 2)
            boxes.append(np.clip(box * ratio, 0, np.tile(picture.size, 2)).round().astype(int).tolist())
        return sorted(boxes, key=lambda b: (b[1], b[0]))

    def upright(self, line):
        """The picture of a line, turned if it is upside down."""
        width = min(192, round(line.width * HEIGHT / line.height))
        pixels = np.zeros((1, 3, HEIGHT, 192), np.float32)
        pixels[..., :width] = as_input(line.resize((width, HEIGHT)))
        (scores,) = self.orientation.run(pixels)
        return line.rotate(180) if scores[0, 1] > 0.9 else line

    def recognise(self, line):
        """The text of a line and the mean probability of its letters."""
        width = max(32, round(line.width * HEIGHT / line.height))
        (scores,) = self.recogniser.run(as_input(line.resize((width, HEIGHT))))
        best = scores[0].argmax(1)
        first = (best != 0) & (best != np.insert(best[:-1], 0, 0))  # equal neighbours are one letter
        text = "".join(self.letters[i] for i in best[first])
        return text, float(scores[0].max(1)[first].mean()) if text else 0.0

    def read(self, picture):
        """Triples of box, text and probability, from top to bottom."""
        picture = picture.convert("RGB")
        return [(box, *self.recognise(self.upright(picture.crop(box)))) for box in self.find(picture)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("picture")
    parser.add_argument("--models", help="folder with the ONNX files (default: those of rapidocr-onnxruntime)")
    parser.add_argument("--threads", type=int)
    args = parser.parse_args()
    check_packages("PIL", "scipy", install="pillow scipy")
    from PIL import Image

    reader = Reader(args.models or default_models(), args.threads)
    with Image.open(args.picture) as picture:
        for box, text, probability in reader.read(picture):
            print(f"{probability:.2f}  {box}  {text}")


if __name__ == "__main__":
    main()
