def list_actors(address=None, filters=None, limit=100, timeout=30, detail=False, raise_on_missing_output=True, _explain=False):
    return [{"name": "theirs", "class_name": "Theirs", "state": "ALIVE"}]
