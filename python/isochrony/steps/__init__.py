"""Steps of plans: what every plan is, and the methods of `isochrony.Plan`, by subject."""
