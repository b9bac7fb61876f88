"""Texts of campaigns and records, made safe for a page."""

from __future__ import annotations

import re

# What may have a meaning in Markdown, MyST or HTML: some characters anywhere, more of them at the
# beginning of a line, and those that make a number there the mark of a list.
_OF_A_LIST = "|".join(rf"(?<=^\d{{{digits}}})[.)]" for digits in range(1, 10))
_ACTIVE = re.compile(rf"^[^\w ]|{_OF_A_LIST}|[^\w ,.'()%+/→-]|_")


def verbatim(text: object) -> str:
    """Write a text of a campaign or a record so that a page shows it letter by letter.

    In Markdown, MyST and HTML some characters mean something. Whatever has a meaning there becomes
    a reference to its character, and the text is one line. Every such text goes through here before
    it becomes part of a page: titles, names, devices, versions, messages.

    Example:
        >>> verbatim("β = 1, <b>`x`</b>")
        'β &#61; 1, &#60;b&#62;&#96;x&#96;&#60;/b&#62;'
        >>> verbatim("1. MNIST")
        '1&#46; MNIST'
    """
    line = " ".join("".join(filter(str.isprintable, str(text).replace("\n", " "))).split())
    return _ACTIVE.sub(lambda match: f"&#{ord(match[0])};", line)
