"""Deployment files with replicas that follow the load."""

from . import paths


def scaled_spec(app="staged", **config):
    """`staged` with this autoscaling_config, which acts at once unless it says something else."""
    config = {"upscale_delay_s": 0, "downscale_delay_s": 0, "target_ongoing_requests": 1, **config}
    return {"applications": [{"name": "shop", "import_path": f"{app}:app", "working_dir": str(paths.APPS),
                              "deployments": [{"name": app, "autoscaling_config": config}]}]}
