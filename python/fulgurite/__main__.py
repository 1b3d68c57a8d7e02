"""The command line: ``python -m fulgurite demo | doctor | explain FILE | cache | bench``."""

from __future__ import annotations

import argparse
import difflib
import runpy
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import fulgurite


class _Parser(argparse.ArgumentParser):
    """Names the nearest known command for an unknown one."""

    commands: Sequence[str] = ()

    def error(self, message: str) -> NoReturn:
        given = next((a for a in sys.argv[1:] if not a.startswith("-")), None)
        if self.commands and given is not None and given not in self.commands:
            near = difflib.get_close_matches(given, self.commands, n=1)
            hint = (
                f"did you mean {near[0]!r}?" if near else f"commands are {', '.join(self.commands)}"
            )
            message = f"unknown command {given!r}; {hint}"
        super().error(message)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code."""
    parser = _Parser(
        prog="python -m fulgurite", description="A source-to-source compiler for PyTorch programs."
    )
    parser.add_argument("--version", action="version", version=f"fulgurite {fulgurite.__version__}")
    commands = parser.add_subparsers(
        metavar="COMMAND", required=True, parser_class=argparse.ArgumentParser
    )
    _add_demo(commands)
    _add_doctor(commands)
    _add_explain(commands)
    _add_cache(commands)
    _add_bench(commands)
    parser.commands = tuple(commands.choices)
    given = list(sys.argv[1:] if argv is None else argv)
    if given[:1] == ["bench"]:  # REMAINDER takes no option that comes first
        return _bench(argparse.Namespace(arguments=given[1:]))
    arguments = parser.parse_args(given)
    run: Callable[[argparse.Namespace], int] = arguments.run
    return run(arguments)


def _add_demo(commands: Any) -> None:
    from fulgurite import demo

    help_text = "train a small GPT on real text, eagerly and compiled, side by side"
    parser = commands.add_parser("demo", help=help_text, description=help_text)
    demo.add_arguments(parser)
    parser.set_defaults(run=demo.main)


def _add_doctor(commands: Any) -> None:
    from fulgurite import doctor

    help_text = "check that fulgurite works in this environment, and say what to do if not"
    parser = commands.add_parser("doctor", help=help_text, description=help_text)
    parser.set_defaults(run=lambda _: doctor.main())


def _add_explain(commands: Any) -> None:
    help_text = "run a script, then say of everything it jitted what was compiled and why not"
    parser = commands.add_parser("explain", help=help_text, description=help_text)
    parser.add_argument("--report", type=Path, help="also write the HTML report to this file")
    parser.add_argument("file", metavar="FILE", type=Path, help="the script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    parser.set_defaults(run=_explain)


def _explain(arguments: argparse.Namespace) -> int:
    # `import fulgurite.jit` would give the function of that name.
    made = sys.modules["fulgurite.jit"].made
    if not arguments.file.is_file():
        print(f"error: there is no file {str(arguments.file)!r}", file=sys.stderr)
        return 2
    jitted: list[Any] = []
    made.append(jitted.append)
    code = _run_script(arguments.file, arguments.arguments)
    made.remove(jitted.append)
    sys.stdout.flush()
    if not jitted:
        print("nothing was jitted")
    for f in jitted:
        print(f"\n{fulgurite.explain(f)}")
    if arguments.report is not None:
        from fulgurite import report

        print(
            f"\nreport: {report.write(arguments.report, jitted, title=f'fulgurite: {arguments.file.name}')}"
        )
    return code


def _run_script(file: Path, arguments: Sequence[str]) -> int:
    """Runs it as Python would; returns its exit code. An exception is printed, for what was compiled until
    then is still to be explained."""
    before = sys.argv, list(sys.path)
    sys.argv = [str(file), *arguments]
    sys.path[0:1] = [str(file.resolve().parent)]
    try:
        runpy.run_path(str(file), run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except Exception:
        traceback.print_exc()
        return 1
    finally:
        sys.argv, sys.path[:] = before
    return 0


def _add_cache(commands: Any) -> None:
    help_text = "what is kept on disk"
    parser = commands.add_parser("cache", help=help_text, description=help_text)
    parser.add_argument("action", choices=("list", "clear"))
    parser.set_defaults(run=_cache)


def _cache(arguments: argparse.Namespace) -> int:
    done = "there is nothing to list" if arguments.action == "list" else "there is nothing to clear"
    print(
        f"{done}: compiled programs live in the process that made them; this version keeps no kernels on disk"
    )
    return 0


def _add_bench(commands: Any) -> None:
    help_text = "measure against eager and torch.compile (needs a checkout of the sources)"
    parser = commands.add_parser("bench", help=help_text, description=help_text, add_help=False)
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="names and options; --help lists them"
    )
    parser.set_defaults(run=_bench)


def _bench(arguments: argparse.Namespace) -> int:
    places = [Path.cwd(), Path(fulgurite.__file__).resolve().parents[2]]
    script = next(
        (p / "bench" / "run.py" for p in places if (p / "bench" / "run.py").is_file()), None
    )
    if script is None:
        print(
            "error: the benchmarks are not installed with the package: run this command in a checkout of the "
            "sources, or `python bench/run.py` there",
            file=sys.stderr,
        )
        return 2
    return _run_script(script, arguments.arguments)


if __name__ == "__main__":
    sys.exit(main())
