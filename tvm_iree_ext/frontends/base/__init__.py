"""What every front end of a framework uses: IREE's compiler, the import, tables of support."""
