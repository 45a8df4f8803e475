"""What the host does beside launches, as steps of a plan that is being made."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tvm_iree_ext.codegen.gpu.launch_plan.plan_expressions import Names
from tvm_iree_ext.programs.launch_plans.planned_arrays import Count, PlannedArray

Step = dict[str, Any]


class PlannedSteps(Names):
    """Steps in their order, and functions of the program whose steps stand among them.

    Args:
        taken: names of the plan, which its functions share.
    """

    def __init__(self, taken: set[str]) -> None:
        super().__init__()
        self.taken = taken
        self.steps: list[Step] = []

    @abstractmethod
    def region(
        self,
        name: str,
        arrays: Sequence[PlannedArray],
        homes: Mapping[int, PlannedArray] | None = None,
    ) -> tuple[list[Step], list[PlannedArray]]:
        """The steps of another function of the program, and what it computes.

        Args:
            name: of the function.
            arrays: that it is given.
            homes: where of its results, by their places, are to lie that it makes itself; one that
                it does not make lies elsewhere.
        """

    @abstractmethod
    def parameter_types(self, name: str) -> Sequence[Any]:
        """The types of what another function of the program is given."""

    @contextmanager
    def into(self, steps: list[Step]) -> Iterator[None]:
        """Add to other steps while it lasts: those of a loop's body, or of a branch."""
        before, self.steps = self.steps, steps
        try:
            yield
        finally:
            self.steps = before

    def let(self, wanted: str, value: Count) -> str:
        """A new name of a number."""
        name = self.fresh(wanted)
        self.steps.append({"let": name, "value": value})
        return name

    def require(self, condition: str, message: str) -> None:
        """Have a call fail in which a condition does not hold."""
        self.steps.append({"require": condition, "message": message})

    def allocate(self, array: PlannedArray) -> None:
        """Take memory for an array."""
        self.steps.append({"allocate": array.name, "bytes": array.bytes})

    def copy(self, origin: PlannedArray, target: PlannedArray) -> None:
        """Copy an array into another one's memory, where that is not its own."""
        if origin.name != target.name:
            self.steps.append({"copy": target.name, "array": origin.name, "bytes": origin.bytes})

    def number_of(self, array: PlannedArray, at: int = 0) -> Count:
        """The integer at a place of an array, which the host reads where it is not known."""
        if array.number is not None:
            return array.number
        name = self.fresh("number")
        self.steps.append({"read": name, "array": array.name, "dtype": array.dtype, "at": at})
        return name

    def new(self, wanted: str, like: PlannedArray) -> PlannedArray:
        """Memory for another array of the same kind."""
        made = PlannedArray(self.fresh(wanted), like.dtype, like.shape)
        self.allocate(made)
        return made
