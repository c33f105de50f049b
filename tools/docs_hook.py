"""mkdocs hook: formulas become MathML while the site is built, so readers need no JavaScript.

`pymdownx.arithmatex` finds the formulas (and knows what is code); this turns what it found.
"""

import html
import re
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)
_TEST_ONLY = re.compile(r"^(\s*`{3,}(?:python|console)) (?:notest|fails)\b.*$", re.MULTILINE)


def to_mathml(tex: str, *, block: bool) -> str:
    """The formula as MathML; ValueError for TeX that latex2mathml does not know."""
    mathml = convert(tex.strip(), display="block" if block else "inline")
    # Unknown commands come out as text with their backslash instead of failing.
    if "\\" in mathml:
        raise ValueError(f"not understood: {tex}")
    return mathml


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Drop the words of an info string that only tests/test_docs.py reads."""
    return _TEST_ONLY.sub(r"\1", markdown)


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """Replace every formula of the rendered page."""

    def replace(match: re.Match[str]) -> str:
        tex = html.unescape(match["tex"])
        try:
            return to_mathml(tex, block=match["tag"] == "div")
        except Exception as error:
            raise PluginError(f"{page.file.src_uri}: formula {tex!r}: {error}") from error

    return _FORMULA.sub(replace, content)
