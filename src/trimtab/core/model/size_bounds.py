"""Bounds on the size of pods and autoscalers, so that the work for one review is bounded.

Each is about ten times what clusters have. A pod beyond them is admitted as it is, and a new
autoscaler beyond them is refused; objects that are stored already keep working.
"""

from typing import Final

MAX_CONTAINERS: Final = 200
"""Containers of a pod that admission sizes, init containers included."""
MAX_NODE_DEMANDS: Final = 100
"""Labels, expressions and tolerations with which a pod chooses nodes."""
MAX_ANNOTATION_BYTES: Final = 256 * 1024
"""Size of all annotations of an object; the API server refuses more."""
ANNOTATION_BYTES_PER_CONTAINER: Final = 1024
"""Generous size of the annotations that admission adds for one container."""
MAX_POLICIES: Final = 300
"""Container policies of an autoscaler."""
MAX_EXPRESSIONS: Final = 50
"""Labels, and expressions, of a selector."""
MAX_VALUES: Final = 500
"""Values of one expression."""
MAX_REQUIREMENTS: Final = 20
"""Eviction requirements of an autoscaler, and resources of one."""
MAX_RESOURCES: Final = 50
"""Resources that one list or map of an autoscaler names."""
MAX_RECOMMENDERS: Final = 10
MAX_NAME_CHARACTERS: Final = 253
"""Length of the longest name of an object."""
MAX_KEY_CHARACTERS: Final = 317
"""Length of the longest key of a label, and of the longest API version."""
MAX_VALUE_CHARACTERS: Final = 63
"""Length of the longest value of a label."""
