"""What the tables of programs are made of, and how a program is built and watched."""

import types
from dataclasses import dataclass, field

from fulgurite import _C


@dataclass
class Program:
    """A source that defines `f` (and `args`), and changes to its world after a watched call.

    After a *consulted* change the guards must fail, unless the program still gives the same result;
    after an *unrelated* one they must hold.
    """

    name: str
    source: str
    consulted: list = field(default_factory=list)
    unrelated: list = field(default_factory=list)
    may_refuse: bool = False

    def build(self):
        module = types.ModuleType("program")
        exec(compile(self.source, f"<{self.name}>", "exec"), module.__dict__)
        return module.__dict__

    def watch(self, warm=True):
        """Builds the program, calls it once, and once more under watch."""
        scope = self.build()
        args = scope.get("args", ())
        if warm:
            scope["f"](*args)
        _, watched = _C._watch(scope["f"], args, {})
        return scope, watched

    def outcome(self, scope):
        try:
            return repr(scope["f"](*scope.get("args", ())))
        except Exception as error:
            return repr(error)


def ids(program):
    return program.name
