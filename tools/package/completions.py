"""Completion of commands, options and their values for bash, zsh and fish, made from --help.

  completions.py PROGRAM FOLDER        FOLDER/bash/emblem, FOLDER/zsh/_emblem, FOLDER/fish/emblem.fish
"""

import pathlib
import re
import sys

import program_help

BASH = r"""# Completion of emblem, made from emblem --help.
_emblem() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command="" words="" index
  for ((index = 1; index < COMP_CWORD; ++index)); do
    case "$command ${COMP_WORDS[index]}" in
      @COMMANDS@) command="$command ${COMP_WORDS[index]}" ;;
    esac
  done
  case "$command $previous" in
@VALUES@
  esac
  case "$command" in
@WORDS@
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  [[ $word == -* ]] || mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$word")
}
complete -o filenames -o bashdefault -F _emblem emblem
"""


def bash(commands):
    values, words = [], []
    for one in commands:
        key = "".join(f" {word}" for word in one.words)
        words.append(f'    "{key}") words="{" ".join([*(sub.name for sub in one.subcommands), *(o.name for o in one.options)])}" ;;')
        for option in one.options:
            if option.choices:
                values.append(f'    "{key} {option.name}") mapfile -t COMPREPLY < <(compgen -W "{" ".join(option.choices)}" -- "$word")'
                              "; return ;;")
            elif option.value:
                values.append(f'    "{key} {option.name}") mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;'
                              if option.is_path else f'    "{key} {option.name}") return ;;')
    known = "|".join(f'"{"".join(f" {word}" for word in one.words)}"' for one in commands if one.words)
    return BASH.replace("@COMMANDS@", known).replace("@VALUES@", "\n".join(values)).replace("@WORDS@", "\n".join(words))


def function_name(command):
    return "_".join(("_emblem", *command.words)).replace("-", "_")


def zsh_text(text):
    return re.sub(r"([\[\]:\\'])", r"\\\1", text).replace("\\'", "'\\''")


def zsh(commands):
    out = ["#compdef emblem", "# Completion of emblem, made from emblem --help.", ""]
    for one in commands:
        out += [f"{function_name(one)}() {{", "  local context state line"]
        specs = []
        for option in one.options:
            repeat = "*" if "repeat" in option.text else ""
            spec = f"{repeat}{option.name}[{zsh_text(option.text)}]"
            if option.value:
                action = f"({' '.join(option.choices)})" if option.choices else "_files" if option.is_path else ""
                spec += f":{zsh_text(option.value)}:{action}"
            specs.append(f"'{spec}'")
        if one.subcommands:
            specs += ["'1:command:->command'", "'*::argument:->argument'"]
        else:
            specs.append("'*:file:_files'")
        out.append("  _arguments -C \\\n    " + " \\\n    ".join(specs))
        if one.subcommands:
            listed = " ".join("'" + zsh_text(sub.name) + ":" + zsh_text(sub.text) + "'" for sub in one.subcommands)
            out += ["  case $state in", f"    command) local -a commands=({listed}); _describe command commands ;;",
                    "    argument) case $words[1] in"]
            out += [f"      {sub.name}) {function_name(one)}_{sub.name.replace('-', '_')} ;;" for sub in one.subcommands]
            out += ["    esac ;;", "  esac"]
        out += ["}", ""]
    return "\n".join([*out, '_emblem "$@"', ""])


def quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish(commands):
    out = ["# Completion of emblem, made from emblem --help."]
    for one in commands:
        seen = [f"__fish_seen_subcommand_from {word}" for word in one.words]
        if one.subcommands:
            seen.append(f"not __fish_seen_subcommand_from {' '.join(sub.name for sub in one.subcommands)}")
        condition = f"-n {quoted('; and '.join(seen))} " if seen else ""
        out += [f"complete -c emblem {condition}-f -a {sub.name} -d {quoted(sub.text)}" for sub in one.subcommands]
        for option in one.options:
            value = ("" if not option.value else f" -x -a {quoted(' '.join(option.choices))}" if option.choices else
                     " -r -F" if option.is_path else " -x")
            out.append(f"complete -c emblem {condition}-l {option.name.lstrip('-')}{value} -d {quoted(option.text)}")
    return "\n".join(out) + "\n"


def main():
    folder, commands = pathlib.Path(sys.argv[2]), program_help.commands(sys.argv[1])
    for path, text in (("bash/emblem", bash(commands)), ("zsh/_emblem", zsh(commands)), ("fish/emblem.fish", fish(commands))):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


if __name__ == "__main__":
    main()
