"""PEP 517 backend: setuptools with the cffi modules of `build_engine.py` and `build_front.py`.

setuptools takes `cffi_modules` only as a keyword of `setup()`, which pyproject.toml cannot express, so this
backend passes such keywords and leaves everything else to `setuptools.build_meta`.
"""

import setuptools
from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403


def _setup_with_cffi(self, setup_script="setup.py"):  # type: ignore[no-untyped-def]
    setuptools.setup(
        cffi_modules=["native/build_engine.py:ffibuilder", "native/build_front.py:ffibuilder"],
        # Both modules keep to the stable interface: one wheel is for 3.11 and all that come after it.
        options={"bdist_wheel": {"py_limited_api": "cp311"}},
    )


build_meta._BuildMetaBackend.run_setup = _setup_with_cffi  # type: ignore[method-assign]
