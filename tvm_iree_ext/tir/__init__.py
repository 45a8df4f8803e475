"""TIR expressions that ops, schedules and code generation all take."""
