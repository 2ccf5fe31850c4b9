"""The commands of the program with their options, as `emblem COMMAND --help` describes them."""

import dataclasses
import re
import subprocess


@dataclasses.dataclass
class Entry:
    """An option, an argument or a subcommand: "--device", "cpu|cuda", "Where to compute ..."."""
    name: str
    value: str
    text: str

    @property
    def choices(self):
        """The words that the value may be, as fp32|bf16; [] if it is something else."""
        return self.value.split("|") if re.fullmatch(r"[\w-]+(\|[\w-]+)+", self.value) else []

    @property
    def is_path(self):
        return bool(re.match(r"(MODEL=|NAME=)?(FILE|DIR|PATH)\b", self.value))


@dataclasses.dataclass
class Command:
    """What --help of a command says; `words` are those after emblem."""
    words: tuple
    summary: str
    usage: str
    positionals: list
    options: list
    subcommands: list


def parse(words, text):
    head, *sections = re.split(r"^(\w+):$\n", text, flags=re.M)
    summary, usage = re.fullmatch(r"(.*?)\nUsage: (.*?)\n*", head, re.S).groups()
    found = {title: entries(body) for title, body in zip(sections[::2], sections[1::2])}
    unknown = found.keys() - {"Positionals", "Options", "Subcommands"}
    if unknown:
        raise ValueError(f"emblem {' '.join(words)} --help has sections that nothing reads: {', '.join(unknown)}")
    return Command(tuple(words), " ".join(summary.split()), usage, found.get("Positionals", []), found["Options"],
                   found.get("Subcommands", []))


def entries(body):
    listed = []
    for line in body.splitlines():
        named = re.match(r"  (\S+)((?: \S+)*)(?:  +(\S.*))?$", line)
        if named:
            listed.append(Entry(named[1], named[2].strip(), named[3] or ""))
        elif line.strip():
            listed[-1].text = f"{listed[-1].text} {line.strip()}".strip()
    return listed


def commands(program, words=()):
    """A Command for the program itself, then for each command and each of its subcommands."""
    said = subprocess.run([str(program), *words, "--help"], capture_output=True, text=True, check=True).stdout
    command = parse(words, said)
    return [command, *(one for sub in command.subcommands for one in commands(program, (*words, sub.name)))]


def version(program):
    return subprocess.run([str(program), "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
