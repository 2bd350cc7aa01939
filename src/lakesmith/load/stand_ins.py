"""Stand-ins for Spark while Python files load: imports are free, and using Spark is an error."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lakesmith.errors import DeclarationError

PACKAGES = ("pyspark", "delta")

# Values that need no session, which people write at the top of a file.
_PURE_MODULES = ("pyspark.sql.types", "pyspark.sql.udf", "pyspark.storagelevel")
_PURE_NAMES = frozenset(
    (
        "udf",
        "pandas_udf",
        "arrow_udf",
        "udtf",
        "arrow_udtf",
        "StorageLevel",
        "Row",
    )
)

# A star import needs a list of names. Those that matter at load time are enough: the others are
# resolved when the function runs, with the real module.
_STAR = {
    "pyspark.sql.types": [
        "ArrayType",
        "BinaryType",
        "BooleanType",
        "ByteType",
        "CharType",
        "DataType",
        "DateType",
        "DayTimeIntervalType",
        "DecimalType",
        "DoubleType",
        "FloatType",
        "IntegerType",
        "LongType",
        "MapType",
        "NullType",
        "Row",
        "ShortType",
        "StringType",
        "StructField",
        "StructType",
        "TimestampNTZType",
        "TimestampType",
        "VarcharType",
        "VariantType",
        "YearMonthIntervalType",
    ],
    "pyspark.sql.functions": [
        "array",
        "broadcast",
        "coalesce",
        "col",
        "column",
        "concat",
        "count",
        "current_date",
        "current_timestamp",
        "date_trunc",
        "expr",
        "lit",
        "max",
        "min",
        "pandas_udf",
        "round",
        "struct",
        "sum",
        "to_date",
        "to_timestamp",
        "trim",
        "udf",
        "udtf",
        "when",
    ],
    "pyspark.sql": ["Column", "DataFrame", "Row", "SparkSession", "Window", "WindowSpec"],
}


class StandIn:
    """A name from Spark. It can be passed on, annotated with and inherited from, but not used."""

    def __init__(self, name: str, *, pure: bool = False) -> None:
        self._name = name
        self._pure = pure

    def __getattr__(self, attribute: str) -> StandIn:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        name = f"{self._name}.{attribute}"
        return StandIn(name, pure=self._pure or _is_pure(name))

    def __call__(self, *arguments: object, **named: object) -> StandIn:
        if not self._pure:
            raise self._used()
        return StandIn(f"{self._name}()", pure=True)

    def __getitem__(self, item: object) -> StandIn:
        return StandIn(f"{self._name}[…]", pure=self._pure)

    def __or__(self, other: object) -> StandIn:
        return self

    __ror__ = __or__

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return ()

    def __iter__(self) -> Iterator[StandIn]:
        raise self._used()

    def _used(self) -> DeclarationError:
        return DeclarationError(
            "spark-while-loading",
            f"{self._name} is used while the file loads, before Spark exists",
            hint="move it into the function that returns the table's rows",
        )

    def __repr__(self) -> str:
        return f"<{self._name}, standing in while declarations are loaded>"


class _StandInModule(types.ModuleType):
    """A module from which every name can be imported."""

    def __getattr__(self, attribute: str) -> object:
        if attribute == "__version__":
            # Slow to import, and rarely used.
            from importlib import metadata

            return metadata.version(self.__name__)
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        name = f"{self.__name__}.{attribute}"
        return StandIn(name, pure=_is_pure(name))


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a stand-in for each module of Spark and Delta."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in PACKAGES:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _StandInModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        names = _STAR.get(module.__name__)
        if names is not None:
            module.__dict__["__all__"] = names


def _is_pure(name: str) -> bool:
    return name.startswith(_PURE_MODULES) or name.rpartition(".")[2] in _PURE_NAMES


@contextmanager
def standing_in() -> Iterator[None]:
    """Replace imports of Spark by stand-ins inside the context, and restore earlier imports afterwards."""
    real = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in PACKAGES}
    for name in real:
        del sys.modules[name]
    finder = _Finder()
    before = set(sys.modules)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _forget(before)
        sys.modules.update(real)


def _forget(before: set[str]) -> None:
    """Unload the stand-ins, and the packages that hold a reference to one."""
    new = [name for name in sys.modules if name not in before]
    tainted = {name.partition(".")[0] for name in new if _holds_stand_in(sys.modules[name])}
    for name in new:
        if name.partition(".")[0] in tainted:
            del sys.modules[name]


def _holds_stand_in(module: types.ModuleType) -> bool:
    return isinstance(module, _StandInModule) or any(
        isinstance(value, StandIn | _StandInModule) for value in vars(module).values()
    )
