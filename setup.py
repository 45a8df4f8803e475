"""Lists the packages, which pyproject.toml cannot where folders are mapped."""

from setuptools import find_packages, setup

FOLDERS = {
    "tvm_iree_ext": "tvm_iree_ext",
    "tvm_iree_ext.schedules": "schedules",
    "tvm_iree_ext.tuning": "tuning",
}

setup(
    packages=[
        name
        for package, folder in FOLDERS.items()
        for name in [package, *(f"{package}.{inside}" for inside in find_packages(folder))]
    ]
)
