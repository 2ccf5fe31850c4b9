"""The messages of protobuf schemas as Markdown: every field with its type, default and comment."""

import pathlib
import re
import subprocess
import tempfile

from google.protobuf import descriptor_pb2

from prose import escape

Field = descriptor_pb2.FieldDescriptorProto
MESSAGES, ENUMS = 4, 5  # numbers of fields of FileDescriptorProto, by which comments are found
FIELDS, NESTED, NESTED_ENUMS, VALUES = 2, 3, 4, 2
NUMBERS = {Field.TYPE_DOUBLE: "double", Field.TYPE_FLOAT: "float", Field.TYPE_INT64: "int64", Field.TYPE_UINT64: "uint64",
           Field.TYPE_INT32: "int32", Field.TYPE_UINT32: "uint32", Field.TYPE_BOOL: "bool", Field.TYPE_STRING: "string",
           Field.TYPE_BYTES: "bytes"}


def read(source, files):
    """The descriptors of schemas, with comments."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "set"
        subprocess.run(["protoc", f"-I{source}", "--include_source_info", f"-o{out}", *map(str, files)], check=True)
        return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file


class Schemas:
    """Pages of these files; `page_of` gives the page of a file, and "" for one without."""

    def __init__(self, files, page_of):
        self.files, self.page_of, self.places = files, page_of, {}
        for file in files:
            for message in file.message_type:
                self._place(file, message, f".{file.package}.")
            for one in file.enum_type:
                self.places[f".{file.package}.{one.name}"] = (file.name, one.name)

    def _place(self, file, message, scope, outer=""):
        name = f"{outer}{message.name}"
        self.places[f"{scope}{name}"] = (file.name, name)
        for inner in message.nested_type:
            self._place(file, inner, scope, f"{name}.")
        for one in message.enum_type:
            self.places[f"{scope}{name}.{one.name}"] = (file.name, f"{name}.{one.name}")

    def page(self, file, title, introduction):
        """The page of a file."""
        self.file = file
        self.comments = {tuple(place.path): (place.leading_comments, place.trailing_comments)
                         for place in file.source_code_info.location}
        out = [f"# {title}\n", introduction + "\n"]
        for number, message in enumerate(file.message_type):
            out += self._message(message, (MESSAGES, number))
        for number, one in enumerate(file.enum_type):
            out += self._enum(one, (ENUMS, number))
        return "\n".join(out)

    def _comment(self, path):
        return [" ".join(part.split()) for part in self.comments.get(tuple(path), ("", "")) if part.strip()]

    def _message(self, message, path, outer=""):
        name = f"{outer}{message.name}"
        out = [f"{heading(name)}\n", *(escape(part) + "\n" for part in self._comment(path))]
        if message.field:
            out += ["| field | type | default | |", "|---|---|---|---|"]
        else:
            out += ["No fields.\n"]
        for number, field in enumerate(message.field):
            words = self._comment((*path, FIELDS, number))
            if field.HasField("oneof_index") and not field.proto3_optional:
                others = sum(1 for one in message.field if one.HasField("oneof_index") and one.oneof_index == field.oneof_index)
                if others > 1:
                    words = [f"One of `{message.oneof_decl[field.oneof_index].name}`.", *words]
            deprecated = ["Deprecated."] if field.options.deprecated else []
            kind = self._type(field, message)
            if field.label == Field.LABEL_REPEATED and not kind.startswith("map"):
                kind = f"repeated {kind}"
            if field.label == Field.LABEL_REQUIRED:
                kind = f"required {kind}"
            text = " ".join(map(lambda part: part if part.startswith("One of `") else escape(part), [*deprecated, *words]))
            out.append(f"| `{field.name}` | {kind} | {self._default(field)} | {text} |")
        out.append("")
        entries = {inner.name for inner in message.nested_type if inner.options.map_entry}
        for number, inner in enumerate(message.nested_type):
            if inner.name not in entries:
                out += self._message(inner, (*path, NESTED, number), f"{name}.")
        for number, one in enumerate(message.enum_type):
            out += self._enum(one, (*path, NESTED_ENUMS, number), f"{name}.")
        return out

    def _enum(self, one, path, outer=""):
        out = [f"{heading(outer + one.name)}\n", *(escape(part) + "\n" for part in self._comment(path)), "| value | |", "|---|---|"]
        for number, value in enumerate(one.value):
            out.append(f"| `{value.name}` | {escape(' '.join(self._comment((*path, VALUES, number))))} |")
        return [*out, ""]

    def _type(self, field, message):
        if field.type in NUMBERS:
            return NUMBERS[field.type]
        for inner in message.nested_type:
            if inner.options.map_entry and field.type_name.endswith(f".{message.name}.{inner.name}"):
                return f"map of {self._type(inner.field[0], inner)} to {self._type(inner.field[1], inner)}"
        if field.type_name not in self.places:  # of another project: google.protobuf.Struct
            return field.type_name.lstrip(".")
        file, name = self.places[field.type_name]
        page = "" if file == self.file.name else self.page_of(file)
        return f"[{name}]({page}#{name})"

    def _default(self, field):
        if not field.HasField("default_value"):
            return ""
        if field.type != Field.TYPE_STRING:
            return f"`{field.default_value}`"
        shown = re.sub(r"[\x00-\x1f]", lambda found: f"\\x{ord(found[0]):02x}", field.default_value)
        return f'`"{shown}"`'


def heading(name):
    """The heading of a message, whose anchor is its name."""
    return f"## {name} {{#{name}}}"
