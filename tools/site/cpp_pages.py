"""The public headers as Markdown: comments become text, declarations code."""

import re

from prose import fence, paragraphs


def comment(lines):
    """Lines of // comments without the slashes."""
    return [re.sub(r"^ *// ?", "", line) for line in lines]


def items(lines):
    """What a scope declares: (comment, code) with the code dedented. Declarations without a blank line or a comment between
    them are one item."""
    found, words, code, depth = [], [], [], 0

    def end():
        if code:
            found.append((comment(words), dedent(code)))
        words.clear()
        code.clear()
    for line in lines:
        stripped = line.strip()
        if depth == 0 and not stripped:
            end()
        elif depth == 0 and stripped.startswith("//") and not is_open(code):
            if code:
                end()
            words.append(line)
        else:
            code.append(line)
            depth += brackets(line)
    end()
    return found


def brackets(line):
    text = re.sub(r'"(\\.|[^"\\])*"|//.*', "", line)
    return sum((one in "({") - (one in ")}") for one in text)


def is_open(code):
    """Whether the last declaration continues on the next line."""
    if not code:
        return False
    return re.sub(r"//.*", "", code[-1]).rstrip()[-1:] not in (";", "}", "")


def dedent(lines):
    least = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return [line[least:] for line in lines]


def body(text):
    """What the namespace of a header contains, as lines."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if re.match(r"namespace emblem \{$", line))
    inner = []
    for line in lines[start + 1:]:
        if re.match(r"}  // namespace emblem", line):
            break
        if not re.match(r"(EMBLEM_PUBLIC \{|}( +// .*)?)$", line):
            inner.append(line)
    return inner


def name_of(code):
    """What a declaration declares: the name of a type, a function, or the first word that may be one."""
    text = "\n".join(re.sub(r"//.*", "", line) for line in code)
    text = re.sub(r"^template <[^>]*>\s*", "", text)
    text = re.sub(r"\b(EMBLEM_API|explicit|static|inline|constexpr|virtual|friend)\b ?", "", text)
    kind = re.match(r"\s*(?:struct|class|enum class|enum|using)\s+(\w+)", text)
    if kind:
        return kind[1]
    called = re.search(r"(operator\S+|~?\w+)\s*\(", text)
    return called[1] if called else re.search(r"(\w+)\s*(=|;|\{)", text)[1]


def shown(code):
    """A declaration without what means nothing to a reader."""
    return "\n".join(line.replace("EMBLEM_API ", "") for line in code)


def class_members(code):
    """The public members of a class, as lines."""
    members, public = [], False
    for line in code[1:]:
        access = re.match(r" *(public|private|protected):$", line)
        if access:
            public = access[1] == "public"
        elif public and not re.match(r"};$", line):
            members.append(line)
    return members


def is_plain(code):
    """Not worth a heading of its own: constructors that copy and move."""
    return all(re.search(r"&&?\)|&& \w*\) noexcept|= default|= delete|~\w+\(\)", line) for line in code)


def declaration(words, code, level):
    name = name_of(code)
    out = [f"{'#' * level} {name}\n"]
    if words:
        out.append(paragraphs(words, "cpp"))
    if re.match(r"class\b", code[0]) and len(code) > 1:
        for inner_words, inner in items(class_members(code)):
            if not inner_words and is_plain(inner):
                continue
            out.append(f"### {name}::{name_of(inner)}\n")
            out.append(fence(shown(inner), "cpp"))
            out.append(paragraphs(inner_words, "cpp"))
    else:
        out.append(fence(shown(code), "cpp"))
    return "\n".join(out)


def page(path):
    """The page of a header."""
    text = path.read_text()
    start = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        start.append(line)
    start = comment(start)
    introduction = [re.sub(r"^emblem/\w+\.h - ", "", start[0])[:1].upper() + re.sub(r"^emblem/\w+\.h - ", "", start[0])[1:], *start[1:]]
    out = [f"# emblem/{path.name}\n", paragraphs(introduction, "cpp"),
           *(declaration(words, code, 2) for words, code in items(body(text)) if not is_forward(code))]
    macros = re.findall(r"((?:^//.*\n)+)?^#define (EMBLEM_REQUIRE)\((.*?)\)", text, re.M)
    for words, name, arguments in macros:
        out.append(f"## {name}\n\n{fence(f'{name}({arguments})', 'cpp')}\n{paragraphs(comment(words.splitlines()), 'cpp')}")
    return "\n".join(out)


def is_forward(code):
    return len(code) == 1 and re.match(r"(class|struct) \w+;$", code[0])
