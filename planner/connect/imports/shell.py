"""The commands of a shell script that is read and never run.

Variables, arrays, conditions, cases, functions and sums are worked out; what comes from outside
(the environment, arguments, other programs) stays unknown and is marked with its name. A variable
that is set on an unknown condition is unknown too.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from planner.base import numbers, resources
from planner.base.arithmetic import WHOLE, evaluate_whole
from planner.base.display import one_line
from planner.base.errors import Place, PlanError

SCRIPT_LENGTH = 200_000  # characters of a script, and of all that its variables hold
MOST_COMMANDS = 20_000  # commands that are followed
MOST_COPIED = 20_000_000  # characters that variables are expanded to, altogether
#: Around the name of what is not known.
UNKNOWN_SIGN = "\0"
MARKED = re.compile(rf"{UNKNOWN_SIGN}([^{UNKNOWN_SIGN}]*){UNKNOWN_SIGN}")
#: The words of a value, of which those that are not known may have blanks.
WORD = re.compile(rf"(?:{UNKNOWN_SIGN}[^{UNKNOWN_SIGN}]*{UNKNOWN_SIGN}|\S)+")
#: What a list of arguments does not have: an interpreter, a variable, or a program to start.
SCRIPT = re.compile(
    r"^#!|^[ \t]*(?:export[ \t]+)?[A-Za-z_]\w*\+?=|^[^#\n]*\$[\w{(]|^[ \t]*\w[^#\n]*\.py[ \t\\\n]",
    re.MULTILINE,
)
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=", re.DOTALL)
VARIABLE_NAME = re.compile(r"[A-Za-z_]\w*|[0-9]|[@*#?!$-]")
#: Within braces: a name, an index, and what stands in for it where it is not set.
BRACES = re.compile(r"([A-Za-z_]\w*|[0-9]+|[@*])(\[[@*0-9]+\])?(?:(:?[-=+?])(.*))?", re.DOTALL)
#: What a command prints, a sum apart, in the place of a variable's value.
PRINTED = re.compile(r"\"?(?:\$\((?!\()|`)(?!\s*expr\b)")
#: The arguments of a script, in what a loop goes over or is followed for.
OVER_ARGUMENTS = re.compile(r"\$(?:[#@*1]|\{[#@*1]\})")
#: A sum that another program would print, which is worked out here.
EXPR = re.compile(r"(?:\$\(|`)\s*expr\s+([\w\s${}+*/%\\-]{1,200})(?:\)|`)")
HEREDOC = re.compile(r"<<-?[ \t]*[\"']?(\w+)[\"']?")
REDIRECT = re.compile(r"[0-9&]?>{1,2}&?[ \t]*|<(?!\()[ \t]*")
OPERATORS = ("&&", "||", ";;", ";", "|", "&", "(", ")", "\n")
#: Variables by which programs choose devices, and the endings of files that a command gets.
INHERITED = ("CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", "NPROC_PER_NODE", "NNODES")
#: Options of launchers and the programs that train; the options of a script that sbatch takes.
LAUNCHERS = resources.load_beside(__file__, "launchers.yaml")
SBATCH = re.compile(r"^#SBATCH\s+([^#\n]*)", re.MULTILINE)
#: What sbatch reads of a script: the lines before its first command. An option as it takes them:
#: --nodes=4, --nodes 4, -N 4 and -N4.
SBATCH_HEADER = re.compile(r"(?:[ \t\r]*(?:#.*)?\n)*")
SBATCH_OPTION = re.compile(r"(?<!\S)(--[\w-]+|-\w)(?:=|[ \t]*)((?!-)\S+)?")
FILE_ENDINGS = (".yaml", ".yml", ".json")
DECLARING = ("export", "local", "declare", "readonly", "typeset")
SUMS = {**WHOLE, ast.Div: operator.floordiv}
COMPARISONS = {
    **{"=": operator.eq, "==": operator.eq, "!=": operator.ne},
    **{f"-{name}": getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
}

#: A field of a configuration that a command sets, as Hydra has it.
SET_FIELD = re.compile(r"\+{0,2}[A-Za-z_]\w*(\.\w+)+=")


class Token(NamedTuple):
    """A word as it is written, or an operator; of an array that is assigned, its words too."""

    text: str
    line: int
    words: tuple[str, ...] | None = None


class ShellCommand(NamedTuple):
    """A command: its words in their order, its line, and the variables of ``INHERITED`` then."""

    words: list[str]
    line: int
    environment: Mapping[str, str] = {}


def is_script(text: str) -> bool:
    """Check whether a text is a script, and not a list of arguments."""
    return SCRIPT.search(text) is not None


def list_commands(text: str, variables: Mapping[str, str], place: Place) -> list[ShellCommand]:
    """List the commands of a script that have options, variables worked out.

    Args:
        text: the script.
        variables: what the environment and the arguments have.
        place: where faults are.

    Raises:
        PlanError: the script is too long, or no script.
    """
    if len(text) > SCRIPT_LENGTH:
        allowed = f"at most {numbers.text(SCRIPT_LENGTH)} characters"
        raise PlanError("too long for a script", place, allowed)
    try:
        given = read_sbatch(text)
        sets = ((given.get(one), names) for one, names in LAUNCHERS["slurm"].items())
        known = {"HOME": "~"} | {name: value for value, names in sets if value for name in names}
        reader = _ShellReader([*_split_tokens(text, place)], {**known, **variables}, place)
        reader.follow_list((), None)
    except RecursionError:
        raise PlanError("no script of a shell: nested too deep", place) from None
    if not reader.commands:  # a file that only sets options, for others to source
        held = [" ".join(one) for one in reader.values.values()]
        words = " ".join(one for one in held if one.lstrip().startswith("--")).split()
        return [ShellCommand(words, 1)] if words else []
    return reader.commands


def read_sbatch(text: str) -> dict[str, str]:
    """Return the options of a script that sbatch takes, with their values; empty for a flag."""
    header = SBATCH_HEADER.match(text)
    return {
        name: value
        for line in SBATCH.findall(header[0] if header else "")
        for name, value in SBATCH_OPTION.findall(line)
    }


def _split_tokens(text: str, place: Place) -> Iterator[Token]:
    """Split a script into words and operators; comments and here-documents are left out."""
    at, line, ends = 0, 1, list[str]()
    while at < len(text):
        char = text[at]
        if text.startswith("\\\n", at):
            at, line = at + 2, line + 1
        elif char in " \t\r":
            at += 1
        elif char == "#":
            at = (text.find("\n", at) + 1 or len(text) + 1) - 1
        elif text.startswith(("<(", ">("), at):
            at = _find_close(text, at + 1) + 1
        elif heredoc := HEREDOC.match(text, at):
            ends.append(heredoc[1])
            at = heredoc.end()
        elif redirect := REDIRECT.match(text, at):
            at = _end_word(text, redirect.end())  # where the output of a command goes
        elif sign := next((one for one in OPERATORS if text.startswith(one, at)), None):
            yield Token(sign, line)
            at += len(sign)
            line += sign == "\n"
            while sign == "\n" and ends:
                last = re.compile(rf"^[ \t]*{ends.pop(0)}[ \t]*$", re.MULTILINE).search(text, at)
                stop = last.end() if last else len(text)
                line += text.count("\n", at, stop)
                at = stop
        else:
            end = _end_word(text, at)
            word = text[at:end]
            if re.fullmatch(r"[A-Za-z_]\w*\+?=", word) and text.startswith("(", end):
                close = _find_close(text, end)
                inner = _split_tokens(text[end + 1 : close], place)
                yield Token(word, line, tuple(one.text for one in inner if one.text != "\n"))
                end = close + 1
            elif end == at:
                fault = f"no script of a shell: {one_line(text[at : at + 20])}"
                raise PlanError(fault, place._replace(line=line))
            else:
                yield Token(word, line)
            line += text.count("\n", at, end)
            at = end
    yield Token("\n", line)


def _end_word(text: str, at: int) -> int:
    """Find the end of a word."""
    while at < len(text) and text[at] not in " \t\r\n;|&()<>":
        at = _end_part(text, at)
    return min(at, len(text))


def _end_part(text: str, at: int) -> int:
    """Find the end of a character, a quoted text or an expansion."""
    char = text[at]
    if char == "\\":
        return at + 2
    if char in "'`":
        return (text.find(char, at + 1) + 1) or len(text)
    if char == '"':
        at += 1
        while at < len(text) and text[at] != '"':
            at = _end_part(text, at) if text[at] in "\\$`" else at + 1
        return at + 1
    if text.startswith(("$(", "${"), at):
        return _find_close(text, at + 1) + 1
    found = VARIABLE_NAME.match(text, at + 1) if char == "$" else None
    return found.end() if found else at + 1


def _find_close(text: str, at: int) -> int:
    """Find the bracket that closes the one at a place; the end of the text if there is none."""
    opened, closed = text[at], {"(": ")", "{": "}"}[text[at]]
    depth, at = 1, at + 1
    while at < len(text):
        depth += (text[at] == opened) - (text[at] == closed)
        if not depth:
            return at
        at = _end_part(text, at) if text[at] in "\\'\"`" else at + 1
    return len(text)


class _ShellReader:
    """A script that is followed from its first command on: the values of variables, and commands.

    Attributes:
        values: the words of each variable; a plain one has one.
        commands: commands with options.
    """

    def __init__(self, tokens: Sequence[Token], given: Mapping[str, str], place: Place) -> None:
        self.tokens, self.at, self.steps, self.place = tokens, 0, 0, place
        self.values: dict[str, list[str]] = {name: [value] for name, value in given.items()}
        self.given = frozenset(given)
        self.functions: dict[str, int] = {}
        self.copied = 0
        self.commands: list[ShellCommand] = []

    def peek(self) -> str:
        """Return the token that is next; nothing at the end."""
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def take(self) -> Token:
        """Take the next token."""
        if self.at >= len(self.tokens):
            raise PlanError("no script of a shell: it ends too soon", self.place)
        self.at += 1
        return self.tokens[self.at - 1]

    def follow_list(self, ends: Sequence[str], cause: str | None, skip: bool = False) -> bool | str:
        """Follow commands up to one of some words.

        Args:
            ends: the words.
            cause: the unknown that decides whether the list runs; None if it runs.
            skip: the list does not run.

        Returns:
            Whether the last command succeeded, or the unknown that decides it.
        """
        status: bool | str = True
        while self.at < len(self.tokens) and self.peek() not in ends:
            text = self.peek()
            if text in ("&&", "||"):
                self.take()
                wanted = text == "&&"
                on = status if isinstance(status, str) else None
                left_out = isinstance(status, bool) and status is not wanted
                after = self.follow_command(cause or on, skip or left_out)
                status = status if left_out else on or after
            elif text in OPERATORS and text != "(":
                self.take()
            else:
                status = self.follow_command(cause, skip)
        return status

    def follow_command(self, cause: str | None, skip: bool) -> bool | str:
        """Follow one command.

        Args:
            cause: the unknown that decides whether it runs; None if it runs.
            skip: it does not run.

        Returns:
            As ``follow_list``.
        """
        self.steps += 1
        if self.steps > MOST_COMMANDS:
            raise PlanError("too many commands in the script", self.place)
        while self.peek() == "\n":
            self.take()
        text = self.peek()
        if text in ("if", "case", "(", "{", "for", "while", "until", "select", "!"):
            self.take()
            return self.follow_block(text, cause, skip)
        after = [one.text for one in self.tokens[self.at + 1 : self.at + 3]]
        if text == "function" or (after == ["(", ")"] and text not in OPERATORS):
            return self.define_function(text)
        line, words = self.tokens[self.at].line, list[Token]()
        ends = ("]]", "") if text == "[[" else (*OPERATORS, "")
        while self.peek() not in ends:
            words.append(self.take())
        if text == "[[":
            words.append(self.take())
        return True if skip else self.run_words(words, line, cause)

    def define_function(self, text: str) -> bool:
        """Remember where the body of a function begins, and go on behind it."""
        name = self.take().text if text != "function" else (self.take(), self.take())[1].text
        while self.peek() in ("(", ")", "\n"):
            self.take()
        self.functions[name] = self.at
        self.follow_command(None, True)
        return True

    def follow_block(self, kind: str, cause: str | None, skip: bool) -> bool | str:
        """Follow a block after the word that opens it.

        Args:
            kind: that word.
            cause: the unknown that decides whether it runs; None if it runs.
            skip: it does not run.
        """
        if kind == "!":
            status = self.follow_command(cause, skip)
            return status if isinstance(status, str) else not status
        if kind == "(" == self.peek():  # a sum as a condition
            while self.take().text != ")":
                pass
            self.take()
            return "((…))"
        if kind in "({":
            status = self.follow_list((")" if kind == "(" else "}",), cause, skip)
            self.take()
            return status
        if kind == "if":
            return self.follow_if(cause, skip)
        if kind == "case":
            return self.follow_case(cause, skip)
        head = []
        while self.peek() not in ("do", ""):
            head.append(self.take().text)
        self.take()
        variable = "".join(head[:1])
        name = f"{variable} of a loop" if kind in ("for", "select") else f"{kind} loop"
        over_arguments = OVER_ARGUMENTS.search(" ".join(head)) and "1" not in self.values
        skip = skip or (over_arguments is not None and kind != "until")  # none where none are set
        if kind in ("for", "select") and not skip:
            self.assign_words(variable, [f"{UNKNOWN_SIGN}{name}{UNKNOWN_SIGN}"], cause)
        self.follow_list(("done",), cause or name, skip)
        self.take()
        return True

    def follow_if(self, cause: str | None, skip: bool) -> bool:
        """Follow the branch of an ``if`` that runs; all that may, where that is not known."""
        decided, unknown = skip, cause
        while True:
            status = self.follow_list(("then",), cause, decided)
            self.take()
            runs = not decided and status is not False
            unknown = unknown or (status if isinstance(status, str) and not decided else None)
            self.follow_list(("elif", "else", "fi"), unknown, not runs)
            decided = decided or status is True
            word = self.take().text
            if word == "else":
                self.follow_list(("fi",), unknown, decided)
                self.take()
            if word != "elif":
                return True

    def follow_case(self, cause: str | None, skip: bool) -> bool:
        """Follow the branch of a ``case`` that matches."""
        word = " ".join(self.expand(self.take().text))
        unknown = next(iter(MARKED.findall(word)), None)
        decided = skip
        while self.peek() != "in":
            self.take()
        self.take()
        while True:
            while self.peek() in ("\n", ";;", "("):
                self.take()
            if self.peek() == "esac":
                self.take()
                return True
            patterns = []
            while (token := self.take().text) != ")":
                patterns += self.expand(token) if token != "|" else []
            fits = any(fnmatchcase(word, one) for one in patterns)
            runs = not decided and (unknown is not None or fits)
            self.follow_list((";;", "esac"), cause or unknown, not runs)
            decided = decided or (unknown is None and fits)

    def run_words(self, tokens: list[Token], line: int, cause: str | None) -> bool | str:
        """Assign variables, test a condition, call a function, or keep a command with options.

        Args:
            tokens: the words of the command.
            line: its line.
            cause: the unknown that decides whether it runs; None if it runs.
        """
        while tokens and tokens[0].text in DECLARING:
            tokens = [one for one in tokens[1:] if not one.text.startswith("-")]
        while tokens and (found := ASSIGNMENT.match(tokens[0].text)):
            token = tokens.pop(0)
            if token.words is None:
                words = [" ".join(self.expand(token.text[found.end() :], split=False))]
            else:
                words = [one for each in token.words for one in self.expand(each)]
            before = self.values.get(found[1], []) if found[2] else []
            whole = [*before, *words] if token.words is not None else ["".join([*before, *words])]
            if found[1] not in self.given:
                self.assign_words(found[1], whole, cause, before)
        words = [one for each in tokens for one in self.expand(each.text)]
        if not words:
            return True
        if words[0] in ("[", "[[", "test"):
            return self.test_words(words[1:-1] if words[0] != "test" else words[1:])
        if words[0] in self.functions and self.steps < MOST_COMMANDS:
            after, self.at = self.at, self.functions[words[0]]
            status = self.follow_command(cause, False)
            self.at = after
            return status
        if "-c" in words[1:-1]:  # another shell, whose command is expanded there
            at = words.index("-c")
            inner = (
                [one] if UNKNOWN_SIGN in one else self.expand(one) for one in words[at + 1].split()
            )
            words = words[: at - 1] + [one for each in inner for one in each]
        shows = words[0] in ("echo", "printf")
        has_options = any(
            one.startswith("--") or " --" in one or SET_FIELD.match(one) for one in words
        )
        if not shows and (has_options or words[-1].endswith(FILE_ENDINGS)):
            parts = (one.split() if " --" in one else [one] for one in words)
            bare = [one.strip("'\"") for each in parts for one in each if one != "\\"]
            held = {name: " ".join(self.values[name]) for name in INHERITED if name in self.values}
            self.commands.append(ShellCommand(bare, line, held))
        return words[0] != "false"

    def assign_words(
        self, name: str, words: list[str], cause: str | None, before: Sequence[str] = ()
    ) -> None:
        """Set a variable.

        Args:
            name: its name.
            words: its words.
            cause: the unknown that decides whether it is set; None if it is.
            before: the words that it had, if anything is added to it, and keeps in any case.
        """
        self.values[name] = [*before, f"{UNKNOWN_SIGN}{cause}{UNKNOWN_SIGN}"] if cause else words
        if sum(len(one) for one in self.values[name]) > SCRIPT_LENGTH:
            raise PlanError(f"too long a value of {one_line(name)}", self.place)

    def expand(self, text: str, split: bool = True) -> list[str]:
        """Expand a word to the words that a command gets.

        Args:
            text: the word as it is written.
            split: whether values of variables are split at blanks.
        """
        words, at = [""], 0
        empty = True  # whether the last word is nothing but what was empty
        while at < len(text):
            end = min(_end_part(text, at), len(text))
            part, at = text[at:end], end
            if part.startswith('"'):
                empty, inner = False, part[1:-1]
                found = [""]
                while inner:
                    stop = _end_part(inner, 0) if inner[0] in "\\$`" else 1
                    got = self.expand_part(inner[:stop])
                    inner = inner[stop:]
                    if got:
                        found[-1] += got[0]
                        found += got[1:]
                words[-1] += found[0]
                words += found[1:]
                continue
            if part.startswith("'"):
                empty, found = False, [part[1:-1]]
            elif part[0] in "$`" and split:
                joined = self.expand_part(part)
                blank = joined and (joined[0][:1].isspace() and words[-1])
                found = [one for each in joined for one in each.split()]
                found = ["", *found] if blank else found
            else:
                found = self.expand_part(part)
            if found:
                empty = empty and not any(found)
                words[-1] += found[0]
                words += found[1:]
        return words if any(words) or not empty else []

    def expand_part(self, part: str) -> list[str]:
        """Expand one character, or what begins with a dollar sign or a backquote."""
        if part.startswith("\\"):
            return [part[1:].replace("\n", "")]
        if part.startswith("$(("):
            return [self.add_up(part[3:].rstrip(")") if part.count("(") == 2 else part[3:-2])]
        if found := EXPR.fullmatch(part):
            return [self.add_up(found[1].replace("\\", ""))]
        if part.startswith(("$(", "`")):
            return [_mark_unknown(part)]
        if part.startswith("${"):
            found = BRACES.fullmatch(part[2:-1])
            if found is None:
                return [_mark_unknown(part)]
            return self.look_up(found[1], found[2] or "", found[3] or "", found[4] or "")
        return self.look_up(part[1:], "") if part[0] == "$" and part[1:] else [part]

    def look_up(self, name: str, index: str, sign: str = "", other: str = "") -> list[str]:
        """Return the words of a variable, or what stands in for one that is not set.

        Args:
            name: its name.
            index: the index of an array, in brackets.
            sign: what decides whether ``other`` stands in, as ``:-``.
            other: the word that stands in, as it is written.
        """
        held = self.values.get(name)
        self.copied += sum(map(len, held or ()))
        if self.copied > MOST_COPIED:
            raise PlanError("variables of the script grow too large", self.place)
        if held is not None and index.strip("[]").isdigit():
            held = held[int(index[1:-1]) : int(index[1:-1]) + 1] or [""]
        is_set = held is not None and (":" not in sign or any(held))
        if sign.endswith("+"):
            return self.expand(other, split=False) if is_set else []
        if not is_set and sign.endswith(("-", "=")):
            if PRINTED.match(other):
                return [f"{UNKNOWN_SIGN}{name}{UNKNOWN_SIGN}"]
            return self.expand(other, split=False) or [""]
        return held if held is not None else [f"{UNKNOWN_SIGN}{name}{UNKNOWN_SIGN}"]

    def add_up(self, text: str) -> str:
        """Work out whole numbers; what is unknown in it stays."""
        names = re.sub(r"\$?\{?\b([A-Za-z_]\w*|(?<=\$)[0-9]+)\}?", self._get_number, text)
        shown = "".join(self.expand(names, split=False)) if "$" in names else names
        if unknown := MARKED.search(shown):
            return unknown[0]
        try:
            return str(evaluate_whole(shown, operations=SUMS))
        except ValueError:
            return f"{UNKNOWN_SIGN}$((…)){UNKNOWN_SIGN}"

    def _get_number(self, found: re.Match[str]) -> str:
        """Return the value of a variable in a sum."""
        return " ".join(self.look_up(found[1], ""))

    def test_words(self, words: list[str]) -> bool | str:
        """Test a condition; the first unknown where that decides it."""
        for sign, over in (("||", any), ("-o", any), ("&&", all), ("-a", all)):
            if sign in words:
                at = words.index(sign)
                sides = [self.test_words(words[:at]), self.test_words(words[at + 1 :])]
                decides = over is any
                if decides in sides:
                    return decides
                return next((one for one in sides if isinstance(one, str)), not decides)
        if words[:1] == ["!"]:
            status = self.test_words(words[1:])
            return status if isinstance(status, str) else not status
        text = "".join(words)
        unknown: str | None = next(iter(MARKED.findall(text)), None)
        if words[:1] in (["-n"], ["-z"]):
            is_there = any(MARKED.sub("", one) for one in words[1:]) or "(" in (unknown or "")
            return is_there is (words[0] == "-n")
        if unknown is not None:
            return unknown
        if len(words) == 3 and words[1] in COMPARISONS:
            if not words[1].startswith("-"):
                same = words[0] == words[2] or fnmatchcase(words[0], words[2])
                return same is (words[1] != "!=")
            if all(re.fullmatch(r"-?[0-9]{1,15}", one) for one in (words[0], words[2])):
                return bool(COMPARISONS[words[1]](int(words[0]), int(words[2])))
        return bool(text) if len(words) < 2 else f"[ {one_line(' '.join(words))[:40]} ]"


def _mark_unknown(part: str) -> str:
    """Mark an expansion that is not worked out, in one word."""
    return f"{UNKNOWN_SIGN}{re.sub('[^!-~]', '_', part)[:40]}{UNKNOWN_SIGN}"
