"""The page at `/`: its files, that it asks no other host, and a conversation in a browser where there is one."""

import os
import re
import shutil
from pathlib import Path

import pytest

for library in ("gguf", "jinja2", "tokenizers", "llguidance", "fastapi", "uvicorn", "prometheus_client", "httpx"):
    pytest.importorskip(library)  # of the extra [test]

import server  # noqa: E402
from fastapi.testclient import TestClient  # noqa: E402
from server import SETTINGS  # noqa: E402

import ggml.serve  # noqa: E402
from ggml.serve import app  # noqa: E402

FOLDER = Path(ggml.serve.__file__).parent / "page"


@pytest.fixture
def application(tmp_path):
    return app({"tiny": server.write(tmp_path / "tiny.gguf")}, **SETTINGS)


def test_files(application):
    with TestClient(application) as client:
        names = {"/": "index.html", "/docs": "docs.html"} | {f"/{x}": x for x in ("page.js", "page.css", "docs.js")}
        assert set(names.values()) == {file.name for file in FOLDER.iterdir()}
        for path, file in names.items():
            answer = client.get(path)
            assert answer.status_code == 200 and answer.text == (FOLDER / file).read_text(encoding="utf-8")
            assert "default-src 'self'" in answer.headers["content-security-policy"]


def test_no_other_host_is_asked():
    for file in FOLDER.iterdir():
        assert not re.search(r"https?:|//[a-z]", file.read_text(encoding="utf-8")), file


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_contrast():
    """WCAG 2.2: 4.5 for texts, 3 for the edges of fields, in both sets of colours."""
    found = re.findall(r":root \{([^}]*)\}", (FOLDER / "page.css").read_text(encoding="utf-8"))
    assert len(found) == 2
    for colours in (dict(re.findall(r"--([\w-]+): (#\w{6})", text)) for text in found):
        pairs = [("text", back, 4.5) for back in ("back", "panel", "user")]
        pairs += [("on-accent", "accent", 4.5), ("error", "back", 4.5), ("line", "back", 3), ("line", "panel", 2.5)]
        for a, b, least in pairs:
            high, low = sorted((luminance(colours[a]), luminance(colours[b])), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= least, (a, b)


def test_every_field_has_a_label():
    text = (FOLDER / "index.html").read_text(encoding="utf-8")
    fields = re.findall(r"<(?:input|textarea|select) id=\"(\w+)\"", text)
    assert len(fields) >= 6
    for name in fields:
        within = re.search(rf"<label>[^<]*<(?:input|textarea|select) id=\"{name}\"", text)
        assert within or f'<label for="{name}">' in text, name
    assert re.search(r"<html lang=", text) and 'role="status"' in text


def photograph(browser, name):
    """Pictures of two widths, light and dark, in the folder GGML_SCREENSHOTS if there is one."""
    folder = os.environ.get("GGML_SCREENSHOTS")
    for width in (1280, 420) if folder else ():
        for scheme in ("light", "dark"):
            feature = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", feature)
            browser.set_window_size(width, 900)
            browser.save_screenshot(os.path.join(folder, f"{name}-{width}-{scheme}.png"))


@pytest.mark.skipif(not shutil.which("chromedriver"), reason="needs chromium and chromium-driver")
def test_a_conversation_in_a_browser(application):
    """With the keyboard alone."""
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,900"):
        options.add_argument(argument)
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    with server.listening(application) as url, webdriver.Chrome(options, service) as browser:
        browser.get(url)
        wait = WebDriverWait(browser, 20)
        wait.until(lambda b: b.find_elements(By.CSS_SELECTOR, "#model option"))
        browser.find_element(By.ID, "max_tokens").send_keys("12")
        browser.find_element(By.ID, "question").send_keys("hello", Keys.ENTER)
        wait.until(lambda b: b.find_element(By.ID, "status").text == "The answer is complete.")
        assert len(browser.find_elements(By.CSS_SELECTOR, "#messages li")) == 2
        assert browser.switch_to.active_element.get_attribute("id") == "question"
        written = browser.find_element(By.XPATH, "//tr[th='Tokens written']/td").text
        assert 0 < int(written) <= 12
        for summary in browser.find_elements(By.CSS_SELECTOR, "details:not([open]) > summary"):
            summary.send_keys(Keys.ENTER)
        wait.until(lambda b: b.find_elements(By.CSS_SELECTOR, "#tokens span"))
        assert len(browser.find_elements(By.CSS_SELECTOR, "#probabilities span")) == int(written)
        browser.find_element(By.ID, "schema").send_keys("{")
        browser.find_element(By.ID, "question").send_keys("again", Keys.ENTER)
        wait.until(lambda b: b.find_element(By.ID, "status").get_attribute("class") == "error")
        assert browser.find_element(By.ID, "question").get_attribute("value") == "again"  # to be sent again
        assert len(browser.find_elements(By.CSS_SELECTOR, "#messages li")) == 2
        assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
        photograph(browser, "page")
        browser.get(f"{url}/docs")
        wait.until(lambda b: len(b.find_elements(By.CSS_SELECTOR, "#endpoints details")) >= 14)
        opened = browser.find_element(By.XPATH, "//details[summary='POST /v1/completions']")
        opened.find_element(By.TAG_NAME, "summary").send_keys(Keys.ENTER)
        assert {"prompt", "temperature"} <= {cell.text for cell in opened.find_elements(By.CSS_SELECTOR, "tbody th")}
        assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
        photograph(browser, "docs")
