"""The public classes and functions of the Python package as Markdown, from its sources: nothing is imported."""

import ast

from prose import fence, paragraphs


def public_names(package):
    """The names of emblem.__all__, those that it imports on demand, and emblem.ray.launch, with the modules that define them."""
    tree = ast.parse((package / "__init__.py").read_text())
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("emblem."):
            for name in node.names:
                found[name.asname or name.name] = node.module.removeprefix("emblem.")
    [listed] = [ast.literal_eval(node.value) for node in tree.body
                if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"]
    names = {name: found[name] for name in listed}
    return {**names, **{name: module for name, module in found.items() if name.startswith("Emblem")}, "ray.launch": "ray"}


def signature(node, name):
    text = f"{name}({ast.unparse(node.args)})"
    if node.returns is not None:
        text += f" -> {ast.unparse(node.returns)}"
    if len(text) > 100:
        text = text.replace("*, ", "*,\n" + " " * (len(name) + 1), 1)
    return "\n".join(wrap(line, len(name) + 1) for line in text.split("\n"))


def wrap(line, indent, width=100):
    """A signature on several lines, divided after commas that are not in brackets."""
    out, current, depth = [], "", 0
    for piece in split_arguments(line):
        if current and len(current) + len(piece) > width:
            out.append(current.rstrip())
            current = " " * indent
        current += piece
    return "\n".join([*out, current])


def split_arguments(line):
    depth, start = 0, 0
    for place, character in enumerate(line):
        depth += (character in "[{") - (character in "]}")
        if character == " " and depth == 0 and line[place - 1] == ",":
            yield line[start:place + 1]
            start = place + 1
    yield line[start:]


def documentation(node):
    text = ast.get_docstring(node)
    return paragraphs(text.splitlines(), "pycon") if text else ""


def is_property(node):
    return any(ast.unparse(one) == "property" for one in node.decorator_list)


def function(node, name, level):
    if is_property(node):
        shown = f"{name}: {ast.unparse(node.returns)}" if node.returns else name
    else:
        shown = signature(without_self(node), name)
    kinds = [f"@{ast.unparse(one)}\n" for one in node.decorator_list if ast.unparse(one) in ("staticmethod", "classmethod")]
    return f"{'#' * level} {name}\n\n{fence(''.join(kinds) + shown, 'python')}\n{documentation(node)}"


def without_self(node):
    arguments = node.args.posonlyargs + node.args.args
    if arguments and arguments[0].arg in ("self", "cls"):
        (node.args.posonlyargs or node.args.args).pop(0)
    return node


def fields(node):
    """Fields of a dataclass or NamedTuple, as they are declared."""
    return [ast.unparse(one.target) + ": " + ast.unparse(one.annotation) for one in node.body if isinstance(one, ast.AnnAssign)]


def class_page(node, module):
    bases = {one.name: one for one in module.body if isinstance(one, ast.ClassDef)}
    out = [f"# emblem.{node.name}\n"]
    methods, seen = [], set()
    for part in [node, *(bases[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in bases)]:
        for one in part.body:
            if isinstance(one, ast.FunctionDef) and one.name not in seen and not any(
                    ast.unparse(name).endswith(".setter") for name in one.decorator_list):
                seen.add(one.name)
                methods.append(one)
    for one in methods:
        if one.name == "__init__":
            one.returns = None
            out.append(fence(signature(without_self(one), node.name), "python"))
    if fields(node):
        out.append(fence("\n".join(fields(node)), "python"))
    out.append(documentation(node))
    out += [function(one, one.name, 2) for one in methods if not one.name.startswith("_")]
    return "\n".join(out)


def pages(package):
    """{name: (page, documentation's first sentence)} of every public name."""
    made = {}
    for name, module in public_names(package).items():
        tree = ast.parse((package / f"{module}.py").read_text())
        for node in tree.body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name.split(".")[-1]:
                page = class_page(node, tree) if isinstance(node, ast.ClassDef) else (
                    f"# emblem.{name}\n\n" + fence(signature(node, f"emblem.{name}"), "python") + "\n" + documentation(node))
                made[name] = (page, (ast.get_docstring(node) or "").split("\n\n")[0].split(". ")[0].replace("\n", " "))
    return made
