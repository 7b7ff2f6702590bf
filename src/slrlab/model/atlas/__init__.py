"""Published attention activations, each with its formula, source and limits.

Importing a module of this package registers its activations by name.
"""

from slrlab.model.atlas import (
    elementwise as elementwise,
)
from slrlab.model.atlas import (
    length_dependent as length_dependent,
)
from slrlab.model.atlas import (
    normalised as normalised,
)
from slrlab.model.atlas import (
    ordered as ordered,
)
from slrlab.model.atlas import (
    paper as paper,
)
from slrlab.model.atlas import (
    projections as projections,
)
from slrlab.model.atlas import (
    ratios as ratios,
)
