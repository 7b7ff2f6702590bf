"""A browser, a server and static pages, for the tests that need the extra."""

from urllib.parse import urlsplit

import pytest

from live_explorer import ARGUMENTS, PATIENCE, chromium, live_explorer


def is_local(address):
    """Return whether an address is of this machine."""
    parts = urlsplit(address)
    return parts.scheme in {"file", "data", "blob", "about"} or parts.hostname == "localhost"


@pytest.fixture(scope="session")
def browser():
    """A Chromium; the tests are skipped if there is none."""
    path = chromium()
    if path is None:
        pytest.skip("no Chromium found: install one, or name it in SLRLAB_CHROMIUM")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture
def new_page(browser):
    """Return what opens a page; none of them may ask another machine, or have an error."""
    contexts, outside, broken = [], [], []

    def opened(**options):
        context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}} | options)
        contexts.append(context)
        context.set_default_timeout(1e3 * PATIENCE)
        context.on("request", lambda request: outside.append(request.url))
        page = context.new_page()
        page.on("websocket", lambda socket: outside.append(socket.url))
        page.on("pageerror", lambda error: broken.append(str(error)))
        return page

    yield opened
    for context in contexts:
        context.close()
    assert len(outside) > 0
    assert [address for address in outside if not is_local(address)] == []
    assert broken == []


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The address of a live explorer; its log must have no error of ours."""
    log = tmp_path_factory.mktemp("server") / "log"
    with live_explorer(log) as (address, process):
        yield address
    text = log.read_text()
    assert text.startswith(address)
    assert "slrlab/explorer" not in text, text  # a file of ours in a traceback
    assert process.returncode in (0, 1, -15)


@pytest.fixture(scope="session")
def static_page(tmp_path_factory):
    """Return what builds the static page of a view, once, and returns its address."""
    from slrlab.explorer.static import static_page as page_of
    from slrlab.explorer.views import VIEWS, landscape

    folder = tmp_path_factory.mktemp("static")
    made = {}

    def built(view):
        if view not in made:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(landscape, "_STATIC_SIGNALS", (2.0,))  # half the time
                path = folder / f"{view}.html"
                path.write_text(page_of(VIEWS[view], VIEWS), encoding="utf-8")
                made[view] = path.as_uri()
        return made[view]

    return built
