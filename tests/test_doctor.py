"""doctor and the rest of the command line."""

import os
import subprocess
import sys

import pytest

from fulgurite import __main__ as command_line
from fulgurite import _python, doctor


def run(*arguments, **kwargs):
    return subprocess.run(
        [sys.executable, "-m", "fulgurite", *arguments],
        capture_output=True,
        text=True,
        check=False,
        **kwargs,
    )


def test_doctor_finds_a_working_installation(capsys, monkeypatch):
    for name in [name for name in os.environ if name.startswith("FULGURITE_")]:
        monkeypatch.delenv(name)
    assert doctor.main() == 0
    printed = capsys.readouterr().out
    for name in (
        "python",
        "torch",
        "core",
        "recorder",
        "watcher",
        "program",
        "gradient",
        "random numbers",
        "in place",
    ):
        assert f"ok   {name} " in printed
    assert printed.endswith("fulgurite works here.\n")


def test_doctor_says_what_to_do_when_torch_is_another(capsys, monkeypatch):
    import torch

    monkeypatch.setattr(torch, "__version__", "2.99.0")
    assert doctor.main() == 1
    printed = capsys.readouterr().out
    assert "FAIL torch" in printed and "found 2.99.0" in printed
    assert "What to do:" in printed and "pip install torch==" in printed
    assert "recorder" not in printed


@pytest.mark.parametrize(
    ("version", "implementation", "says"),
    [
        ((3, 11, 0), "cpython", ""),
        ((3, 12, 7), "cpython", ""),
        ((3, 10, 9), "cpython", "CPython 3.10.9: the watcher does not know"),
        ((3, 13, 0), "cpython", "CPython 3.13.0: it changes attributes without telling"),
        ((3, 13, 1), "cpython", ""),
        ((3, 13, 5), "cpython", ""),
        ((3, 14, 0), "cpython", "CPython 3.14.0: the watcher does not know"),
        ((3, 11, 9), "pypy", "pypy 3.11.9"),
    ],
)
def test_which_pythons_work(version, implementation, says):
    found = _python.why_not(version, implementation, has_gil=True)
    assert says in found and bool(says) == bool(found), found
    assert not found or "works with CPython 3.11, 3.12 and 3.13" in found


def test_a_python_without_the_global_lock_does_not_work():
    assert "without the global lock" in _python.why_not((3, 13, 5), "cpython", has_gil=False)


def test_a_core_for_another_python_is_said_to_be_one():
    assert _python.why_not((3, 12, 1), "cpython", built_for="3.12") == ""
    assert "built for CPython 3.11" in _python.why_not((3, 12, 1), "cpython", built_for="3.11")


def test_doctor_says_what_to_do_when_python_is_another(capsys, monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 14, 0, "final", 0))
    assert doctor.main() == 1
    printed = capsys.readouterr().out
    assert "FAIL python" in printed and "works with CPython 3.11, 3.12 and 3.13" in printed
    assert "python: use CPython 3.11, 3.12 or 3.13" in printed and "recorder" not in printed


def test_import_under_another_python_says_so():
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.version_info = (3, 14, 0, 'final', 0); import fulgurite"],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert done.stderr.strip().splitlines()[-1].startswith("ImportError: FG-004: "), done.stderr


def test_doctor_runs_when_the_package_cannot_be_loaded(capsys):
    assert doctor.main(ImportError("FG-003: the recorder does not work in this process")) == 1
    printed = capsys.readouterr().out
    assert "FAIL core" in printed and "FG-003" in printed


def test_doctor_takes_over_only_from_its_own_command(monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", ["python", "train.py"])
    doctor.take_over(ImportError("FG-001"))
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "fulgurite", "doctor"])
    with pytest.raises(SystemExit) as end:
        doctor.take_over(ImportError("FG-001"))
    assert end.value.code == 1


def test_doctor_finds_variables_that_nothing_reads(capsys, monkeypatch):
    monkeypatch.setenv("FULGURITE_FULGRAPH", "1")
    assert doctor.main() == 1
    assert "did you mean FULGURITE_FULLGRAPH?" in capsys.readouterr().out


def test_doctor_reports_a_failed_self_test(capsys, monkeypatch):
    def _gradient():
        raise RuntimeError("gradients: eager gives 1, the compiled program 2")

    monkeypatch.setattr(doctor, "_gradient", _gradient)
    assert doctor.main() == 1
    assert "FAIL gradient" in capsys.readouterr().out


def test_self_tests_notice_a_process_that_is_started(capsys):
    def starts():
        subprocess.run([sys.executable, "-c", ""], check=True)
        return "done"

    finding = doctor._attempt(starts)
    assert finding.good is False and "a process was started" in finding.found


def test_unknown_command_names_the_nearest():
    done = run("docter")
    assert done.returncode == 2
    assert "unknown command 'docter'; did you mean 'doctor'?" in done.stderr


def test_unknown_command_without_a_near_one_lists_all(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["fulgurite", "xyz"])
    with pytest.raises(SystemExit):
        command_line.main(["xyz"])
    assert "commands are demo, doctor, explain, cache, bench" in capsys.readouterr().err


def test_cache_says_that_nothing_is_on_disk(capsys):
    assert command_line.main(["cache", "list"]) == 0
    assert "nothing to list" in capsys.readouterr().out


SCRIPT = """
import sys
import torch, fulgurite as fg
def made():
    @fg.jit
    def inner(x):
        return x.sin() + 1
    return inner(torch.ones(3)), inner(torch.ones(3))
@fg.jit
def outer(x):
    return x * 2
outer(torch.ones(2)); made()
print("arguments", sys.argv[1:], __name__)
"""


def explained(tmp_path, text, *arguments):
    script = tmp_path / "script.py"
    script.write_text(text)
    return command_line.main(["explain", *arguments, str(script), "--one", "2"])


def test_explain_runs_a_script_and_explains_everything_it_jitted(tmp_path, capsys):
    report = tmp_path / "r.html"
    assert explained(tmp_path, SCRIPT, "--report", str(report)) == 0
    printed = capsys.readouterr().out
    assert "arguments ['--one', '2'] __main__" in printed
    assert "made.<locals>.inner: 1 program, 1 call served" in printed
    assert "outer: 1 program, 0 calls served" in printed
    assert "script.py:7" in report.read_text(encoding="utf-8")


def test_explain_explains_also_when_the_script_raises(tmp_path, capsys):
    assert explained(tmp_path, SCRIPT + "raise ValueError('late')\n") == 1
    printed = capsys.readouterr()
    assert "ValueError: late" in printed.err and "outer: 1 program" in printed.out


@pytest.mark.parametrize(
    ("end", "code"), [("sys.exit(3)", 3), ("sys.exit()", 0), ("sys.exit('no')", 1)]
)
def test_explain_returns_the_scripts_exit_code(tmp_path, end, code):
    assert explained(tmp_path, f"import sys\n{end}\n") == code


def test_explain_of_a_missing_file_is_an_error(capsys):
    assert command_line.main(["explain", "no/such.py"]) == 2
    assert "no file 'no/such.py'" in capsys.readouterr().err
