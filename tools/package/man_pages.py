"""Man pages of the program, one for each command, made from --help: emblem.1, emblem-train.1, emblem-bench-train.1.

  man_pages.py PROGRAM FOLDER
"""

import datetime
import gzip
import os
import pathlib
import sys

import program_help


def escape(text):
    """Text of roff: a minus is a minus, no line is a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def tagged(entry):
    value = f" \\fI{escape(entry.value)}\\fR" if entry.value else ""
    return [".TP", f"\\fB{escape(entry.name)}\\fR{value}", escape(entry.text) or "\\&"]


def name_of(command):
    return "-".join(("emblem", *command.words))


def page(command, version, date):
    name = name_of(command)
    lines = [f'.TH "{name.upper()}" 1 "{date}" "emblem {version}" "User Commands"', ".SH NAME",
             f"{escape(name)} \\- {escape(command.summary[0].lower() + command.summary[1:])}", ".SH SYNOPSIS",
             f"\\fB{escape(command.usage.split(' [')[0])}\\fR" +
             "".join(f" {escape('[' + part)}" for part in command.usage.split(" [")[1:])]
    if command.positionals:
        lines += [".SH ARGUMENTS", *(line for one in command.positionals for line in tagged(one))]
    lines += [".SH OPTIONS", *(line for one in command.options for line in tagged(one))]
    if command.subcommands:
        lines.append(".SH COMMANDS")
        for one in command.subcommands:
            lines += [".TP", f"\\fB{escape(name)}\\-{escape(one.name)}\\fR(1)", escape(one.text)]
    others = [(*command.words, one.name) for one in command.subcommands] or [command.words[:-1]]
    lines += [".SH SEE ALSO", ", ".join(f"\\fB{escape('-'.join(('emblem', *words)))}\\fR(1)" for words in others)]
    return "\n".join(lines) + "\n"


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    version = program_help.version(program)
    made = int(os.environ.get("SOURCE_DATE_EPOCH", datetime.datetime.now().timestamp()))
    date = datetime.datetime.fromtimestamp(made, datetime.timezone.utc).strftime("%Y-%m-%d")
    for command in program_help.commands(program):
        with open(folder / f"{name_of(command)}.1.gz", "wb") as file:
            file.write(gzip.compress(page(command, version, date).encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
