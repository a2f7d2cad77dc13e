"""Ray Serve's module of this name: none of it is there yet."""

TYPE_CHECKING = False  # as typing's, which need not be loaded for it
if not TYPE_CHECKING:  # to a type checker every name would be a known one
    from . import _not_yet

    __getattr__ = _not_yet.refuse("task_consumer", _not_yet.NO_TASK_CONSUMERS, "task_consumer", "task_handler",
                                  "instantiate_adapter_from_config")  # fmt: skip
