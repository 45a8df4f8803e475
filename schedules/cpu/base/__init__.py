"""The base of CPU rules, and when threads pay."""
