"""The languages that webs are written in."""
