"""Reads protobuf text into nested messages, without a schema: defaults are given where values are read."""

import re

TOKEN = re.compile(r"""\s+|\#[^\n]*|(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?P<mark>[{}<>\[\]:,;])|(?P<word>[^\s{}<>\[\]:,;"'#]+)""")


class Message:
    """The fields of a message: a list of values for each name."""

    def __init__(self):
        self.fields = {}

    def add(self, name, value):
        self.fields.setdefault(name, []).append(value)

    def has(self, name):
        return name in self.fields

    def all(self, name):
        return self.fields.get(name, [])

    def get(self, name, default=None):
        return self.fields[name][-1] if name in self.fields else default

    def only(self):
        """The name and value of the one field that is set: a oneof."""
        (name, values), = self.fields.items()
        return name, values[-1]


def tokens(text):
    at = 0
    while at < len(text):
        match = TOKEN.match(text, at)
        at = match.end()
        if match.lastgroup:
            yield match.lastgroup, match.group(match.lastgroup)


def scalar(kind, text):
    if kind == "string":
        return text[1:-1].encode().decode("unicode_escape")
    if text in ("true", "false"):
        return text == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            pass
    return text  # the name of an enumerator


def parse(text):
    stack, stream = [Message()], list(tokens(text))
    at = 0
    while at < len(stream):
        kind, name = stream[at]
        at += 1
        if name in (",", ";") and kind == "mark":
            continue
        if name in ("}", ">") and kind == "mark":
            stack.pop()
            continue
        if stream[at] == ("mark", ":"):
            at += 1
        kind, value = stream[at]
        at += 1
        if kind == "mark" and value in "{<":
            message = Message()
            stack[-1].add(name, message)
            stack.append(message)
        elif kind == "mark" and value == "[":
            while stream[at] != ("mark", "]"):
                if stream[at][0] != "mark":
                    stack[-1].add(name, scalar(*stream[at]))
                at += 1
            at += 1
        else:
            value = scalar(kind, value)
            while kind == "string" and at < len(stream) and stream[at][0] == "string":
                value += scalar(*stream[at])
                at += 1
            stack[-1].add(name, value)
    return stack[0]
