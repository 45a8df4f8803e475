"""Who touched what before whom."""
