"""How tensors, graphs and files show themselves: HTML, SVG, and the page of `ggml view`."""

import base64
import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("gguf.quants")  # of the extra [test]; not installed on emulated CPUs

import gguf as peer  # noqa: E402
import gguf_files  # noqa: E402
import tiny_models  # noqa: E402
from python_command import PYTHON  # noqa: E402

import ggml  # noqa: E402
from ggml.profiler import graph_svg, profile  # noqa: E402
from ggml.utils import from_numpy, quantize_row  # noqa: E402
from ggml.view import File, file_page  # noqa: E402


class Tags(HTMLParser):
    """Collects the start tags, and checks that tags are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.found = [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag not in ("img", "meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_html_of_tensors(ctx):
    values = np.array([[1.0, -2.0, np.nan], [0.5, 0.25, np.inf]], np.float32)
    t = from_numpy(values, ctx)
    ggml.ggml_set_name(t, b"<script>&")
    html = t._repr_html_()
    tags = Tags(html).found
    assert "script" not in {tag for tag, _ in tags} and "&lt;script&gt;&amp;" in html
    for part in ("[3, 2]", "f32", "-2, 1", "2 of 6", "mean"):
        assert part in html
    source = next(a["src"] for tag, a in tags if tag == "img")
    assert base64.b64decode(source.partition(",")[2]).startswith(b"\x89PNG")
    assert len(repr(t).splitlines()) == 1


def test_a_matrix_has_a_legend(ctx):
    values = np.zeros((3, 4), np.float32)
    values[1, 2], values[2, 0] = -2.5, 1
    page = from_numpy(values, ctx)._repr_html_()
    assert "blue: to -2.5, white: 0, red: to 2.5; ne0 to the right</figcaption>" in page


@pytest.mark.parametrize("shape", [(0, 3), (5,), (300, 200)])
def test_html_of_shapes_and_types(ctx, shape):
    for dtype in (np.float32, np.float16, np.int32):
        assert str(list(shape[::-1])) in from_numpy(np.ones(shape, dtype), ctx)._repr_html_()
    quantised = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_Q4_0, 64, 3)
    ggml.ggml_set_zero(quantised)
    assert "q4_0" in quantised._repr_html_() and "0, 0" in quantised._repr_html_()


def test_html_of_tensors_without_data_and_freed_ones():
    c = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, no_alloc=True))
    t = ggml.ggml_new_tensor_1d(c, ggml.GGML_TYPE_F32, 4)
    assert "no data yet" in t._repr_html_()
    graph = ggml.ggml_new_graph(c)
    ggml.ggml_build_forward_expand(graph, ggml.ggml_relu(c, t))
    assert graph._repr_svg_().startswith("<svg")
    inputs = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
    mixed = ggml.ggml_new_graph(c)
    ggml.ggml_build_forward_expand(mixed, ggml.ggml_relu(c, ggml.ggml_new_tensor_1d(inputs, ggml.GGML_TYPE_F32, 4)))
    ggml.ggml_free(inputs)
    assert boxes(mixed._repr_svg_())[1].count("RELU") == 1  # without the leaf, which is gone
    ggml.ggml_free(c)
    assert t._repr_html_() == f"<code>{repr(t).replace('<', '&lt;').replace('>', '&gt;')}</code>"
    assert graph._repr_svg_() is None


def chain(ctx, layers, width=8):
    x = from_numpy(np.ones((2, width), np.float32), ctx)
    for i in range(layers):
        w = from_numpy(np.eye(width, dtype=np.float32), ctx)
        ggml.ggml_set_name(w, f"blk.{i}.w".encode())
        x = ggml.ggml_relu(ctx, ggml.ggml_mul_mat(ctx, w, x))
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, x)
    return graph


def boxes(svg):
    """The fill colours of the boxes of an SVG, without its background, and its texts."""
    root = ElementTree.fromstring(svg)
    rects = [e.get("fill") for e in root.iter() if e.tag.endswith("rect")]
    return rects[1:], [e.text for e in root.iter() if e.tag.endswith("text")]


def test_svg_of_graphs_is_coloured_after_a_profile(ctx):
    graph = chain(ctx, 3, 256)
    colours, texts = boxes(graph_svg(graph, profile()))
    assert len(colours) == 6 + 4 and set(colours) == {"#ffffff", "#e8e8e8"}
    assert texts.count("MUL_MAT") == 3 and "blk.1.w" in texts
    with ggml.profile() as p:
        ggml.ggml_graph_compute_with_ctx(ctx, graph, 1)
    colours, texts = boxes(graph._repr_svg_())
    assert "#ff6955" in colours  # the node with the most time
    assert sum(bool(re.fullmatch(r"[\d.]+ (us|ms)", t)) for t in texts) == 6
    assert len(p.calls) == 1


def test_svg_of_large_graphs_is_folded_by_layer(ctx):
    _, texts = boxes(graph_svg(chain(ctx, 100)))
    assert [t for t in texts if "layer" in t] == [f"layer {i}: 2 operations" for i in range(100)]
    assert texts.count("1 MUL_MAT, 1 RELU") == 100


def test_svg_shows_what_computes_by_its_name(ctx):
    """Attention, norms and rope have boxes; views have none, and arrows lead past them. Colours have a legend."""
    x = ggml.ggml_set_name(from_numpy(np.ones((3, 64), np.float32), ctx), b"x")
    positions = from_numpy(np.arange(3, dtype=np.int32), ctx)
    ggml.ggml_set_param(x)
    q = ggml.ggml_rope(ctx, ggml.ggml_reshape_3d(ctx, ggml.ggml_rms_norm(ctx, x, 1e-5), 32, 2, 3), positions, 32, 0)
    kv = ggml.ggml_cast(ctx, ggml.ggml_permute(ctx, q, 0, 2, 1, 3), ggml.GGML_TYPE_F16)
    y = ggml.ggml_flash_attn_ext(ctx, ggml.ggml_permute(ctx, q, 0, 2, 1, 3), kv, kv, None, 1.0, 0.0, 0.0)
    last = ggml.ggml_reshape_2d(ctx, y, 64, 3)
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, last)
    svg = graph_svg(graph, profile())
    _, texts = boxes(svg)
    names = [t for t in texts if t in ("attention", "rope", "RMS norm", "CPY", "RESHAPE", "PERMUTE", "VIEW")]
    assert sorted(names) == ["CPY", "RESHAPE", "RMS norm", "attention", "rope"]  # the last view is the result
    # x, norm, rope, cast, attention, view: 5; from the positions and from rope to attention; k and v are two
    assert svg.count("marker-end") == 8
    assert "parameter, which is trained" in texts and "weight or input" in texts
    assert "parameter, which is trained" not in boxes(graph_svg(chain(ctx, 2), profile()))[1]
    with ggml.profile() as p:
        ggml.ggml_graph_compute_with_ctx(ctx, graph, 1)
    assert sum(t.startswith("red: most time (") for t in boxes(graph_svg(graph, p))[1]) == 1


def test_svg_of_dot_has_a_legend(ctx):
    from ggml._view.dot import drawn

    x = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 1)
    ggml.ggml_set_param(x)
    y = ggml.ggml_mul(ctx, x, ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 1))
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, y)
    ggml.ggml_graph_dump_dot(graph, None, "g.dot")
    with open("g.dot", encoding="utf-8") as file:
        _, texts = boxes(drawn(file.read()))
    assert "parameter" in texts and "leaf: weight or input" in texts and "node with a gradient" not in texts


def content(page):
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.S)[1])


def command(*arguments, cwd):
    return subprocess.run([*PYTHON, "-m", "ggml", *map(str, arguments)], cwd=cwd, capture_output=True, text=True)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_models.write(tmp_path_factory.mktemp("view") / "tiny.gguf", "llama")


def test_page_of_a_model(model, tmp_path):
    done = command("view", model, "-o", "page.html", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "page.html\n"), done.stderr
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert not re.search(
        r"(src|href)=|https?://(?!www\.w3\.org/)", re.sub(r'<script id="data".*?</script>', "", page, flags=re.S)
    )
    data, about = content(page), File(model).about
    assert [t[0] for t in data["tensors"]] == [t["name"] for t in about["tensors"]]
    assert {k for k, *_ in data["keys"]} == set(about["keys"])
    assert sum(n for _, kinds in data["sizes"] for n in kinds.values()) == sum(t["bytes"] for t in about["tensors"])
    assert len(data["histograms"]) == len(data["tensors"])
    assert "layer 0" in data["graph"] or "blk.0" in data["graph"]
    plain = command("view", model, "--no-values", "--no-graph", cwd=tmp_path)
    assert plain.stdout == "tiny.html\n"
    assert not {"histograms", "graph"} & set(content((tmp_path / "tiny.html").read_text(encoding="utf-8")))


def test_histograms(tmp_path, ctx):
    path, rng = tmp_path / "a.gguf", np.random.default_rng(0)
    values = rng.standard_normal((40, 512), np.float32)
    values[0, 0], values[1, 1] = np.nan, np.inf
    g = ggml.gguf_init_empty()
    tensors = {"plain": from_numpy(values, ctx), "</script><b>": from_numpy(np.zeros(3, np.float32), ctx)}
    quantised = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_Q8_0, 512, 40)
    finite = np.nan_to_num(values, posinf=0)
    quantize_row(finite.reshape(-1), finite.size, ggml.GGML_TYPE_Q8_0, quantised.contents.data)
    for name, t in (tensors | {"quantised": quantised}).items():
        ggml.ggml_set_name(t, name.encode())
        ggml.gguf_add_tensor(g, t)
    ggml.gguf_write_to_file(g, str(path).encode(), False)
    ggml.gguf_free(g)
    file = File(path)
    plain, zeros, q = (file.histogram(t) for t in file.about["tensors"])
    good = values[np.isfinite(values)]
    assert (plain["n"], plain["bad"]) == (values.size, 2) and sum(plain["counts"]) == good.size
    assert np.isclose(plain["mean"], good.mean(), atol=1e-6) and np.isclose(plain["low"], good.min())
    assert np.isclose(q["std"], finite.std(), rtol=1e-2) and q["bad"] == 0
    assert zeros["n"] == 3 and sum(zeros["counts"]) == 3
    assert "40" in file._repr_html_() and "&lt;/script&gt;" in file._repr_html_() and len(repr(file).splitlines()) == 1
    assert "</script><b>" in [t[0] for t in content(file_page(path))["tensors"]]


@pytest.mark.parametrize("order", peer.GGUFEndian)
def test_histograms_of_either_byte_order(tmp_path, order):
    values = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)
    w = peer.GGUFWriter(tmp_path / "a.gguf", "x", endianess=order)
    w.add_tensor("plain", values.copy())
    w.add_tensor("half", values.astype(np.float16))
    blocks = peer.quants.quantize(values, peer.GGMLQuantizationType.Q8_0).view([("scale", "u2"), ("values", "i1", 32)])
    if order == peer.GGUFEndian.BIG:
        blocks["scale"] = blocks["scale"].byteswap()
    w.add_tensor("quantised", blocks.view(np.uint8), raw_dtype=peer.GGMLQuantizationType.Q8_0)
    gguf_files.finish(w)
    file = File(tmp_path / "a.gguf")
    for found in map(file.histogram, file.about["tensors"]):
        assert np.isclose(found["mean"], values.mean(), atol=2e-2)
        assert np.isclose(found["high"], values.max(), rtol=1e-2)


def test_page_of_a_graph(ctx, tmp_path):
    ggml.ggml_graph_export(chain(ctx, 2), str(tmp_path / "graph.ggml").encode())
    done = command("view", "graph.ggml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "graph.html\n"), done.stderr
    data = content((tmp_path / "graph.html").read_text(encoding="utf-8"))
    assert [row[1] for row in data["tensors"]] == ["MUL_MAT", "RELU"] * 2 and "<svg" in data["graph"]


def test_files_that_cannot_be_shown(tmp_path):
    (tmp_path / "bad.gguf").write_bytes(b"GGUF\3\0")
    for name in ("bad.gguf", "missing.gguf"):
        done = command("view", name, cwd=tmp_path)
        assert done.returncode == 1 and done.stderr.startswith("ggml view: ") and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "bad.html").exists()


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.parametrize("width, dark", [(1280, False), (400, True)])
def test_page_in_a_browser(model, tmp_path, width, dark):
    """The script runs without messages on the console, and fills in the page."""
    assert command("view", model, "-o", "page.html", cwd=tmp_path).returncode == 0
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},1200", "--enable-logging=stderr",
             f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=2000", "--dump-dom"]  # fmt: skip
    flags += ["--blink-settings=preferredColorScheme=0"] if dark else []
    url = (tmp_path / "page.html").as_uri()
    # without a sanitizer's run-time
    alone = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run([CHROMIUM, *flags, url], capture_output=True, text=True, timeout=120, env=alone)
    assert "CONSOLE" not in done.stderr, done.stderr
    about = File(model).about
    assert done.stdout.count('<tr class="link') == len(about["tensors"])
    assert f"<h1>{model.name}</h1>" in done.stdout and 'id="values" hidden' not in done.stdout
