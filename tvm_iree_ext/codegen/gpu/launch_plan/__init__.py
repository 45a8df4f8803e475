"""Host side of a GPU kernel's launch, as data and as C++."""
