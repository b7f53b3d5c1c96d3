"""What has to be known of the components' commands before any of them is imported."""

from typing import Final

COMPONENTS: Final = {
    "recommender": "recommender.recommend",
    "updater": "updater.update",
    "admission-controller": "admission.admit",
    "roles": "roles.keep_roles",
    "run": "run.run_all",
}
"""What runs for weeks in many clusters, and has to be small: by name, its module and command."""
VARIABLES: Final = "TRIMTAB_"
"""With what the environment variables begin by which their flags can be set."""
STRAY: Final = "stray"
"""Their argument for all that no flag takes."""
