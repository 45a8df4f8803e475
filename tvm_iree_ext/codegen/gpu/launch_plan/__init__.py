"""What the host does for a GPU kernel, as data, and as C++."""
