"""All tables of programs."""

import programs_attributes
import programs_calls
import programs_containers
import programs_copies
import programs_deques
import programs_functions
import programs_library
import programs_lookups
import programs_modules
import programs_protocols
import programs_state
import programs_torch
import programs_traps
import programs_unseen
import programs_values
import programs_versions
import pytest

TABLES = [
    programs_state,
    programs_attributes,
    programs_calls,
    programs_library,
    programs_modules,
    programs_traps,
    programs_lookups,
    programs_functions,
    programs_containers,
    programs_copies,
    programs_deques,
    programs_values,
    programs_unseen,
    programs_protocols,
    programs_torch,
    programs_versions,
]
PROGRAMS = [program for table in TABLES for program in table.PROGRAMS]


def changes(kind):
    return [
        pytest.param(program, change, id=f"{program.name}: {change}")
        for program in PROGRAMS
        for change in getattr(program, kind)
    ]
