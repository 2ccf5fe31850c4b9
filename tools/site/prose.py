"""Comments and docstrings of sources as Markdown."""

import re

# Code between backticks, and documents that a text names.
KEPT = re.compile(r"(`[^`\n]+`|\bdocs/\w+\.md)")


def escape(text):
    """Text whose characters mean themselves, except between backticks; documents become links of a page in
    reference/FOLDER."""
    parts = KEPT.split(text)
    parts[::2] = [re.sub(r"([\\*_<\[\]#|~{}])", r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [re.sub(r"^docs/(\w+)\.md$", r"[\1](../../\1.md)", part) for part in parts[1::2]]
    return "".join(parts)


def fence(code, language):
    return f"```{language}\n{code.rstrip()}\n```\n"


def paragraphs(lines, language):
    """Lines of a comment: those that are indented by two columns, or begin with >>>, are code."""
    blocks, text, code = [], [], []

    def end_text():
        if text:
            blocks.append("\n".join(escape(line) for line in text) + "\n")
            text.clear()

    def end_code():
        if code:
            blocks.append(fence("\n".join(code), language))
            code.clear()
    for line in [*lines, ""]:
        if line.startswith("  ") or (language == "pycon" and (line.startswith(">>>") or code)) and line:
            end_text()
            code.append(line[2:] if line.startswith("  ") else line)
        elif line:
            end_code()
            text.append(line)
        else:
            end_text()
            end_code()
    return "\n".join(blocks)
