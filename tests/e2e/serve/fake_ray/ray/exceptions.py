class RayError(Exception):
    pass


class TaskCancelledError(RayError):
    def __init__(self, task_id=None, error_message=None):
        self.task_id, self.error_message = task_id, error_message

    def __str__(self):
        return "theirs"


class RayActorError(RayError):
    def __init__(self, actor_id=None, error_msg="theirs"):
        self.actor_id, self.error_msg = actor_id, error_msg

    def __str__(self):
        return self.error_msg


class ActorDiedError(RayActorError):
    def __init__(self, cause=None):
        super().__init__(None, "theirs")


class ActorUnavailableError(RayActorError):
    def __init__(self, error_message, actor_id):
        super().__init__(actor_id, error_message)


class RayTaskError(RayError):
    def __init__(self, function_name, traceback_str, cause, proctitle=None, pid=None, ip=None):
        self.function_name, self.traceback_str, self.cause = function_name, traceback_str, cause

    def __str__(self):
        return "theirs"


class GetTimeoutError(RayError, TimeoutError):
    pass
