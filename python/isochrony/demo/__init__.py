"""``isochrony demo``: the main job from end to end, on recordings it makes or is pointed at."""
