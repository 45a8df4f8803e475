"""What is imported when it is first used: names of a package, and methods from above a class."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm_iree_ext.base.suggestions import did_you_mean
from tvm_iree_ext.base.versions import RUNTIME, WHOLE


def on_demand(
    namespace: dict[str, Any], names: Sequence[str], modules: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's ``__getattr__`` and ``__dir__``.

    Args:
        namespace: the package's ``globals()``; what is found is kept there.
        names: all that the package offers.
        modules: submodules, with the names that lie in them, or which they are; a name in none is a
            submodule of the package itself.
    """
    package = namespace["__name__"]
    homes = {name: module for module, inside in modules.items() for name in inside}

    def find(name: str) -> Any:
        if name not in names:
            hint = did_you_mean(name, names)
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}", name=name)
        home = homes.get(name, name)
        try:
            module = importlib.import_module(f"{package}.{home}")
        except ModuleNotFoundError as error:
            if error.name is None or not f"{package}.{home}.".startswith(f"{error.name}."):
                raise
            raise ModuleNotFoundError(
                f"{package}.{name} is no part of {RUNTIME}, which is installed here; it comes with"
                f" {WHOLE}",
                name=error.name,
            ) from None
        is_module = name not in homes or (home.endswith(f".{name}") and not hasattr(module, name))
        namespace[name] = module if is_module else getattr(module, name)
        return namespace[name]

    return find, lambda: sorted(names)


def method_from(module: str, name: str) -> Callable[..., Any]:
    """A method whose function takes the object, and lies in a module above that of its class.

    So an object can be shown by what is written for it, such as a picture of a layout; no module
    of the class's floor knows more of that than the name.
    """

    def method(self: Any) -> Any:
        return getattr(importlib.import_module(module), name)(self)

    method.__doc__ = f"As :func:`{module}.{name}` says."
    return method
