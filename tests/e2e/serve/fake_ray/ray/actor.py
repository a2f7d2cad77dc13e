class ActorHandle:
    killed = False
