"""``isochrony completion``: shell completion, generated from the parser itself."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from .exits import Exit

__all__ = ["EXAMPLES", "HELP", "add_arguments", "bash", "fish", "run", "zsh"]

HELP = "print a completion script for bash, zsh or fish"
EXAMPLES = """examples:
  source <(isochrony completion bash)                                # this shell
  isochrony completion bash > ~/.local/share/bash-completion/completions/isochrony
  isochrony completion zsh > "${fpath[1]}/_isochrony"
  isochrony completion fish > ~/.config/fish/completions/isochrony.fish
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="shell to complete in")


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    from .main import build_parser

    write = {"bash": bash, "zsh": zsh, "fish": fish}[arguments.shell]
    print(write(build_parser()), end="")
    return Exit.OK


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _helps(parser: argparse.ArgumentParser) -> dict[str, str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return {one.dest: one.help or "" for one in action._choices_actions}
    return {}


def _options(parser: argparse.ArgumentParser) -> Iterator[tuple[list[str], argparse.Action]]:
    for action in parser._actions:
        if action.option_strings:
            yield list(action.option_strings), action


def _words(action: argparse.Action) -> list[str]:
    return [str(choice) for choice in action.choices or ()]


def _takes_value(action: argparse.Action) -> bool:
    return action.nargs != 0


def bash(parser: argparse.ArgumentParser) -> str:
    """A bash script: commands, their options, choices of values, else file names."""
    commands = _commands(parser)
    cases, values = [], []
    for name, one in commands.items():
        flags = " ".join(flag for names, _ in _options(one) for flag in names)
        fixed = " ".join(word for action in one._actions if not action.option_strings for word in _words(action))
        cases.append(f'    {name}) words="{flags}"; fixed="{fixed}" ;;')
        for names, action in _options(one):
            if _words(action):
                pattern = "|".join(f"{name}:{flag}" for flag in names)
                values.append(f'    {pattern}) words="{" ".join(_words(action))}" ;;')
            elif _takes_value(action):
                pattern = "|".join(f"{name}:{flag}" for flag in names)
                values.append(f'    {pattern}) COMPREPLY=($(compgen -f -- "$word")); return ;;')
    joined_cases, joined_values = "\n".join(cases), "\n".join(values)
    return f"""# bash completion for isochrony
_isochrony() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
  local command="${{COMP_WORDS[1]}}" words="" fixed=""
  if [ "$COMP_CWORD" -le 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join(commands)} --help --version" -- "$word"))
    return
  fi
  case "$command:$before" in
{joined_values}
  esac
  if [ -n "$words" ]; then
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    return
  fi
  case "$command" in
{joined_cases}
  esac
  if [ "${{word:0:1}}" = "-" ]; then
    COMPREPLY=($(compgen -W "$words" -- "$word"))
  elif [ -n "$fixed" ]; then
    COMPREPLY=($(compgen -W "$fixed" -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}}
complete -o filenames -F _isochrony isochrony
"""


def zsh(parser: argparse.ArgumentParser) -> str:
    """A zsh function with descriptions."""
    commands, helps = _commands(parser), _helps(parser)
    listed = "\n".join(f"    '{name}:{_quoted(helps.get(name, ''))}'" for name in commands)
    cases = []
    for name, one in commands.items():
        specs = []
        for names, action in _options(one):
            value = ""
            if _takes_value(action):
                choices = f"({' '.join(_words(action))})" if _words(action) else "_files"
                value = f":{(action.metavar or action.dest)}:{choices}"
            specs += [f"'{flag}[{_quoted(action.help or '')}]{value}'" for flag in names]
        for action in one._actions:
            if not action.option_strings:
                choices = f"({' '.join(_words(action))})" if _words(action) else "_files"
                specs.append(f"'*:{action.dest}:{choices}'")
        cases.append(f"    {name}) _arguments {' '.join(specs)} ;;")
    joined = "\n".join(cases)
    return f"""#compdef isochrony
_isochrony() {{
  local -a commands
  commands=(
{listed}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
{joined}
  esac
}}
_isochrony "$@"
"""


def fish(parser: argparse.ArgumentParser) -> str:
    """Fish completions with descriptions."""
    commands, helps = _commands(parser), _helps(parser)
    lines = ["# fish completion for isochrony"]
    for name in commands:
        lines.append(f"complete -c isochrony -n __fish_use_subcommand -f -a {name} -d '{_fish(helps.get(name, ''))}'")
    for name, one in commands.items():
        seen = f"complete -c isochrony -n '__fish_seen_subcommand_from {name}'"
        for names, action in _options(one):
            flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in names)
            value = ""
            if _words(action):
                value = f" -x -a '{' '.join(_words(action))}'"
            elif _takes_value(action):
                value = " -r"
            lines.append(f"{seen} {flags}{value} -d '{_fish(action.help or '')}'")
        for action in one._actions:
            if not action.option_strings and _words(action):
                lines.append(f"{seen} -f -a '{' '.join(_words(action))}'")
    return "\n".join(lines) + "\n"


def _fish(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _quoted(text: str) -> str:
    """Text inside a single-quoted zsh specification."""
    for character in "\\:[]":
        text = text.replace(character, "\\" + character)
    return text.replace("'", "'\\''")
